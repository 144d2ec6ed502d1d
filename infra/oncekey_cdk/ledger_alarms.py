"""The alarms of a comparison with a provider's ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_cloudwatch as cloudwatch

from .alarm_set import FAILURE_PERIOD
from .metrics import NAMESPACE

if TYPE_CHECKING:
    from constructs import Construct

    from .alarm_set import AlarmSet

_DIFFERENCES = "LedgerDifferences"
# What the alarm's name and its metric end with, its section of the runbook, and what to do.
_ENDS = (
    (
        "Different",
        _DIFFERENCES,
        (
            "differs from the provider's. The report in the bucket names each difference. Ask the"
            " provider which side is right, then correct our row or refund the difference."
        ),
    ),
    (
        "OnlyOurs",
        _DIFFERENCES,
        (
            "has rows that the provider does not have. The report in the bucket names them. Ask the"
            " provider whether money has moved, then correct our rows."
        ),
    ),
    (
        "OnlyTheirs",
        _DIFFERENCES,
        (
            "lacks rows that the provider has. The report in the bucket names them. Money has moved"
            " without a row of ours: add the row, or refund the money."
        ),
    ),
    (
        "Incomplete",
        "LedgerIncomplete",
        (
            "was not compared to the end. Fix the cause shown in the function's log, then invoke it"
            " again for the same time."
        ),
    ),
)


def add_ledger_alarms(
    alarms: AlarmSet, watched: Construct, name: str, *, ledger: str, service: str
) -> None:
    """Add the alarms for differences, and for a comparison that did not end."""
    for end, section, advice in _ENDS:
        alarms.add(
            watched,
            name,
            end,
            cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=f"Ledger{end}",
                dimensions_map={"ledger": ledger, "service": service},
                period=FAILURE_PERIOD,
                statistic="Maximum",
            ),
            section=section,
            # The alarm keeps its state until the next comparison.
            missing=cloudwatch.TreatMissingData.IGNORE,
            advice=f"The ledger of {ledger} {advice}",
        )
