"""The metrics: their names, units and meanings, and how they are emitted.

This module is loaded only where ONCEKEY_METRICS_NAMESPACE names a namespace, or where a program
hands over its Powertools `Metrics`. Alarms and dashboards are made from the names in `CATALOGUE`.
"""

from __future__ import annotations

import json
import sys
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each metric of a request is emitted twice: for the whole service, and for each operation. An alarm
# needs the first, because CloudWatch does not add up the second for it.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html#Dimension
OF_REQUESTS = (("service",), ("service", "operation"))
OF_THE_SERVICE = (("service",),)

COUNT, MILLISECONDS, SECONDS, PERCENT = "Count", "Milliseconds", "Seconds", "Percent"


class Metric(Value):
    """One metric. Units are those of CloudWatch.

    Attributes:
        name: its name in CloudWatch.
        unit: its unit in CloudWatch.
        meaning: what one more of it, or its value, says.
        dimensions: the sets of dimensions that it is emitted with.
    """

    name: str
    unit: str
    meaning: str
    dimensions: tuple[tuple[str, ...], ...]


def _of_requests(name: str, meaning: str, unit: str = COUNT) -> Metric:
    return Metric(name, unit, meaning, OF_REQUESTS)


def _of_the_service(name: str, meaning: str, unit: str = COUNT) -> Metric:
    return Metric(name, unit, meaning, OF_THE_SERVICE)


CATALOGUE: tuple[Metric, ...] = (
    _of_requests("Reserved", "A new key was reserved, or accepted for a worker."),
    _of_requests("Replayed", "A stored answer was replayed."),
    _of_requests("InProgress", "A request was refused, because the first one still runs."),
    _of_requests(
        "KeyReused",
        "A request was refused, because its key belongs to another request. Many of these mean a"
        " faulty client, or an attack.",
    ),
    _of_requests(
        "FailedRetried", "An attempt began on a key whose earlier attempt had no final answer."
    ),
    _of_requests(
        "OutcomeUnknown",
        "An attempt ended, and nobody knows what it did; or a request was refused for that reason.",
    ),
    _of_requests(
        "StoreErrors",
        "A request was refused, or its end was not recorded, because the store failed.",
    ),
    _of_requests("LeaseExpired", "An attempt was found dead, or its lease was too short."),
    _of_requests("QuotaExceeded", "A request was answered 429."),
    _of_requests("Paused", "A new key was refused, because its operation or tenant is paused."),
    _of_requests("HandlerDuration", "How long the handler ran.", MILLISECONDS),
    _of_requests(
        "LeaseUsed",
        "The part of its time that the handler took. Its time ends with the invocation, or with"
        " its lease if that is sooner.",
        PERCENT,
    ),
    _of_requests(
        "LayerDuration",
        "What the layer added to a request whose handler ran.",
        MILLISECONDS,
    ),
    _of_the_service("MessagesSent", "The relay sent a message to the queue."),
    _of_the_service("MessagesFailed", "A worker failed on a message, which is delivered again."),
    _of_the_service("MessagesSetAside", "A message is set aside and waits for a person."),
    _of_the_service("MessagesResent", "The reconciler sent a message that the relay had left."),
    _of_the_service("ReconcilerRuns", "A run of the reconciler ended."),
    _of_the_service("Visited", "Records that a run visited."),
    _of_the_service("Settled", "Unknown records that a run settled."),
    _of_the_service("VisitsFailed", "Records and messages that a run could not handle."),
    _of_the_service("Escalated", "Records that a run escalated to a person."),
    _of_the_service("UnknownRecords", "Unknown records that a run visited and did not settle."),
    _of_the_service(
        "OldestUnknownAge",
        "The age of the oldest record that a run left unknown; 0 for none.",
        SECONDS,
    ),
    _of_the_service(
        "OutboxAge", "The age of the oldest message that a run found unsent; 0 for none.", SECONDS
    ),
)

_BY_NAME = {metric.name: metric for metric in CATALOGUE}
# The longest list of values of one metric in one line.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
_MOST_VALUES = 100
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_Dimension.html
_LONGEST_DIMENSION = 1024


class Meter(Protocol):
    """What metrics are added to. One object serves all threads of a process."""

    def add(self, name: str, operation: str, tenant: str, value: float, /) -> None:
        """Add `value` to the metric `name` of `operation`. `tenant` is empty if it is not known."""
        ...

    def flush(self, now_ms: int, operation: str | None, tenant: str, /) -> None:
        """Emit what was added for `operation` and `tenant`, or everything. It never raises."""
        ...


class EmfMeter:
    """Writes metrics to standard output, from where CloudWatch reads them.

    Each line is an object in the embedded metric format. Counts are added up. Other metrics keep
    their single values, so that percentiles can be computed.

    A line says whose requests it counts. The tenant is no dimension, because each value of a
    dimension is a metric of its own on the bill; a query of the log adds up by it.
    """

    def __init__(self, namespace: str, service: str) -> None:
        self._namespace = namespace
        self._service = _dimension(service)
        # By operation and tenant.
        self._pending: dict[tuple[str, str], dict[str, list[float]]] = {}
        self._lock = Lock()

    def add(self, name: str, operation: str, tenant: str, value: float) -> None:
        """See `Meter.add`."""
        with self._lock:
            values = self._pending.setdefault((operation, tenant), {}).setdefault(name, [])
            if values and _BY_NAME[name].unit == COUNT:
                values[0] += value
            elif len(values) < _MOST_VALUES:
                values.append(value)

    def flush(self, now_ms: int, operation: str | None, tenant: str) -> None:
        """See `Meter.flush`."""
        with self._lock:
            # A thread of the handler knows no tenant.
            one = dict.fromkeys([(operation or "", tenant), (operation or "", "")])
            asked = [*self._pending] if operation is None else [*one]
            taken = [(each, self._pending.pop(each, None)) for each in asked]
        for each, found in taken:
            if found:
                self._write(_line(self._namespace, self._named(*each), found, now_ms))

    def _named(self, operation: str, tenant: str) -> dict[str, str]:
        dimensions = {"service": self._service, "operation": _dimension(operation)}
        named = {**dimensions, "tenant": tenant}
        return {name: value for name, value in named.items() if value or name == "service"}

    @staticmethod
    def _write(line: dict[str, object]) -> None:
        try:
            # One call for a whole line: another thread may write, too.
            sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
            sys.stdout.flush()
        except (OSError, ValueError):
            # Standard output is closed. A request does not fail for want of metrics.
            return


def _dimension(value: str) -> str:
    """The value as CloudWatch takes it: what is no printable ASCII is escaped."""
    if not (value.isascii() and value.isprintable()):
        value = ascii(value)[1:-1]
    return value[:_LONGEST_DIMENSION]


def _line(
    namespace: str, named: Mapping[str, str], values: Mapping[str, list[float]], now_ms: int
) -> dict[str, object]:
    """The metrics as one object in the embedded metric format."""
    sets: dict[tuple[tuple[str, ...], ...], list[dict[str, str]]] = {}
    for name in values:
        metric = _BY_NAME[name]
        sets.setdefault(metric.dimensions, []).append({"Name": name, "Unit": metric.unit})
    return {
        "_aws": {
            "Timestamp": now_ms,
            "CloudWatchMetrics": [
                {"Namespace": namespace, "Dimensions": list(each), "Metrics": metrics}
                for each, metrics in sets.items()
            ],
        },
        **named,
        **{name: each[0] if len(each) == 1 else each for name, each in values.items()},
    }


def service_name(variables: Mapping[str, str]) -> str:
    """The dimension `service`; without a variable that names it, as Powertools calls it."""
    for name in ("ONCEKEY_METRICS_SERVICE", "POWERTOOLS_SERVICE_NAME"):
        service = variables.get(name, "").strip()
        if service:
            return service
    return "service_undefined"
