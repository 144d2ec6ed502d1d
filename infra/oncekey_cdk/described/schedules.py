"""The schedule of a function, as the description has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration

from ..schedule import connect_schedule

if TYPE_CHECKING:
    from oncekey_local.description import ScheduleTrigger

    from ..idempotent_function import IdempotentFunction
    from .resources import ServiceResources


def add_schedule(
    created: IdempotentFunction, schedule: ScheduleTrigger, resources: ServiceResources
) -> None:
    """Let a rule call the function. Runs may overlap."""
    connect_schedule(
        created,
        expression=schedule_expression(schedule),
        max_age=Duration.seconds(schedule.max_age_s),
        max_attempts=schedule.max_attempts,
        on_failure=resources.queues[schedule.on_failure] if schedule.on_failure else None,
    )


def schedule_expression(schedule: ScheduleTrigger) -> str:
    """A schedule as EventBridge writes it, in UTC.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
    """
    if schedule.every_minutes is None:
        return f"cron(0 {schedule.daily_at_hour_utc} * * ? *)"
    unit = "minute" if schedule.every_minutes == 1 else "minutes"
    return f"rate({schedule.every_minutes} {unit})"
