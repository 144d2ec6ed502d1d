"""The layer's metrics among those of a program that uses Powertools Metrics."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from oncekey.telemetry import watching
from oncekey.telemetry.metrics import CATALOGUE

if TYPE_CHECKING:
    from aws_lambda_powertools.metrics import EphemeralMetrics, Metrics

_logger = logging.getLogger("oncekey")
_UNITS = {metric.name: metric.unit for metric in CATALOGUE}


def share_metrics(metrics: Metrics | EphemeralMetrics) -> None:
    """Add the layer's metrics to `metrics`, which emits them with yours, in one line.

    Call it once, beside the handler, and decorate the handler with `metrics.log_metrics`: without
    that, nothing emits them. They then have the namespace and the dimensions of `metrics`, and no
    dimension `operation`. ONCEKEY_METRICS_NAMESPACE need not be set, and changes nothing.
    """
    watching.give(_Shared(metrics))


class _Shared:
    """A `Meter` that adds to metrics of Powertools."""

    def __init__(self, metrics: Metrics | EphemeralMetrics) -> None:
        self._metrics = metrics

    def add(self, name: str, _operation: str, _tenant: str, value: float) -> None:
        """See `Meter.add`."""
        try:
            self._metrics.add_metric(name=name, unit=_UNITS[name], value=value)
        except Exception as error:  # noqa: BLE001 -- a request does not fail for want of metrics
            _metrics_failed(type(error).__name__)

    def flush(self, _now_ms: int, _operation: str | None, _tenant: str) -> None:
        """Powertools emits them."""


@lru_cache(maxsize=16)
def _metrics_failed(error: str) -> None:
    """Powertools refused a metric of the layer; logged once for each kind of error.

    To do: set up the `Metrics` that `share_metrics` was given: they need a namespace.
    """
    _logger.warning("oncekey metrics-failed: %s", error, extra={"oncekey_event": "metrics-failed"})
