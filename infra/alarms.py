"""Alarms: somebody is told of every message that nobody works on any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.names import pascal

if TYPE_CHECKING:
    from infra.resources import Resources
    from oncekey_local.description import Service

# SQS reports once a minute.
_PERIOD = Duration.minutes(1)
_OF_STREAMS = (
    "Of what a stream has given up: look which records it names, remove the cause, and put their"
    " items into the table again."
)
_OF_SCHEDULES = (
    "Of a scheduled run that has failed: remove the cause, and invoke the function with the event"
    " that the message holds, unless the next run has made up for it."
)


class Alarms(Construct):
    """An alarm for each queue of a service that nothing is triggered by, and the topic they tell.

    These are the dead letters, and the queues that hold what was given up. One message in them is
    one too many: it stays there until a person has looked at it. The alarm is on as long as
    there is any, and says so once.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, service: Service, resources: Resources
    ) -> None:
        super().__init__(scope, construct_id)
        watched = unattended(service)
        if not watched:
            return
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        # A policy of its own takes the place of the one that lets the account's alarms in.
        topic.grant_publish(_cloudwatch(Stack.of(self).account))
        for name in watched:
            queue = resources.queues[name]
            alarm = cloudwatch.Alarm(
                self,
                f"{pascal(name)}Depth",
                alarm_description=_advice(name, service),
                metric=queue.metric_approximate_number_of_messages_visible(
                    period=_PERIOD, statistic="Maximum"
                ),
                threshold=0,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                evaluation_periods=1,
                # SQS reports nothing of a queue that has been idle for hours.
                treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
            )
            alarm.add_alarm_action(actions.SnsAction(topic))
        # An output of the stack, whose name is what a person looks for.
        CfnOutput(self, "TopicArn", value=topic.topic_arn).override_logical_id("AlarmTopicArn")


def _cloudwatch(account: str) -> iam.ServicePrincipal:
    """CloudWatch, for the alarms of this account alone."""
    only_here = {"StringEquals": {"aws:SourceAccount": account}}
    return iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=only_here)


def _advice(name: str, service: Service) -> str:
    if any(name == queue.dead_letters for queue in service.queues):
        return (
            f"Queue {name} holds messages that nobody works on: look at them, remove the cause, and"
            " redrive them."
        )
    streams = {trigger.on_failure for one in service.functions for trigger in one.streams}
    schedules = {one.schedule.on_failure for one in service.functions if one.schedule}
    return " ".join(
        [
            f"Queue {name} holds what waits for a person.",
            *([_OF_STREAMS] if name in streams else []),
            *([_OF_SCHEDULES] if name in schedules else []),
        ]
    )


def unattended(service: Service) -> list[str]:
    """The queues, by their names in the description, whose messages wait for a person."""
    attended = {trigger.queue for function in service.functions for trigger in function.queues}
    names = [name for queue in service.queues for name in (queue.name, queue.dead_letters)]
    return [name for name in names if name not in attended]
