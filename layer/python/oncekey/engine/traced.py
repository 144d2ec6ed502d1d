"""The span of one attempt of a request. It is loaded only where traces are on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.outcome import Failed, Outcome, Refusal, Replayed, Unrecorded
from oncekey.telemetry import tracing, watching

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from oncekey.flow.commands import Flow


async def traced(flow: Flow[Outcome], operation: str) -> Outcome:
    """The outcome of `flow`, whose handler runs inside a span of this `operation`."""
    begun = watching.tracing()
    if begun is None:
        return await flow
    about = {"oncekey.operation": operation}
    with begun.span(f"oncekey {operation}", attributes=about) as span:
        outcome = await flow
        _note(span, outcome)
        return outcome


def _note(span: Span, outcome: Outcome) -> None:
    span.set_attribute("oncekey.outcome", _name(outcome))
    if isinstance(outcome, Failed):
        tracing.failed(span, outcome.error)
        return
    record = None if isinstance(outcome, Unrecorded) else outcome.record
    if record is not None:
        span.set_attribute("oncekey.operation_id", record.operation_id)
        span.set_attribute("oncekey.attempt", record.attempt)
        # A replay, a refusal or a later attempt belongs to what another request began.
        tracing.link(span, record.traceparent)


def _name(outcome: Outcome) -> str:
    match outcome:
        case Replayed():
            return "replayed"
        case Refusal():
            return outcome.reason.value
        case Failed():
            return "failed"
        case _:
            return "ran"
