"""The metrics: which there are, when they appear, and that they cost nothing where they are off."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, StillUnknown, single_tenant
from oncekey.errors import StoreError
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.sweep import OutboxSweep
from oncekey.outbox.worker import Worker
from oncekey.queued import OperationStatus
from oncekey.record.pause import Pause, PauseScope
from oncekey.record.transitions import Complete, Reserve
from oncekey.telemetry.metrics import CATALOGUE
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.async_world import status_event
from tests.support.emitted import NAMESPACE, SERVICE
from tests.support.events import with_body
from tests.support.function_calls import Calls
from tests.support.memory_outbox import MemoryOutbox, stream_of, waiting
from tests.support.protected import Protected, fails, while_running
from tests.support.queue_events import delivery, message
from tests.support.quotas import Metered
from tests.support.reconciled import PAID, Unrecorded, knows, reconciles
from tests.support.steps import POST, FaultyStore
from tests.support.strict_sqs import StrictSqs

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.emitted import Emitted, Line

AWAY = StoreError("ThrottlingException", transient=True)


class Away(MemoryStore):
    """A store that fails for one kind of transition."""

    def __init__(self, kind: type) -> None:
        super().__init__()
        self._kind = kind

    def write(self, transition: Any) -> Any:
        """Write, or fail."""
        if isinstance(transition, self._kind):
            raise AWAY
        return super().write(transition)


def answered() -> Protected:
    """A service with one completed record."""
    service = Protected()
    service.send(POST)
    return service


def slow() -> Protected:
    """A service whose handler takes a quarter of its time."""
    service = Protected(timeout_ms=10_000)

    def handler(_event: object, _op: object) -> Line:
        service.clock.advance(2_500)
        return {"statusCode": 201}

    service.then = handler
    service.send(POST)
    return service


def repeated(**options: Any) -> None:
    """A request whose process was killed, and its repeat after the lease."""
    service = Unrecorded(**options)
    service.is_killed()
    service.clock.advance(100_000)
    service.send(POST)


def failed_first() -> None:
    """A handler that proves that it did nothing, and a retry."""
    calls = Calls(not_executed=ValueError)
    calls.then = lambda _record: int("x")
    with pytest.raises(ValueError, match="invalid literal"):
        calls.call({"id": "1"})
    calls.then = None
    calls.call({"id": "1"})


def raised() -> None:
    """A handler that raises, so that nobody knows what it did."""
    service = Protected()
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)


def relays() -> None:
    """A relay that sends three messages."""
    messages = [waiting(number) for number in range(3)]
    table, sqs = MemoryOutbox(*messages), StrictSqs()
    OutboxRelay(table=table, queue=sqs.queue, clock=ManualClock())(stream_of(messages), None)


def refuses() -> None:
    """A relay whose queue never accepts a message."""
    sqs = StrictSqs()
    sqs.refuses = lambda _body: "InvalidMessageContents"
    table = MemoryOutbox(waiting(1))
    OutboxRelay(table=table, queue=sqs.queue, clock=ManualClock())(stream_of([waiting(1)]), None)


def works() -> None:
    """A worker of two messages whose function raises at one."""

    def work(record: Any, _context: object) -> None:
        if record["messageId"] == "record-1":
            raise ValueError

    Worker(work, queue=StrictSqs().queue, clock=ManualClock())(delivery(message(), message()), None)


def runs(*answers: Any) -> Unrecorded:
    """A reconciler that visits two unknown operations, of which its resolver knows some."""
    service = Unrecorded()
    service.fails("the-key-of-a-request-1")
    service.clock.advance(1_000)
    service.fails("the-key-of-a-request-2")
    service.clock.advance(120_000)
    knows(*answers)
    reconciles(service, waits=False)
    return service


def sweeps() -> None:
    """A reconciler that finds two messages, the older of which has waited for a minute more."""
    service = Unrecorded()
    now_ms = service.clock.now_ms()
    table = MemoryOutbox(
        waiting(1, created_at_ms=now_ms - 120_000), waiting(2, created_at_ms=now_ms - 180_000)
    )
    relay = OutboxRelay(table=table, queue=StrictSqs().queue, clock=service.clock)
    reconciles(service, outbox=OutboxSweep(table=table, relay=relay))


def escalates() -> None:
    """A reconciler without a resolver, and with one turn for each record."""
    service = Unrecorded()
    service.fails()
    for _ in range(3):
        reconciles(service, max_attempts=1, escalations=service.escalations)


def paused() -> None:
    """A request for an operation that an operator has paused."""
    service = Protected()
    service.store.pause(
        Pause(
            scope=PauseScope.OPERATION,
            name="POST /payments",
            reason="The provider is down.",
            by="ops",
            since_ms=service.clock.now_ms(),
        )
    )
    service.send(POST)


# Name of a metric → what makes it appear, and its last value.
APPEARANCES: dict[str, tuple[Callable[[], Any], Any]] = {
    "Reserved": (answered, 1),
    "Replayed": (lambda: answered().send(POST), 1),
    "InProgress": (
        lambda: while_running(service := Protected(), POST, lambda: service.send(POST)),
        1,
    ),
    "KeyReused": (lambda: answered().send(with_body(POST, '{"amount": 2}')), 1),
    "FailedRetried": (failed_first, 1),
    "OutcomeUnknown": (raised, 1),
    "StoreErrors": (lambda: Protected(store=Away(Reserve)).send(POST), 1),
    "LeaseExpired": (repeated, 1),
    "QuotaExceeded": (lambda: Metered(new_keys=1).statuses("a", "b"), 1),
    "Paused": (paused, 1),
    "HandlerDuration": (slow, 2_500),
    "LeaseUsed": (slow, 25.0),
    "LayerDuration": (slow, 0),
    "MessagesSent": (relays, 3),
    "MessagesFailed": (works, 1),
    "MessagesSetAside": (refuses, 1),
    "MessagesResent": (sweeps, 2),
    "ReconcilerRuns": (runs, 1),
    "Visited": (runs, 2),
    "Settled": (runs, 0),
    "VisitsFailed": (runs, 0),
    "Escalated": (escalates, 1),
    "UnknownRecords": (runs, 2),
    "OldestUnknownAge": (runs, 121),
    "OutboxAge": (sweeps, 180),
}


@pytest.mark.requirement("D12")
@pytest.mark.parametrize("name", APPEARANCES)
def test_each_metric_appears_when_its_event_arises(emitted: Emitted, name: str) -> None:
    """Each metric of the catalogue is emitted where its event arises, through the real decorators
    and functions.

    Red when an event is counted nowhere, or twice.
    """
    happens, value = APPEARANCES[name]

    happens()

    lines = emitted.lines()
    values = [line[name] for line in lines if name in line]
    assert values, lines
    assert values[-1] == value


def test_the_catalogue_has_each_metric_that_appears_and_no_other() -> None:
    """The names of the catalogue are those whose appearance is tested."""
    names = [metric.name for metric in CATALOGUE]

    assert sorted(names) == sorted(APPEARANCES)


def test_a_request_emits_one_line_with_its_service_and_its_operation(emitted: Emitted) -> None:
    """One line holds all metrics of a request, for the service and for its operation, in the form
    that CloudWatch reads.

    Red when a metric has a line of its own, or lacks a dimension.
    """
    service = answered()

    (line,) = emitted.lines()
    assert line == {
        "_aws": {
            "Timestamp": service.clock.now_ms(),
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [["service"], ["service", "operation"]],
                    "Metrics": [
                        {"Name": "Reserved", "Unit": "Count"},
                        {"Name": "HandlerDuration", "Unit": "Milliseconds"},
                        {"Name": "LeaseUsed", "Unit": "Percent"},
                        {"Name": "LayerDuration", "Unit": "Milliseconds"},
                    ],
                }
            ],
        },
        "service": SERVICE,
        "operation": "POST /payments",
        "tenant": "single-tenant",
        "Reserved": 1,
        "HandlerDuration": 0,
        "LeaseUsed": 0.0,
        "LayerDuration": 0,
    }


def test_a_call_within_a_request_is_a_line_of_its_own(emitted: Emitted) -> None:
    """A function that a handler calls has its own line, and the request still has one."""
    service, calls = Protected(), Calls()

    def handler(_event: object, _op: object) -> Line:
        calls.call({"id": "1"})
        return {"statusCode": 201}

    service.then = handler
    service.send(POST)

    lines = emitted.lines()
    assert [line["operation"] for line in lines] == ["charge", "POST /payments"]
    assert [line["Reserved"] for line in lines] == [1, 1]


def test_an_end_that_is_not_recorded_is_an_error_of_the_store(emitted: Emitted) -> None:
    """A handler has run, and its answer could not be recorded: this counts as well."""
    Protected(store=Away(Complete)).send(POST)

    assert emitted.values()["StoreErrors"] == 1


def test_a_status_that_cannot_be_read_is_an_error_of_the_store(emitted: Emitted) -> None:
    """A function may have no other handler than that of `GET /operations/{operation_id}`.

    Red when no line is ever emitted there, and its alarm sees nothing.
    """
    store = FaultyStore()
    store.refuse("fetch")
    status = OperationStatus(tenant=single_tenant(), store=store, clock=ManualClock())

    status(status_event("0f8fad5b-d9cb-469f-a165-70867728950e"), None)

    (line,) = emitted.lines()
    assert (line["StoreErrors"], line["operation"]) == (1, "GET /operations")


def test_a_service_that_is_down_is_counted_while_its_breaker_refuses(emitted: Emitted) -> None:
    """Requests that are refused without a call to the store count like those before them.

    Red when an outage looks over as soon as the breaker opens.
    """
    service = Protected(store=Away(Reserve))
    for _ in range(4):
        service.send(POST)
    emitted.lines()

    service.send(POST)

    assert emitted.values() == {"StoreErrors": 1}


def test_a_settled_record_is_no_longer_unknown(emitted: Emitted) -> None:
    """What a run settles counts as settled, and the rest as unknown."""
    runs(Completed(PAID), StillUnknown())

    values = emitted.values()
    assert (values["Settled"], values["UnknownRecords"]) == (1, 1)


def test_the_variable_of_the_layer_names_the_service_before_that_of_powertools(
    emitted: Emitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ONCEKEY_METRICS_SERVICE` wins; without either variable, the name is Powertools' own."""
    monkeypatch.setenv("ONCEKEY_METRICS_SERVICE", "refunds")
    answered()
    assert [line["service"] for line in emitted.lines()] == ["refunds"]

    monkeypatch.delenv("ONCEKEY_METRICS_SERVICE")
    monkeypatch.delenv("POWERTOOLS_SERVICE_NAME")
    answered()
    assert [line["service"] for line in emitted.lines()] == ["service_undefined"]


def test_a_dimension_is_printable_ascii_of_a_length_that_cloudwatch_takes(
    emitted: Emitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CloudWatch takes no metric with another dimension: what else is in a name is escaped.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_Dimension.html
    """
    monkeypatch.setenv("ONCEKEY_METRICS_SERVICE", "Zahl\tungen\u00fc")
    service = Protected(operation="POST /gr\u00f6\u00dfen")
    service.send(POST)
    Protected(operation="\U0001f4b6" * 255).send(POST)

    first, second = emitted.lines()
    assert first["service"] == "Zahl\\tungen\\xfc"
    assert first["operation"] == "POST /gr\\xf6\\xdfen"
    assert len(second["operation"]) == 1024
    assert second["operation"].isascii()


def test_without_a_namespace_nothing_is_emitted(
    emitted: Emitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that was measured emits nothing once its namespace is gone."""
    service = answered()
    monkeypatch.delenv("ONCEKEY_METRICS_NAMESPACE")
    emitted.lines()

    service.send(POST)

    assert emitted.lines() == []


def test_a_closed_standard_output_fails_no_request(
    emitted: Emitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is given and recorded, whatever becomes of the metrics."""

    class Closed:
        def write(self, _text: str) -> None:
            raise ValueError("I/O operation on closed file")

    service = Protected()
    monkeypatch.setattr(sys, "stdout", Closed())

    assert service.send(POST)["statusCode"] == 201


def test_where_metrics_are_off_their_module_is_not_loaded() -> None:
    """A decorated function that was called has loaded neither the metrics nor the traces.

    Red when the layer imports them without being asked to.
    """
    script = """
import sys
from oncekey import idempotent_function, single_tenant
from oncekey.testing.memory import MemoryStore

@idempotent_function(operation="x", key="@", tenant=single_tenant(), store=MemoryStore())
def charge(key): return key

charge("a"), charge("a")
print([name for name in sys.modules if "metrics" in name or "opentelemetry" in name])
"""
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )

    assert found.stdout.strip() == "[]"
