"""How long the logs of a stage are kept, as a value of the CDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_logs as logs

if TYPE_CHECKING:
    from infra.environments import Environment

_RETENTION = {7: logs.RetentionDays.ONE_WEEK, 180: logs.RetentionDays.SIX_MONTHS}


def log_retention(environment: Environment) -> logs.RetentionDays:
    """How long logs are kept in this environment."""
    return _RETENTION[environment.log_retention_days]
