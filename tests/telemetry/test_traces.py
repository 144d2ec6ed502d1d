"""One trace has all that became of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from oncekey import Completed, Operation, idempotent_function, settle, single_tenant
from oncekey.outbox.envelope import sealed, unsealed
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.worker import Worker
from oncekey.record.references import reference_to
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from oncekey.store.dynamodb.outbox import message_from_item, message_item
from oncekey.testing.memory import MemoryStore
from tests.support.events import load, with_body, with_key
from tests.support.every_outcome import CONTENTS, TEXT
from tests.support.every_outcome import POST as TELLING
from tests.support.hooks import Hook
from tests.support.memory_outbox import MemoryOutbox, stream_of, waiting
from tests.support.protected import Protected, fails
from tests.support.queue_events import delivery, message
from tests.support.reconciled import PAID, Unrecorded, knows, reconciles
from tests.support.records import record
from tests.support.replacing import replace
from tests.support.strict_sqs import StrictSqs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

POST = load("apigw_http_v2_post")


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What the program's SDK exports while traces are on."""
    found = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setenv("ONCEKEY_TRACES", "on")
    yield found
    provider.shutdown()


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """The spans that have ended, by name; of several with one name, the last."""
    return {span.name: span for span in exporter.get_finished_spans()}


def raises(error: Exception) -> Callable[[Any, Any], object]:
    """A worker's function that raises `error`."""

    def work(_record: object, _context: object) -> object:
        raise error

    return work


def trace_of(span: ReadableSpan) -> int:
    """The trace that a span belongs to."""
    return _context_of(span).trace_id


def id_of(span: ReadableSpan) -> int:
    """The id of a span."""
    return _context_of(span).span_id


def _context_of(span: ReadableSpan) -> SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def parent_of(span: ReadableSpan) -> int | None:
    """The id of the span's parent."""
    return span.parent.span_id if span.parent is not None else None


def links_of(span: ReadableSpan) -> list[int]:
    """The traces that a span is linked to."""
    return [link.context.trace_id for link in span.links]


def test_one_trace_joins_request_relay_and_worker(exporter: InMemorySpanExporter) -> None:
    """A request publishes a message. The relay that sends it, the worker that receives it and the
    function that the worker calls have spans in the trace of the request.

    Red when the message does not carry the span of its request.
    """
    service = Protected(effects="recorded")

    def handler(_event: object, op: Operation) -> dict[str, Any]:
        op.outbox.publish("payment.requested", {"id": "1"})
        return {"statusCode": 202}

    service.then = handler
    service.send(POST)
    (published,) = service.store.messages
    sqs, table = StrictSqs(), MemoryOutbox(published)
    OutboxRelay(table=table, queue=sqs.queue, clock=service.clock)(stream_of([published]), None)

    @idempotent_function(
        operation="charge", key="messageId", tenant=single_tenant(), store=MemoryStore()
    )
    def charge(record: Any) -> None:
        with trace.get_tracer("provider").start_as_current_span("call the provider"):
            assert record

    Worker(lambda record, _context: charge(record), queue=sqs.queue, clock=service.clock)(
        delivery(sealed(published)), None
    )

    found = spans(exporter)
    request = found["oncekey POST /payments"]
    assert {trace_of(span) for span in found.values()} == {trace_of(request)}
    assert parent_of(found["oncekey send"]) == id_of(request)
    assert parent_of(found["oncekey work"]) == id_of(request)
    work, call = found["oncekey work"], found["oncekey charge"]
    assert parent_of(call) == id_of(work)
    assert parent_of(found["call the provider"]) == id_of(call)


def test_what_is_found_out_about_a_request_is_in_its_trace(
    exporter: InMemorySpanExporter,
) -> None:
    """A resolver that a reconciler asks, and what it calls, have spans in the trace of the request.

    Red when the record does not carry the span of its request.
    """
    service = Unrecorded()
    service.fails()
    knows(traced_answer)
    reconciles(service)

    found = spans(exporter)
    request, asked = found["oncekey POST /payments"], found["oncekey resolve"]
    assert parent_of(asked) == id_of(request)
    assert parent_of(found["ask the provider"]) == id_of(asked)
    assert trace_of(found["ask the provider"]) == trace_of(request)


def traced_answer() -> Completed:
    """What a resolver finds, by a call that has a span."""
    with trace.get_tracer("provider").start_as_current_span("ask the provider"):
        return Completed(PAID)


def test_a_webhook_that_settles_a_request_is_in_its_trace(exporter: InMemorySpanExporter) -> None:
    """A settlement has a span in the trace of the request, and a link to the span of the worker
    that has settled it.

    Red when a settlement begins a trace of its own.
    """
    service = Unrecorded()
    service.fails()
    (stored,) = service.store.records.values()
    service.clock.advance(200_000)
    with trace.get_tracer("webhooks").start_as_current_span("an event of the provider"):
        settle(
            reference_to(stored),
            Completed(PAID),
            store=service.store,
            clock=service.clock,
        )

    found = spans(exporter)
    request, settled = found["oncekey POST /payments"], found["oncekey settle"]
    assert trace_of(settled) == trace_of(request)
    assert parent_of(settled) == id_of(request)
    assert links_of(settled) == [trace_of(found["an event of the provider"])]


def test_an_event_that_a_webhook_accepts_is_one_trace_with_its_work(
    exporter: InMemorySpanExporter,
) -> None:
    """A webhook has a span, and the worker of the event that it accepted is in the same trace.

    Red when the message of an event carries no span.
    """
    hook = Hook()
    hook.send()
    (published,) = hook.store.messages
    Worker(lambda _record, _context: None, queue=StrictSqs().queue, clock=hook.clock)(
        delivery(sealed(published)), None
    )

    found = spans(exporter)
    accepted = found["oncekey POST /webhooks"]
    assert parent_of(found["oncekey work"]) == id_of(accepted)


def test_a_record_and_a_message_keep_their_span_in_the_table() -> None:
    """What is read of the items of a traced record and of its message is what was written.

    Red when the item of one of them drops the span.
    """
    traced = replace(record(), traceparent="00-1-2-01")
    written = waiting(1, traceparent="00-1-2-01")

    assert record_from_item(attribute_values(traced)) == traced
    assert message_from_item(message_item(written)) == written
    assert unsealed(sealed(written)).traceparent == "00-1-2-01"


def test_a_replay_is_linked_to_the_request_that_ran(exporter: InMemorySpanExporter) -> None:
    """A replay is a trace of its own, with a link to that of the first request."""
    service = Protected()
    service.send(POST)
    service.send(POST)

    first, second = exporter.get_finished_spans()
    assert trace_of(first) != trace_of(second)
    assert links_of(second) == [trace_of(first)]
    outcomes = [dict(span.attributes or {})["oncekey.outcome"] for span in (first, second)]
    assert outcomes == ["ran", "replayed"]


def test_no_span_has_contents_of_a_request(exporter: InMemorySpanExporter) -> None:
    """Neither the key, nor the body, nor the text of an error is in a span.

    Red when an exception is recorded with its text.
    """
    service = Protected()
    service.send(TELLING)
    service.send(with_body(TELLING, "{}"))
    service.then = fails(ValueError(TEXT))
    with pytest.raises(ValueError, match=TEXT):
        service.send(with_key(TELLING, "another-key-of-the-client"))
    Worker(raises(ValueError(TEXT)), queue=StrictSqs().queue, clock=service.clock)(
        delivery(message()), None
    )

    told = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "ValueError" in told
    assert [text for text in CONTENTS if text in told] == []


def test_without_the_variable_there_are_no_spans(
    exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where OpenTelemetry is installed and set up, the layer still begins no span unasked."""
    monkeypatch.setenv("ONCEKEY_TRACES", "off")
    service = Protected()
    service.send(POST)

    assert exporter.get_finished_spans() == ()
    assert [each.traceparent for each in service.store.records.values()] == [""]
