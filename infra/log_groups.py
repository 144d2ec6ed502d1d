"""Log groups: ours, so that they end with their retention and never outlive it for free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import RemovalPolicy
from aws_cdk import aws_logs as logs

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment

_RETENTION = {7: logs.RetentionDays.ONE_WEEK, 180: logs.RetentionDays.SIX_MONTHS}


def log_group(scope: Construct, construct_id: str, environment: Environment) -> logs.LogGroup:
    """Create a log group that forgets by itself; production keeps it when its stack is deleted."""
    return logs.LogGroup(
        scope,
        construct_id,
        retention=_RETENTION[environment.log_retention_days],
        removal_policy=RemovalPolicy.RETAIN if environment.keeps_data else RemovalPolicy.DESTROY,
    )
