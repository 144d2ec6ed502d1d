"""The alarm of a function that its schedule does not call, and how long its periods are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_cloudwatch as cloudwatch

from .alarm_set import FAILURE_PERIOD, within_a_week

if TYPE_CHECKING:
    from aws_cdk import Duration

    from .alarm_set import AlarmSet
    from .idempotent_function import IdempotentFunction

# Fewer runs may be late, or lost with a host.
_MISSED_RUNS = 3


def period_of(every: Duration, function: IdempotentFunction) -> Duration:
    """A period in which a function that runs `every` so often has a run.

    Raises:
        ValueError: It runs less often than once a week.
    """
    if within_a_week(1, every) < 1:
        raise ValueError(
            f"{function.node.path!r} runs every {every.to_days(integral=False):g} days, and an"
            " alarm looks back a week at most: watch it in another way, or let it run each week"
        )
    return every if every.to_seconds() > FAILURE_PERIOD.to_seconds() else FAILURE_PERIOD


def add_absent_alarm(
    alarms: AlarmSet,
    function: IdempotentFunction,
    name: str,
    runs: cloudwatch.IMetric,
    period: Duration,
) -> None:
    """Add the alarm for a function that does not run, by its `runs` in a `period`."""
    # Without runs there is no metric, so missing data sets off the alarm.
    alarms.add(
        function,
        name,
        "Absent",
        runs,
        threshold=1,
        periods=within_a_week(_MISSED_RUNS, period),
        missing=cloudwatch.TreatMissingData.BREACHING,
        comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        advice=(
            f"Function {name} does not run, or no run comes to its end, and its work waits."
            " Check that its EventBridge rule is enabled and may invoke it, that its reserved"
            " concurrency is not 0, and what its log shows."
        ),
    )
