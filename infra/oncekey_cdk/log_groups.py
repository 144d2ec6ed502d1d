"""Log groups: ours, so that they end with their retention and never outlive it for free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs

if TYPE_CHECKING:
    from constructs import Construct

# As long as support may be asked what became of a payment.
RETENTION = logs.RetentionDays.SIX_MONTHS


def create_log_group(
    scope: Construct,
    construct_id: str,
    *,
    retention: logs.RetentionDays = RETENTION,
    keeps_data: bool = True,
) -> logs.LogGroup:
    """Create a log group that forgets by itself; one that `keeps_data` outlives its stack."""
    return logs.LogGroup(
        scope,
        construct_id,
        retention=retention,
        removal_policy=RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
    )
