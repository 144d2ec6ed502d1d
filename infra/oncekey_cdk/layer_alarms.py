"""The alarms on the metrics that the layer emits (`oncekey.telemetry.metrics`).

A rate is a part of all requests, so that one threshold fits a small and a large service. Its parts
are added up with SUM, which ignores metrics without data; `+` would then give no value at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from .alarm_set import FAILURE_PERIOD, PERIODS, within_a_week

if TYPE_CHECKING:
    from collections.abc import Sequence

    from constructs import Construct

    from .alarm_set import AlarmSet
    from .metrics import LayerMetrics

_REQUESTS = (
    "Reserved",
    "Replayed",
    "InProgress",
    "KeyReused",
    "FailedRetried",
    "StoreErrors",
)
_SOON, _LATER = FAILURE_PERIOD, Duration.minutes(15)


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """An alarm on one metric, or on an expression over several.

    In an expression a metric is called by its name with a small first letter, and `{requests}` is
    the number of all requests.
    """

    about: str
    metrics: tuple[str, ...]
    expression: str | None = None
    statistic: str = "Sum"
    period: Duration = _SOON
    periods: int = 1
    threshold: float = 0
    advice: str

    def metric(self, source: LayerMetrics, period: Duration) -> cloudwatch.IMetric:
        """What the alarm looks at."""
        metrics = {
            _variable(name): source.metric(name, statistic=self.statistic, period=period)
            for name in self.metrics
        }
        if self.expression is None:
            (metric,) = metrics.values()
            return metric
        requests = f"SUM([{', '.join(_variable(name) for name in _REQUESTS)}])"
        return cloudwatch.MathExpression(
            expression=self.expression.format(requests=requests),
            using_metrics=metrics,
            period=period,
            label=self.about,
        )


OF_SERVICES = (
    _Rule(
        about="StoreErrors",
        metrics=_REQUESTS,
        expression="100 * storeErrors / {requests}",
        threshold=1,
        advice=(
            "The store failed more than 1% of the requests, which got 503 or whose end was not"
            " recorded. Nothing ran twice. Look for store-unavailable in the functions' logs: an"
            " outage passes, a wrong configuration stays until you correct it."
        ),
    ),
    _Rule(
        about="LeaseExpired",
        metrics=("LeaseExpired",),
        period=_LATER,
        threshold=3,
        advice=(
            "Attempts were found dead. Their functions were killed, ran out of memory or time, or"
            " have leases that are too short. Look at the functions' logs, then list what is"
            " unknown."
        ),
    ),
    _Rule(
        about="KeyReused",
        metrics=_REQUESTS,
        # Few are honest mistakes.
        expression="IF(keyReused >= 10, 100 * keyReused / {requests}, 0)",
        threshold=5,
        advice=(
            "Many requests have a key that belongs to another request. A client makes its keys"
            " wrongly, or somebody tries keys. All were refused. Find out which tenant sends them."
        ),
    ),
    _Rule(
        about="ReplayRate",
        metrics=_REQUESTS,
        expression="IF(replayed >= 100, 100 * replayed / {requests}, 0)",
        period=_LATER,
        threshold=50,
        advice=(
            "More than half of the requests are repeats. A client retries answers that it got, or"
            " it does not get them. Find out which one, and what it sees."
        ),
    ),
    _Rule(
        about="LayerLatency",
        metrics=("LayerDuration",),
        statistic="p99",
        periods=PERIODS,
        threshold=1000,
        advice=(
            "The layer adds more than a second to the slowest requests. DynamoDB is slow or"
            " throttles, or the functions have too little memory."
        ),
    ),
    _Rule(
        about="LeaseUsed",
        metrics=("LeaseUsed",),
        statistic="p99",
        periods=PERIODS,
        threshold=80,
        advice=(
            "The slowest handlers use more than 80% of their time. The next slow one is cut off,"
            " and its outcome may be unknown. Find out what is slow, or raise the timeout."
        ),
    ),
    _Rule(
        about="SetAside",
        metrics=("MessagesSetAside",),
        advice=(
            "Messages of the outbox are set aside, because the queue never accepts them. Their work"
            " is not done. Remove the cause, then requeue them."
        ),
    ),
)
OF_RECONCILERS = (
    _Rule(
        about="UnknownAge",
        metrics=("OldestUnknownAge",),
        statistic="Maximum",
        threshold=3600,
        advice=(
            "An operation has been unknown for more than an hour, and no resolver has settled it."
            " Ask the provider what happened, then settle it."
        ),
    ),
    _Rule(
        about="UnknownBacklog",
        metrics=("UnknownRecords",),
        statistic="Maximum",
        threshold=10,
        advice=(
            "More than ten operations are unknown at once. Either the provider does not answer the"
            " resolver, or attempts die. End the cause first; most are then settled by themselves."
        ),
    ),
    _Rule(
        about="VisitsFailed",
        metrics=("VisitsFailed",),
        periods=PERIODS,
        advice=(
            "The reconciler fails on records or messages, run after run. Fix the cause shown by"
            " visit-failed in its log; each record is visited again."
        ),
    ),
)
OF_SWEEPS = (
    _Rule(
        about="OutboxStalled",
        metrics=("MessagesResent",),
        periods=PERIODS,
        advice=(
            "The outbox is stalled: the reconciler has to send its messages, run after run. Check"
            " that the relay's event source is enabled, and fix the cause shown in the relay's log."
        ),
    ),
    _Rule(
        about="OutboxAge",
        metrics=("OutboxAge",),
        statistic="Maximum",
        threshold=900,
        advice=(
            "A message has been in the outbox for more than a quarter of an hour, and neither the"
            " relay nor the reconciler sends it. Fix the cause shown in their logs."
        ),
    ),
)


def add_layer_alarms(
    alarms: AlarmSet,
    watched: Construct,
    name: str,
    rules: Sequence[_Rule],
    source: LayerMetrics,
    *,
    at_least: Duration = FAILURE_PERIOD,
) -> None:
    """Add these alarms on the metrics of one service.

    `at_least` is how often the metrics have values. In shorter periods, some would have none, and a
    rule about several periods in a row would never hold.
    """
    for rule in rules:
        period = max(rule.period, at_least, key=lambda one: one.to_seconds())
        alarms.add(
            watched,
            name,
            rule.about,
            rule.metric(source, period),
            advice=rule.advice,
            threshold=rule.threshold,
            periods=within_a_week(rule.periods, period),
        )


def _variable(name: str) -> str:
    return name[0].lower() + name[1:]
