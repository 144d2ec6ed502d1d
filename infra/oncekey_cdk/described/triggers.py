"""What calls a described function by itself: streams, queues and schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration

from ..event_sources import connect_queue, connect_stream
from ..schedule import connect_schedule
from .names import pascal

if TYPE_CHECKING:
    from oncekey_local.description import Function, ScheduleTrigger

    from ..idempotent_function import IdempotentFunction
    from .service_resources import ServiceResources


def add_triggers(
    created: IdempotentFunction, function: Function, resources: ServiceResources
) -> None:
    """Let streams, queues and the schedule call the function, with the exact grants they need."""
    for stream in function.streams:
        connect_stream(
            created,
            f"{pascal(stream.table)}Stream",
            table=resources.tables[stream.table].table,
            batch_size=stream.batch_size,
            window=Duration.seconds(stream.window_s),
            event_names=stream.event_names,
            max_attempts=stream.max_attempts,
            on_failure=resources.queues[stream.on_failure] if stream.on_failure else None,
            partial_batch_answers=stream.partial_batch_answers,
        )
    for trigger in function.queues:
        connect_queue(
            created,
            f"{pascal(trigger.queue)}Queue",
            queue=resources.queues[trigger.queue],
            batch_size=trigger.batch_size,
            window=Duration.seconds(trigger.window_s),
            max_concurrency=trigger.max_concurrency,
            partial_batch_answers=trigger.partial_batch_answers,
        )
    if function.schedule:
        _add_schedule(created, function.schedule, resources)


def _add_schedule(
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
