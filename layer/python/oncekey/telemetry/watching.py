"""What watches the layer in this process: metrics, if they are on.

The layer counts its events here. If nothing watches, an event costs one comparison, and neither the
catalogue of metrics nor anything else is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.environment import OncePerEnvironment, environment

if TYPE_CHECKING:
    from oncekey.telemetry.metrics import Meter

# A meter that the program has given, and the one in use.
_given: Meter | None = None
_meter: Meter | None = None


def look_again() -> None:
    """Turn metrics on or off, as the environment says.

    It is called when an operation meets a new environment, and at the beginning of each run of a
    relay, a worker or a reconciler.
    """
    global _meter  # noqa: PLW0603 -- one process has one environment
    _meter = _given or _of_the_environment()


def give(meter: Meter | None) -> None:
    """Use `meter` from now on, whatever the environment says; None: as the environment says."""
    global _given  # noqa: PLW0603 -- as above
    _given = meter
    look_again()


def is_measured() -> bool:
    """Whether metrics are on."""
    return _meter is not None


def count(metric: str, operation: str = "", value: float = 1) -> None:
    """Add `value` to a metric of the catalogue. It is emitted by the next `flush`."""
    if _meter is not None:
        _meter.add(metric, operation, value)


def flush(now_ms: int, operation: str | None = None) -> None:
    """Emit what was counted since the last time: for one operation, or for all by default.

    There is one line at most for each operation.
    """
    if _meter is not None:
        _meter.flush(now_ms, operation)


def _made() -> Meter | None:
    variables = environment().variables
    if not variables.get("ONCEKEY_METRICS_NAMESPACE", "").strip():
        return None
    from oncekey.telemetry.metrics import EmfMeter, service_name

    return EmfMeter(variables["ONCEKEY_METRICS_NAMESPACE"].strip(), service_name(variables))


_of_the_environment = OncePerEnvironment(_made)
