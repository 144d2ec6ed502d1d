"""A function that is called by the clock: EventBridge's rule, and what becomes of failed calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from infra.event_sources import SEND_ACTIONS

if TYPE_CHECKING:
    from infra.resources import Resources
    from infra.service_function import ServiceFunction
    from oncekey_local.description import ScheduleTrigger

# EventBridge's own; the age of the event ends its attempts before that.
_DELIVERY_ATTEMPTS = 185


def add_schedule(
    created: ServiceFunction, schedule: ScheduleTrigger, resources: Resources
) -> events.CfnRule:
    """Let a rule call the function, whose runs may overlap.

    EventBridge hands a call over to Lambda, which keeps it until it can be run; either gives it up
    when it is too old, and tells the queue `on_failure`. The rule is not the CDK's `Rule`, which
    would write a policy for this stack's rule into the queue's stack, on which this one is built.
    """
    queue_arn = resources.queues[schedule.on_failure].queue_arn if schedule.on_failure else None
    rule = events.CfnRule(
        created,
        "Schedule",
        schedule_expression=schedule_expression(schedule),
        targets=[
            events.CfnRule.TargetProperty(
                id="Function",
                arn=created.function.function_arn,
                retry_policy=events.CfnRule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=schedule.max_age_s,
                    maximum_retry_attempts=_DELIVERY_ATTEMPTS,
                ),
                dead_letter_config=(
                    events.CfnRule.DeadLetterConfigProperty(arn=queue_arn) if queue_arn else None
                ),
            )
        ],
    )
    created.function.add_permission(
        "Scheduled",
        principal=iam.ServicePrincipal("events.amazonaws.com"),
        source_arn=rule.attr_arn,
    )
    if queue_arn:
        created.allow(queue_arn, *SEND_ACTIONS)
    _limit_attempts(created, schedule, queue_arn)
    return rule


def schedule_expression(schedule: ScheduleTrigger) -> str:
    """A schedule in EventBridge's words, whose hours are UTC's.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
    """
    if schedule.every_minutes is None:
        return f"cron(0 {schedule.daily_at_hour_utc} * * ? *)"
    unit = "minute" if schedule.every_minutes == 1 else "minutes"
    return f"rate({schedule.every_minutes} {unit})"


def _limit_attempts(
    created: ServiceFunction, schedule: ScheduleTrigger, queue_arn: str | None
) -> None:
    destination: lambda_.CfnEventInvokeConfig.DestinationConfigProperty | None = None
    if queue_arn:
        destination = lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
            on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(destination=queue_arn)
        )
    lambda_.CfnEventInvokeConfig(
        created,
        "ScheduledRuns",
        function_name=created.function.function_name,
        qualifier="$LATEST",
        maximum_event_age_in_seconds=schedule.max_age_s,
        maximum_retry_attempts=schedule.max_attempts - 1,
        destination_config=destination,
    )
