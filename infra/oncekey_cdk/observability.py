"""Alarms on AWS's own metrics, and their topic. Each description says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration, Names, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct

from .arguments import explained
from .resources import function_timeout_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aws_cdk import aws_sqs as sqs
    from constructs import IConstruct

    from .http_api import IdempotentHttpApi
    from .idempotent_function import IdempotentFunction
    from .outbox import Outbox
    from .reconciler import Reconciler
    from .rest_api import IdempotentRestApi
    from .safe_table import SafeTable

# SQS, Lambda and DynamoDB report once a minute.
_PERIOD = Duration.minutes(1)
# If runs end near the timeout, some are cut off and leave an operation in doubt.
_NEAR_TIMEOUT = 0.8
# A healthy relay is seconds behind. The stream keeps records for a day.
_RELAY_BEHIND = Duration.minutes(5)
# Longer than the visibility timeout of one failed attempt; shorter than a dead letter's first hour.
_MESSAGE_WAITS = Duration.minutes(30)
# Shorter disturbances are covered by retries.
_MINUTES = 3
_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
# Fewer runs may be late, or lost with a host.
_MISSED_RUNS = 3
# The namespace of the functions' own metrics.
_NAMESPACE = "oncekey"
# Both are in the log line of a reconciler that sent messages which the relay left behind.
LEFTOVERS_TERMS = ("oncekey reconciled:", "resent ")
# Long enough that a single failure is seen.
_FAILURE_PERIOD = Duration.minutes(5)
_OF_LEDGERS = {
    "Different": (
        "differs from the provider's. The report in the bucket names each difference. Ask the"
        " provider which side is right, then correct our row or refund the difference."
    ),
    "OnlyOurs": (
        "has rows that the provider does not have. The report in the bucket names them. Ask the"
        " provider whether money has moved, then correct our rows."
    ),
    "OnlyTheirs": (
        "lacks rows that the provider has. The report in the bucket names them. Money has moved"
        " without a row of ours: add the row, or refund the money."
    ),
    "Incomplete": (
        "was not compared to the end. Fix the cause shown in the function's log, then invoke it"
        " again for the same time."
    ),
}
DEAD_LETTERS_ADVICE = (
    "The queue holds dead letters. Look at them and at the worker's log, fix the cause, then move"
    " them back (aws sqs start-message-move-task)."
)
GIVEN_UP_ADVICE = (
    "The outbox's stream gave up records. Fix the cause shown in the relay's log. The reconciler"
    " sends the messages that are still in the outbox, if it was given the outbox."
)
ESCALATED_ADVICE = (
    "An operation could not be settled, or a run of the reconciler failed. For an operation, ask"
    " the provider what happened, then call oncekey.settle with the reference in the message. For a"
    " run, fix the cause shown in its log; the next run continues."
)


@explained
class Observability(Construct):
    """Alarms for what the constructs create. They publish to one topic, without subscribers yet.

        Observability(self, "Alarms", functions=[payments], tables=[records], outboxes=[outbox])

    Each alarm's description says what to do. The `watch_` methods add more.

    Attributes:
        topic: The topic that the alarms publish to.
        alarms: The alarms by their names, such as `PaymentsErrors`. You may change them.

    Args:
        functions: Watched for errors, throttles and runs near their timeout.
        tables: Watched for throttled writes.
        outboxes: Watched for dead letters, given-up stream records, a slow relay and waiting
            messages.
        reconcilers: Watched for failed and missing runs, escalations, and messages that their
            outbox's relay leaves behind.
        apis: Watched for 5xx answers.
        topic: A topic of yours that CloudWatch may publish to; by default a new one.
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
        apis: Sequence[IdempotentHttpApi | IdempotentRestApi] = (),
        topic: sns.ITopic | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        self._told: dict[tuple[str, str], cloudwatch.Alarm] = {}
        self._rest_apis: dict[str, str] = {}
        self.topic: sns.ITopic = topic if topic is not None else self._own_topic()
        for function in functions:
            self.watch_function(function)
        for table in tables:
            self.watch_table(table)
        for outbox in outboxes:
            self.watch_outbox(outbox)
        for reconciler in reconcilers:
            self.watch_reconciler(reconciler)
        for api in apis:
            self.watch_api(api)

    def watch_reconciler(self, reconciler: Reconciler) -> None:
        """Alarms for failed and missing runs, escalations, and messages that the relay left."""
        name, function = reconciler.node.id, reconciler.reconciler
        self.watch_function(function, name=name)
        self.watch_depth(f"{name}Escalated", reconciler.escalated, advice=ESCALATED_ADVICE)
        self.watch_schedule(function, every=reconciler.every, name=name)
        self.watch_leftovers(function, name=name)

    def watch_schedule(
        self, function: IdempotentFunction, *, every: Duration, name: str | None = None
    ) -> None:
        """An alarm for a function that its schedule should call `every` so often, and does not.

        A function that is not called reports no metric, so missing data sets off the alarm.
        """
        name = name or function.node.id
        period = _longer(every, _FAILURE_PERIOD)
        self._alarm(
            function,
            name,
            "Absent",
            function.function.metric_invocations(period=period, statistic="Sum"),
            threshold=1,
            periods=_MISSED_RUNS,
            missing=cloudwatch.TreatMissingData.BREACHING,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            advice=(
                f"Function {name} does not run, and its work waits. Check that its EventBridge"
                " rule is enabled and may invoke it, and that its reserved concurrency is not 0."
            ),
        )

    def watch_leftovers(self, reconciler: IdempotentFunction, *, name: str | None = None) -> None:
        """An alarm for an outbox whose messages the reconciler has to send, run after run.

        It sends a few when a relay was killed. If it does so all the time, the relay does not run.
        """
        name = name or reconciler.node.id
        found = logs.MetricFilter(
            reconciler,
            "Leftovers",
            log_group=reconciler.logs,
            # A test compares this with the reconciler's log line.
            filter_pattern=logs.FilterPattern.all_terms(*LEFTOVERS_TERMS),
            metric_namespace=_NAMESPACE,
            # The name is unique in the account, because several stacks share the namespace.
            metric_name=f"OutboxLeftovers-{Names.unique_resource_name(reconciler, max_length=200)}",
        )
        self._alarm(
            reconciler,
            name,
            "OutboxStalled",
            found.metric(period=_FAILURE_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=(
                "The outbox is stalled: the reconciler has to send its messages, run after run."
                " Check that the relay's event source is enabled, and fix the cause shown in the"
                " relay's log."
            ),
        )

    def watch_ledger(self, name: str, *, ledger: str, service: str) -> None:
        """Alarms for a comparison with a provider that found differences or did not end.

        Args:
            name: What the alarms' names begin with.
            ledger: The dimension `ledger` of the metrics LedgerDifferent, LedgerOnlyOurs,
                LedgerOnlyTheirs and LedgerIncomplete, which the comparing function emits.
            service: Its dimension `service`.
        """
        for about, advice in _OF_LEDGERS.items():
            metric = cloudwatch.Metric(
                namespace=_NAMESPACE,
                metric_name=f"Ledger{about}",
                dimensions_map={"ledger": ledger, "service": service},
                period=_FAILURE_PERIOD,
                statistic="Maximum",
            )
            self._alarm(
                self,
                name,
                about,
                metric,
                # The alarm keeps its state until the next comparison.
                missing=cloudwatch.TreatMissingData.IGNORE,
                advice=f"The ledger of {ledger} {advice}",
            )

    def watch_depth(self, name: str, queue: sqs.IQueue, *, advice: str) -> cloudwatch.Alarm:
        """An alarm for the first message in a queue that only people read.

        It is on as long as there is a message, and notifies once.
        """
        return self._alarm(
            queue,
            name,
            "Depth",
            queue.metric_approximate_number_of_messages_visible(
                period=_PERIOD, statistic="Maximum"
            ),
            advice=advice,
            # SQS reports no metric for a queue that was idle for hours.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )

    def watch_function(self, function: IdempotentFunction, *, name: str | None = None) -> None:
        """Alarms for runs that raise, lack concurrency, or end near the timeout."""
        name, inner = name or function.node.id, function.function
        told = f"Function {name}"
        self._alarm(
            function,
            name,
            "Errors",
            inner.metric_errors(period=_FAILURE_PERIOD, statistic="Sum"),
            advice=f"{told} raises. Fix the cause shown in its log; operations may be in doubt.",
        )
        self._alarm(
            function,
            name,
            "Throttles",
            inner.metric_throttles(period=_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=f"{told} lacks concurrency. Raise the account's limit or its own.",
        )
        timeout_s = function_timeout_s(inner)
        if timeout_s is not None:
            self._alarm(
                function,
                name,
                "Duration",
                inner.metric_duration(period=_PERIOD, statistic="p99"),
                threshold=round(timeout_s * 1000 * _NEAR_TIMEOUT),
                periods=_MINUTES,
                advice=f"{told} ends near its timeout of {timeout_s} s. Find out what is slow.",
            )

    def watch_table(self, table: SafeTable, *, name: str | None = None) -> None:
        """An alarm for a table that throttles writes. Callers get 503 and try again."""
        name = name or table.node.id
        self._alarm(
            table,
            name,
            "Throttles",
            table.table.metric("WriteThrottleEvents", period=_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=(
                f"Table {name} throttles writes. One key gets too many requests, or the traffic is"
                " more than twice its earlier peak. Slow the client down, or pre-warm the table."
            ),
        )

    def watch_outbox(self, outbox: Outbox) -> None:
        """Alarms for everything that can hold messages up."""
        name = outbox.node.id
        self.watch_depth(f"{name}DeadLetters", outbox.dead_letters, advice=DEAD_LETTERS_ADVICE)
        self.watch_depth(f"{name}GivenUp", outbox.given_up, advice=GIVEN_UP_ADVICE)
        self.watch_function(outbox.relay, name=f"{name}Relay")
        self.watch_stream(outbox.relay, name=name)
        self._alarm(
            outbox,
            name,
            "Waiting",
            outbox.queue.metric_approximate_age_of_oldest_message(
                period=_PERIOD, statistic="Maximum"
            ),
            threshold=round(_MESSAGE_WAITS.to_seconds()),
            periods=_MINUTES,
            advice=f"A message of {name} waits. Its worker fails, is too slow, or is disabled.",
        )

    def watch_stream(self, relay: IdempotentFunction, *, name: str | None = None) -> None:
        """An alarm for a relay that is minutes behind its table's stream."""
        name = name or relay.node.id
        self._alarm(
            relay,
            name,
            "Behind",
            relay.function.metric(
                "IteratorAge",
                period=_PERIOD,
                statistic="Maximum",
                unit=cloudwatch.Unit.MILLISECONDS,
            ),
            threshold=round(_RELAY_BEHIND.to_milliseconds()),
            periods=_MINUTES,
            advice=f"The relay of {name} is behind. Its log says whether DynamoDB or SQS fails.",
        )

    def watch_api(self, api: IdempotentHttpApi | IdempotentRestApi) -> None:
        """An alarm for 5xx answers.

        Raises:
            ValueError: Another watched REST API has the same name.
        """
        name, inner = api.node.id, api.api
        if isinstance(inner, apigateway.RestApi):
            other = self._rest_apis.setdefault(inner.rest_api_name, api.node.path)
            if other != api.node.path:
                raise ValueError(
                    f"the REST APIs {other!r} and {api.node.path!r} have the same name"
                    f" {inner.rest_api_name!r}, so CloudWatch cannot tell their metrics apart: give"
                    " one another rest_api_name"
                )
        self._alarm(
            api,
            name,
            "Failures",
            api.api.metric_server_error(period=_FAILURE_PERIOD, statistic="Sum"),
            advice=(
                f"{name} answers 5xx. The access log names the route. 503 means that the store does"
                " not answer; 500 and 502 come from the handler."
            ),
        )

    def _alarm(
        self,
        watched: IConstruct,
        name: str,
        about: str,
        metric: cloudwatch.IMetric,
        *,
        advice: str,
        threshold: float = 0,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
        comparison: cloudwatch.ComparisonOperator = _ABOVE,
    ) -> cloudwatch.Alarm:
        """The alarm `about` the watched construct; a second call returns the same one."""
        known = self._told.get((watched.node.path, f"{name}{about}"))
        if known is not None:
            return known
        construct_id = f"{name}{about}"
        if construct_id in self.alarms:
            # Another construct has this name in another place.
            construct_id = f"{Names.unique_resource_name(watched)}{about}"
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            alarm_description=advice,
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
        self.alarms[construct_id] = alarm
        self._told[watched.node.path, f"{name}{about}"] = alarm
        return alarm

    def _own_topic(self) -> sns.Topic:
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        # With enforce_ssl the topic has a policy of its own, which replaces the default one. So
        # alarms must be allowed here, and only those of this account.
        only_here = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=only_here))
        return topic


def _longer(one: Duration, other: Duration) -> Duration:
    return one if one.to_seconds() > other.to_seconds() else other
