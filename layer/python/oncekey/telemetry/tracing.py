"""Spans of OpenTelemetry, by its API alone. The program sets up the SDK and its exporters.

This module is loaded only where ONCEKEY_TRACES is `on`. A span has no key, no payload, no answer
and no text of an error.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.context import Context

_HEADER = "traceparent"
_propagator = TraceContextTextMapPropagator()


class Tracing:
    """Begins spans, and carries their context in records and messages."""

    @staticmethod
    def traceparent() -> str:
        """The current span, in the form of W3C's header; empty if there is none."""
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        return carrier.get(_HEADER, "")

    @contextmanager
    def span(
        self,
        name: str,
        *,
        parent: str = "",
        kind: str = "INTERNAL",
        attributes: Mapping[str, str | int] | None = None,
    ) -> Iterator[trace.Span]:
        """A span that is current inside the block.

        Its parent is the span that `parent` names, with a link to the current span; or else the
        current one.
        """
        context, links = _context(parent), []
        here = trace.get_current_span().get_span_context()
        if context is not None and here.is_valid:
            links.append(trace.Link(here))
        with _tracer().start_as_current_span(
            name,
            context,
            kind=SpanKind[kind],
            attributes=dict(attributes or {}),
            links=links,
            # The text of an error may repeat a payload.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except BaseException as error:
                failed(span, error)
                raise

    @contextmanager
    def sending(self, parents: Mapping[str, str]) -> Iterator[None]:
        """A span for each message that is sent in the block: its id, and the span it belongs to."""
        spans = [
            _tracer().start_span(
                "oncekey send",
                _context(parent),
                kind=SpanKind.PRODUCER,
                attributes={"messaging.message.id": message_id},
            )
            for message_id, parent in parents.items()
        ]
        try:
            yield
        except BaseException as error:
            for span in spans:
                failed(span, error)
            raise
        finally:
            for span in spans:
                span.end()


def failed(span: trace.Span, error: BaseException) -> None:
    """Note that a span ended with `error`, of which only the type is told."""
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))


def link(span: trace.Span, traceparent: str) -> None:
    """Link `span` to the span of another trace, or none if it is the same trace."""
    context = _context(traceparent)
    if context is None:
        return
    other = trace.get_current_span(context).get_span_context()
    if other.trace_id != span.get_span_context().trace_id:
        span.add_link(other)


def traceparent_in(body: str) -> str:
    """The `traceparent` of a message in a queue; empty if it has none."""
    try:
        found = json.loads(body)
    except (ValueError, TypeError, RecursionError):
        return ""
    value = found.get(_HEADER, "") if isinstance(found, dict) else ""
    return value if isinstance(value, str) else ""


def _context(traceparent: str) -> Context | None:
    return _propagator.extract({_HEADER: traceparent}) if traceparent else None


def _tracer() -> trace.Tracer:
    # It is looked up each time, because the program may set its provider after the first call.
    return trace.get_tracer("oncekey")
