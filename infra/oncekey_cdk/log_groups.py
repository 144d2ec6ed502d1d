"""Log groups of our own, so that each has a retention. Lambda's default keeps logs forever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs

if TYPE_CHECKING:
    from constructs import Construct

# As long as customers may ask support about a payment.
RETENTION = logs.RetentionDays.SIX_MONTHS


def create_log_group(
    scope: Construct,
    construct_id: str,
    *,
    retention: logs.RetentionDays = RETENTION,
    keeps_data: bool = True,
) -> logs.LogGroup:
    """Create a log group with a retention. `keeps_data` keeps it when the stack is deleted."""
    return logs.LogGroup(
        scope,
        construct_id,
        retention=retention,
        removal_policy=RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
    )
