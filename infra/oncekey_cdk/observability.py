"""Alarms on AWS's own metrics, each with what to do, and the topic that they tell."""

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
# Of a function that ends near its timeout some run is cut off, and leaves an operation in doubt.
_NEAR_TIMEOUT = 0.8
# A healthy relay is seconds behind; the stream forgets after a day.
_RELAY_BEHIND = Duration.minutes(5)
# Long after the visibility timeout of one failed attempt; short of a dead letter's first hour.
_MESSAGE_WAITS = Duration.minutes(30)
# What retries do not cover goes on for a while.
_MINUTES = 3
_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
# As many as may be late, or lost with a host.
_MISSED_RUNS = 3
# Where functions put metrics of their own.
_NAMESPACE = "oncekey"
# In what a reconciler logs when it has sent what the relay left behind.
LEFTOVERS_TERMS = ("oncekey reconciled:", "resent ")
# A failure that nobody repeats is seen as well.
_FAILURE_PERIOD = Duration.minutes(5)
_OF_LEDGERS = {
    "Different": (
        "differs from the provider's: its report names each difference. Find out from the provider"
        " what is true, and put our row right, or give back what was taken too much."
    ),
    "OnlyOurs": (
        "has what the provider does not know: its report names it. Find out from the provider"
        " whether money has moved, and put our row right."
    ),
    "OnlyTheirs": (
        "lacks what the provider has: its report names it. Money has moved without a row of ours:"
        " add the row, or give the money back."
    ),
    "Incomplete": (
        "was not compared to its end: the function's log says why. Remove the cause, and invoke it"
        " again for the same time."
    ),
}
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
        reconcilers: Reconcilers whose runs, what they escalate, and that they run at all, are; and
            what their outbox's relay leaves to them.
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
        """Tell of runs that fail, or are not made, and of what they found that others have left."""
        name, function = reconciler.node.id, reconciler.reconciler
        self.watch_function(function, name=name)
        self.watch_depth(f"{name}Escalated", reconciler.escalated, advice=ESCALATED_ADVICE)
        self.watch_schedule(function, every=reconciler.every, name=name)
        self.watch_leftovers(function, name=name)

    def watch_schedule(
        self, function: IdempotentFunction, *, every: Duration, name: str | None = None
    ) -> None:
        """Tell of a function that the clock should call `every` so often, and does not.

        Nothing is reported of a function that nobody calls, so missing data is the alarm.
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
                f"Function {name} does not run: see that its EventBridge rule is enabled and may"
                " invoke it, and that its reserved concurrency is not 0. What it would do waits."
            ),
        )

    def watch_leftovers(self, reconciler: IdempotentFunction, *, name: str | None = None) -> None:
        """Tell of an outbox whose messages a reconciler has to send, run after run.

        Once in a while is nothing: a relay was killed. All the time, the relay does not run.
        """
        name = name or reconciler.node.id
        found = logs.MetricFilter(
            reconciler,
            "Leftovers",
            log_group=reconciler.logs,
            # As the reconciler logs it; a test holds the two together.
            filter_pattern=logs.FilterPattern.all_terms(*LEFTOVERS_TERMS),
            metric_namespace=_NAMESPACE,
            # Told apart by what is unique in the account: several stacks share the namespace.
            metric_name=f"OutboxLeftovers-{Names.unique_resource_name(reconciler, max_length=200)}",
        )
        self._alarm(
            reconciler,
            name,
            "OutboxStalled",
            found.metric(period=_FAILURE_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=(
                "The outbox is stalled: its messages wait for the reconciler, run after run. See"
                " that the event source of the relay is enabled, and what the relay's log says."
            ),
        )

    def watch_ledger(self, name: str, *, ledger: str, service: str) -> None:
        """Tell of a comparison with a provider that found differences, or did not come to its end.

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
                # It stays as it is until the next comparison.
                missing=cloudwatch.TreatMissingData.IGNORE,
                advice=f"The ledger of {ledger} {advice}",
            )

    def watch_depth(self, name: str, queue: sqs.IQueue, *, advice: str) -> cloudwatch.Alarm:
        """Tell of the first message in a queue whose messages wait for a person.

        One is one too many: it stays there until somebody has looked at it. The alarm is on as long
        as there is any, and says so once.
        """
        return self._alarm(
            queue,
            name,
            "Depth",
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
            function,
            name,
            "Errors",
            inner.metric_errors(period=_FAILURE_PERIOD, statistic="Sum"),
            advice=f"{told} raises: its log says what; operations may be left in doubt.",
        )
        self._alarm(
            function,
            name,
            "Throttles",
            inner.metric_throttles(period=_PERIOD, statistic="Sum"),
            periods=_MINUTES,
            advice=f"{told} is refused for lack of concurrency: raise the account's or its own.",
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
                advice=f"{told} ends near its timeout of {timeout_s} s: look what has become slow.",
            )

    def watch_table(self, table: SafeTable, *, name: str | None = None) -> None:
        """Tell of a table that throttles writes; callers are told 503 and come again."""
        name = name or table.node.id
        self._alarm(
            table,
            name,
            "Throttles",
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
            advice=f"A message of {name} waits: its worker fails, is too slow, or is switched off.",
        )

    def watch_stream(self, relay: IdempotentFunction, *, name: str | None = None) -> None:
        """Tell of a relay that is minutes behind its table's stream."""
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
            advice=f"The relay of {name} is behind: its log says whether DynamoDB or SQS refuses.",
        )

    def watch_api(self, api: IdempotentHttpApi | IdempotentRestApi) -> None:
        """Tell of answers that are the server's fault.

        Raises:
            ValueError: Another REST API of the same name is watched.
        """
        name, inner = api.node.id, api.api
        if isinstance(inner, apigateway.RestApi):
            other = self._rest_apis.setdefault(inner.rest_api_name, api.node.path)
            if other != api.node.path:
                raise ValueError(
                    f"the REST APIs {other!r} and {api.node.path!r} are both called"
                    f" {inner.rest_api_name!r}, by which CloudWatch tells their metrics apart: give"
                    " one another rest_api_name"
                )
        self._alarm(
            api,
            name,
            "Failures",
            api.api.metric_server_error(period=_FAILURE_PERIOD, statistic="Sum"),
            advice=(
                f"{name} answers 5xx: the access log says which route. 503 is a store that does not"
                " answer; 500 and 502 are handlers."
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
        """The alarm `about` what is watched; there is one, however often it is asked for."""
        known = self._told.get((watched.node.path, f"{name}{about}"))
        if known is not None:
            return known
        construct_id = f"{name}{about}"
        if construct_id in self.alarms:
            # Another of this name in another place.
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
        # A policy of its own takes the place of the one that lets the account's alarms in, and
        # another account's have nothing to say here.
        only_here = {"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
        topic.grant_publish(iam.ServicePrincipal("cloudwatch.amazonaws.com", conditions=only_here))
        return topic


def _longer(one: Duration, other: Duration) -> Duration:
    return one if one.to_seconds() > other.to_seconds() else other
