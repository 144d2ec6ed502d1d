"""Alarms on AWS's own metrics, each with what to do, and the topic that they tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct

from .resources import function_timeout_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aws_cdk import aws_sqs as sqs

    from .http_api import IdempotentHttpApi
    from .idempotent_function import IdempotentFunction
    from .outbox import Outbox
    from .reconciler import Reconciler
    from .safe_table import SafeTable

# SQS, Lambda and DynamoDB report once a minute.
_PERIOD = Duration.minutes(1)
# Of a function that ends near its timeout some run is cut off, and leaves an operation in doubt.
_NEAR_TIMEOUT = 0.8
# A healthy relay is seconds behind; the stream forgets after a day.
_RELAY_BEHIND = Duration.minutes(5)
# Long after the visibility timeout of one failed attempt; short of a dead letter's first hour.
_MESSAGE_WAITS = Duration.minutes(30)
# What retries do not cover goes on for a while.
_MINUTES = 3
# A failure that nobody repeats is seen as well.
_FAILURE_PERIOD = Duration.minutes(5)
DEAD_LETTERS_ADVICE = (
    "It holds messages that nobody works on: look at them, remove the cause, and redrive them."
)
GIVEN_UP_ADVICE = (
    "It holds what a stream has given up: look which records it names, remove the cause, and put"
    " their items into the table again."
)
ESCALATED_ADVICE = (
    "It holds operations that nobody could settle, and runs that failed: find out from the provider"
    " what happened, and settle each; of a failed run remove the cause."
)


class Observability(Construct):
    """Alarms for what the constructs create, which tell one topic; nobody is subscribed to it yet.

        Observability(self, "Alarms", functions=[payments], tables=[records], outboxes=[outbox])

    Each alarm's description says what to do. The `watch_` methods add more.

    Attributes:
        topic: What the alarms tell.
        alarms: The alarms by their names, such as `PaymentsErrors`, to be changed.

    Args:
        functions: Functions whose errors, throttles and near-timeouts are told.
        tables: Tables whose throttles and failures are told.
        outboxes: Outboxes whose dead letters, given-up records, relay and waiting messages are.
        reconcilers: Reconcilers whose runs, and what they escalate, are.
        apis: APIs whose 5xx answers are.
        topic: A topic of yours, which CloudWatch may publish to; by default a new one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        functions: Sequence[IdempotentFunction] = (),
        tables: Sequence[SafeTable] = (),
        outboxes: Sequence[Outbox] = (),
        reconcilers: Sequence[Reconciler] = (),
        apis: Sequence[IdempotentHttpApi] = (),
        topic: sns.ITopic | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        self.topic: sns.ITopic = topic if topic is not None else self._own_topic()
        for function in functions:
            self.watch_function(function)
        for table in tables:
            self.watch_table(table)
        for outbox in outboxes:
            self.watch_outbox(outbox)
        for reconciler in reconcilers:
            name = reconciler.node.id
            self.watch_function(reconciler.reconciler, name=name)
            self.watch_depth(f"{name}Escalated", reconciler.escalated, advice=ESCALATED_ADVICE)
        for api in apis:
            self.watch_api(api)

    def watch_depth(self, name: str, queue: sqs.IQueue, *, advice: str) -> cloudwatch.Alarm:
        """Tell of the first message in a queue whose messages wait for a person.

        One is one too many: it stays there until somebody has looked at it. The alarm is on as long
        as there is any, and says so once.
        """
        return self._alarm(
            f"{name}Depth",
            queue.metric_approximate_number_of_messages_visible(
                period=_PERIOD, statistic="Maximum"
            ),
            advice=advice,
            # SQS reports nothing of a queue that has been idle for hours.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )

    def watch_function(self, function: IdempotentFunction, *, name: str | None = None) -> None:
        """Tell of runs that raise, are refused for lack of concurrency, or end near the timeout."""
        name, inner = name or function.node.id, function.function
        told = f"Function {name}"
        self._alarm(
            f"{name}Errors",
            inner.metric_errors(period=_FAILURE_PERIOD, statistic="Sum"),
            advice=f"{told} raises: its log says what; operations may be left in doubt.",
        )
        self._alarm(
            f"{name}Throttles",
            inner.metric_throttles(period=_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=f"{told} is refused for lack of concurrency: raise the account's or its own.",
        )
        timeout_s = function_timeout_s(inner)
        if timeout_s is not None:
            self._alarm(
                f"{name}Duration",
                inner.metric_duration(period=_PERIOD, statistic="p99"),
                threshold=round(timeout_s * 1000 * _NEAR_TIMEOUT),
                periods=_MINUTES,
                advice=f"{told} ends near its timeout of {timeout_s} s: look what has become slow.",
            )

    def watch_table(self, table: SafeTable, *, name: str | None = None) -> None:
        """Tell of a table that throttles writes; callers are told 503 and come again."""
        name = name or table.node.id
        self._alarm(
            f"{name}Throttles",
            table.table.metric("WriteThrottleEvents", period=_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=(
                f"Table {name} throttles writes: one key is too hot, or the traffic more than twice"
                " the earlier peak; warm it up, or slow the client down."
            ),
        )

    def watch_outbox(self, outbox: Outbox) -> None:
        """Tell of all that holds messages up."""
        name = outbox.node.id
        self.watch_depth(f"{name}DeadLetters", outbox.dead_letters, advice=DEAD_LETTERS_ADVICE)
        self.watch_depth(f"{name}GivenUp", outbox.given_up, advice=GIVEN_UP_ADVICE)
        self.watch_function(outbox.relay, name=f"{name}Relay")
        self._alarm(
            f"{name}Behind",
            outbox.relay.function.metric(
                "IteratorAge",
                period=_PERIOD,
                statistic="Maximum",
                unit=cloudwatch.Unit.MILLISECONDS,
            ),
            threshold=round(_RELAY_BEHIND.to_milliseconds()),
            periods=_MINUTES,
            advice=f"The relay of {name} is behind: its log says whether DynamoDB or SQS refuses.",
        )
        self._alarm(
            f"{name}Waiting",
            outbox.queue.metric_approximate_age_of_oldest_message(
                period=_PERIOD, statistic="Maximum"
            ),
            threshold=round(_MESSAGE_WAITS.to_seconds()),
            periods=_MINUTES,
            advice=f"A message of {name} waits: its worker fails, is too slow, or is switched off.",
        )

    def watch_api(self, api: IdempotentHttpApi) -> None:
        """Tell of answers that are the server's fault."""
        name = api.node.id
        self._alarm(
            f"{name}Failures",
            api.api.metric_server_error(period=_FAILURE_PERIOD, statistic="Sum"),
            advice=(
                f"{name} answers 5xx: the access log says which route. 503 is a store that does not"
                " answer; 500 and 502 are handlers."
            ),
        )

    def _alarm(
        self,
        construct_id: str,
        metric: cloudwatch.IMetric,
        *,
        advice: str,
        threshold: float = 0,
        periods: int = 1,
        missing: Any = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> cloudwatch.Alarm:
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_description=advice,
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        self.alarms[construct_id] = alarm
        return alarm

    def _own_topic(self) -> sns.Topic:
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        # A policy of its own takes the place of the one that lets the account's alarms in, and
        # another account's have nothing to say here.
        only_here = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=only_here))
        return topic
