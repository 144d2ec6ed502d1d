"""Alarms that publish to one topic, each with what to do and where the runbook says more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration, Names, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns

if TYPE_CHECKING:
    from constructs import Construct, IConstruct

# SQS, Lambda and DynamoDB report once a minute.
MINUTE = Duration.minutes(1)
# Long enough that a single failure is seen.
FAILURE_PERIOD = Duration.minutes(5)
# Shorter disturbances are covered by retries.
PERIODS = 3
# The longest time that an alarm looks back.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
_LONGEST = Duration.days(7)
# The page of this repository. A team may have a copy elsewhere.
RUNBOOK = "layer/docs/guides/runbook.md"


class AlarmSet:
    """Creates each alarm once, however often it is asked for.

    An alarm has no physical name of its own: CloudFormation makes one from the stack's name, so
    alarms of two stacks do not collide.
    """

    def __init__(self, scope: Construct, *, topic: sns.ITopic | None, runbook: str) -> None:
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        self.topic: sns.ITopic = topic if topic is not None else _own_topic(scope)
        self._scope, self._runbook = scope, runbook
        self._known: dict[tuple[str, str], cloudwatch.Alarm] = {}

    def add(
        self,
        watched: IConstruct,
        name: str,
        about: str,
        metric: cloudwatch.IMetric,
        *,
        advice: str,
        section: str | None = None,
        threshold: float = 0,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
        comparison: cloudwatch.ComparisonOperator = (
            cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
        ),
    ) -> cloudwatch.Alarm:
        """The alarm `about` the watched construct; a second call returns the same one.

        Args:
            watched: What the alarm is about.
            name: What the alarm's name begins with.
            about: What it ends with.
            metric: The metric, or an expression.
            advice: What happened and what to do.
            section: The section of the runbook; by default it is called `about`.
            threshold: What is still well.
            periods: For how many periods in a row the threshold must be crossed.
            missing: What a period without data means.
            comparison: How a value is compared with the threshold.
        """
        known = self._known.get((watched.node.path, f"{name}{about}"))
        if known is not None:
            return known
        construct_id = f"{name}{about}"
        if construct_id in self.alarms:
            # Another construct has this name in another place.
            construct_id = f"{Names.unique_resource_name(watched)}{about}"
        alarm = cloudwatch.Alarm(
            self._scope,
            construct_id,
            alarm_description=f"{advice} Runbook: {self._runbook}#{(section or about).lower()}",
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        self.alarms[construct_id] = alarm
        self._known[watched.node.path, f"{name}{about}"] = alarm
        return alarm


def within_a_week(periods: int, period: Duration) -> int:
    """`periods`, or fewer if CloudWatch refuses an alarm that looks back so long; 0 for none."""
    return min(periods, int(_LONGEST.to_seconds() // period.to_seconds()))


def _own_topic(scope: Construct) -> sns.Topic:
    topic = sns.Topic(scope, "Topic", enforce_ssl=True)
    # With enforce_ssl the topic has a policy of its own, which replaces the default one. So alarms
    # must be allowed here, and only those of this account.
    only_here = {"StringEquals": {"aws:SourceAccount": Stack.of(scope).account}}
    topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=only_here))
    return topic
