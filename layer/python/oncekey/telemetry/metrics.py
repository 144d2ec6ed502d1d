"""The metrics: their names, units and meanings, and how they are emitted.

This module is loaded only where ONCEKEY_METRICS_NAMESPACE names a namespace, or where a program
hands over its Powertools `Metrics`. Alarms and dashboards are made from the names in `CATALOGUE`.
"""

from __future__ import annotations

from oncekey.value import Value

# Each metric of a request is emitted twice: for the whole service, and for each operation. An alarm
# needs the first, because CloudWatch does not add up the second for it.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html#Dimension
OF_REQUESTS = (("service",), ("service", "operation"))
OF_THE_SERVICE = (("service",),)
OF_LEDGERS = (("service", "ledger"),)

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
    _of_the_service("UnknownRecords", "Records that a run visited and that stay unknown."),
    _of_the_service(
        "OldestUnknownAge", "The age of the oldest record that a run left unknown.", SECONDS
    ),
    _of_the_service(
        "OutboxAge", "The age of the oldest message that a run found unsent; 0 for none.", SECONDS
    ),
    Metric(
        "LedgerDifferences",
        COUNT,
        "The findings of a comparison of two ledgers that came to its end.",
        OF_LEDGERS,
    ),
)
