"""What watches the layer in this process: metrics and traces, where they are on.

The layer counts its events here. If nothing watches, an event costs one comparison, and neither the
catalogue of metrics nor OpenTelemetry is loaded.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

from oncekey.environment import OncePerEnvironment, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from oncekey.clock import Clock
    from oncekey.record.record import Record
    from oncekey.telemetry.metrics import Meter
    from oncekey.telemetry.tracing import Tracing

_logger = logging.getLogger("oncekey")

# A meter that the program has given, and the one in use.
_given: Meter | None = None
_meter: Meter | None = None
_tracing: Tracing | None = None
# Whose request is under way in this thread or task, while it is measured.
tenant: ContextVar[str] = ContextVar("oncekey_measured_tenant", default="")


def look_again() -> None:
    """Turn metrics and traces on or off, as the environment says.

    It is called when an operation meets a new environment, for each event of a webhook and each
    request of `OperationStatus`, and at the beginning of each run of a relay, a worker or a
    reconciler.
    """
    global _meter, _tracing  # noqa: PLW0603 -- one process has one environment
    found, _tracing = _of_the_environment()
    _meter = _given or found


def give(meter: Meter | None) -> None:
    """Use `meter` from now on, whatever the environment says; None: as the environment says."""
    global _given  # noqa: PLW0603 -- as above
    _given = meter
    look_again()


def tracing() -> Tracing | None:
    """What begins spans, if traces are on."""
    return _tracing


def traceparent() -> str:
    """The current span, in the form of W3C's header; empty without one, or without traces."""
    return "" if _tracing is None else _tracing.traceparent()


def span_about(record: Record, name: str) -> AbstractContextManager[object]:
    """A span about `record`, in the trace of the request that reserved it; without traces, none."""
    if _tracing is None:
        return nullcontext()
    about = {"oncekey.operation": record.operation, "oncekey.operation_id": record.operation_id}
    return _tracing.span(name, parent=record.traceparent, attributes=about)


def is_measured() -> bool:
    """Whether metrics are on."""
    return _meter is not None


def count(metric: str, operation: str = "", value: float = 1) -> None:
    """Add `value` to a metric of the catalogue. It is emitted by the next `flush`."""
    if _meter is not None:
        _meter.add(metric, operation, tenant.get(), value)


@contextmanager
def counted_for(whose: str, operation: str, clock: Clock) -> Iterator[None]:
    """Count what happens inside the block for this tenant, and emit it for `operation`."""
    around = tenant.get()
    tenant.set(whose)
    try:
        yield
    finally:
        flush(clock.now_ms(), operation)
        # Without a token, which is of no use where a coroutine that was left is closed.
        tenant.set(around)


def flush(now_ms: int, operation: str | None = None) -> None:
    """Emit what was counted since the last time, by default for all operations and tenants.

    With an operation: for that one, and for the tenant of the request that is under way. There is
    one line at most for each operation and tenant.
    """
    if _meter is not None:
        _meter.flush(now_ms, operation, tenant.get())


def _made() -> tuple[Meter | None, Tracing | None]:
    variables = environment().variables
    return _meter_of(variables), _tracing_of(variables)


def _meter_of(variables: Mapping[str, str]) -> Meter | None:
    if not variables.get("ONCEKEY_METRICS_NAMESPACE", "").strip():
        return None
    from oncekey.telemetry.metrics import EmfMeter, service_name

    return EmfMeter(variables["ONCEKEY_METRICS_NAMESPACE"].strip(), service_name(variables))


def _tracing_of(variables: Mapping[str, str]) -> Tracing | None:
    if variables.get("ONCEKEY_TRACES", "").strip().lower() != "on":
        return None
    try:
        from oncekey.telemetry.tracing import Tracing
    except ModuleNotFoundError:
        _traces_unavailable()
        return None
    return Tracing()


def _traces_unavailable() -> None:
    """`ONCEKEY_TRACES` is `on`, and OpenTelemetry is not installed: there are no spans.

    To do: install the extra `oncekey[opentelemetry]`, or remove the variable.
    """
    _logger.warning(
        "oncekey traces-unavailable: install oncekey[opentelemetry]",
        extra={"oncekey_event": "traces-unavailable"},
    )


_of_the_environment = OncePerEnvironment(_made)
