"""A function on a schedule, and where its failed calls go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

from oncekey_local.description.actions import SEND_ACTIONS

from .event_sources import grant_send
from .faults import refuse
from .grants import SEND_KEY_ACTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aws_cdk import Duration
    from aws_cdk import aws_sqs as sqs

    from .idempotent_function import IdempotentFunction

# EventBridge's maximum. The age of the event ends the attempts earlier.
_DELIVERY_ATTEMPTS = 185
# Lambda keeps an event for so long, and tries a failed run at most twice again.
_AGES_S = (60, 6 * 3600)
_RUN_ATTEMPTS_MAX = 3


def connect_schedule(
    target: IdempotentFunction,
    *,
    expression: str,
    max_age: Duration,
    max_attempts: int = 1,
    on_failure: sqs.IQueue | None = None,
) -> events.CfnRule:
    """Let a rule call the function. Runs may overlap.

    EventBridge passes a call to Lambda, which keeps it until it can run. Both drop a call after
    `max_age` and send a message to the queue `on_failure`, which must allow EventBridge
    (`let_events_send`). A failing run is tried `max_attempts` times in all. The CDK's `Rule` is not
    used, because it would write a policy that names this stack's rule into the queue's stack.

    Args:
        target: The function.
        expression: The schedule as EventBridge writes it, such as `rate(1 minute)`, in UTC.
            https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html
        max_age: How long EventBridge and Lambda try to make a call; at most six hours.
        max_attempts: See above.
        on_failure: See above.

    Raises:
        ValueError: EventBridge or Lambda refuses such a schedule.
    """
    max_age_s = round(max_age.to_seconds(integral=False))
    faults = [
        *_schedule_faults(expression, max_age_s, max_attempts, on_failure),
        *_runs_faults(target),
    ]
    refuse(faults, scope=target, construct_id="Schedule", kind="Schedule")
    queue_arn = on_failure.queue_arn if on_failure else None
    rule = events.CfnRule(
        target,
        "Schedule",
        schedule_expression=expression,
        targets=[
            events.CfnRule.TargetProperty(
                id="Function",
                arn=target.called.function_arn,
                retry_policy=events.CfnRule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=max_age_s,
                    maximum_retry_attempts=_DELIVERY_ATTEMPTS,
                ),
                dead_letter_config=(
                    events.CfnRule.DeadLetterConfigProperty(arn=queue_arn) if queue_arn else None
                ),
            )
        ],
    )
    target.called.add_permission(
        "Scheduled",
        principal=iam.ServicePrincipal("events.amazonaws.com"),
        source_arn=rule.attr_arn,
    )
    destination: lambda_.CfnEventInvokeConfig.DestinationConfigProperty | None = None
    if on_failure:
        grant_send(target, on_failure)
        destination = lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
            on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                destination=on_failure.queue_arn
            )
        )
    alias = target.rollout.alias if target.rollout else None
    runs = lambda_.CfnEventInvokeConfig(
        target,
        "ScheduledRuns",
        function_name=target.function.function_name,
        qualifier=alias.alias_name if alias else "$LATEST",
        maximum_event_age_in_seconds=max_age_s,
        maximum_retry_attempts=max_attempts - 1,
        destination_config=destination,
    )
    if alias:
        # The name alone does not make CloudFormation wait for the alias.
        runs.node.add_dependency(alias)
    return rule


def _schedule_faults(
    expression: str, max_age_s: int, max_attempts: int, on_failure: sqs.IQueue | None
) -> Iterator[str]:
    if not expression.startswith(("rate(", "cron(")):
        yield f"expression {expression!r}: rate(...) or cron(...) is needed"
    least, most = _AGES_S
    if not least <= max_age_s <= most:
        yield f"max_age is {max_age_s} s: {least} to {most}, six hours"
    if not 1 <= max_attempts <= _RUN_ATTEMPTS_MAX:
        yield f"max_attempts is {max_attempts}: 1 to {_RUN_ATTEMPTS_MAX}"
    if on_failure is not None and on_failure.fifo:
        yield "on_failure is a FIFO queue: Lambda sends what has failed to none"


def _runs_faults(target: IdempotentFunction) -> Iterator[str]:
    # CloudFormation refuses a second configuration of the same function's runs.
    if target.function.node.try_find_child("EventInvokeConfig") is not None:
        yield (
            "function_props of the function have max_event_age, retry_attempts, on_failure or"
            " on_success, which its schedule sets: leave them out"
        )


def let_events_send(queue: sqs.Queue) -> None:
    """Let the rules of this account and Region send dropped calls to the queue.

    All rules are allowed, because the rule may be in a stack that depends on the queue's stack.
    EventBridge sends as itself and not under the function's role. So the queue's policy must allow
    it, and a customer's key policy too.
    """
    stack = Stack.of(queue)
    rules = stack.format_arn(service="events", resource="rule", resource_name="*")
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=[*SEND_ACTIONS],
            resources=[queue.queue_arn],
            conditions={"ArnLike": {"aws:SourceArn": rules}},
        )
    )
    key = queue.encryption_master_key
    if key is not None:
        key.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[iam.ServicePrincipal("events.amazonaws.com")],
                actions=[*SEND_KEY_ACTIONS],
                resources=["*"],
                conditions={"ArnLike": {"aws:SourceArn": rules}},
            )
        )
