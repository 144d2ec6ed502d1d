"""The alarms and their topic, a dashboard, and saved queries of the logs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from .alarm_set import FAILURE_PERIOD, MINUTE, PERIODS, RUNBOOK, AlarmSet
from .api_alarms import add_api_alarms
from .arguments import explained
from .dashboard import RECONCILER_GRAPHS, SERVICE_GRAPHS, ServiceDashboard
from .faults import refuse
from .idempotency_table import IdempotencyTable
from .layer_alarms import OF_RECONCILERS, OF_SERVICES, OF_SWEEPS, add_layer_alarms
from .ledger_alarms import add_ledger_alarms
from .resources import function_timeout_s
from .run_alarms import add_absent_alarm, period_of
from .saved_queries import OF_APIS, OF_FUNCTIONS, SavedQueries
from .table_alarms import add_table_alarms, pruned, throttles, warned_of_another_account
from .unwatched import leave_out_if_unwatched, watched_faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_sqs as sqs

    from .http_api import IdempotentHttpApi
    from .idempotent_function import IdempotentFunction
    from .metrics import LayerMetrics
    from .outbox import Outbox
    from .reconciler import Reconciler
    from .rest_api import IdempotentRestApi
    from .safe_table import SafeTable

# If runs end near the timeout, some are cut off and leave an operation in doubt.
_NEAR_TIMEOUT = 0.8
# A healthy relay is seconds behind. The stream keeps records for a day.
_RELAY_BEHIND = Duration.minutes(5)
# Longer than the visibility timeout of one failed attempt; shorter than a dead letter's first hour.
_MESSAGE_WAITS = Duration.minutes(30)
DEAD_LETTERS_ADVICE = (
    "The queue holds dead letters. Look at them and at the worker's log, fix the cause, then move"
    " them back (oncekey redrive --dead-letters)."
)
GIVEN_UP_ADVICE = (
    "The outbox's stream gave up records. Fix the cause shown in the relay's log. The reconciler"
    " sends the messages that are still in the outbox, if it was given the outbox."
)
ESCALATED_ADVICE = (
    "An operation could not be settled, or a run of the reconciler failed. For an operation, ask"
    " the provider what happened, then settle it (oncekey resolve). For a run, fix the cause shown"
    " in its log; the next run continues."
)


@explained
class Observability(Construct):
    """Alarms, a dashboard and saved queries for what the constructs create.

        Observability(self, "Alarms", functions=[payments], tables=[records], outboxes=[outbox])

    The alarms publish to one topic, without subscribers yet. Each alarm's description says what to
    do, and names its section of the runbook. The `watch_` methods add more.

    Attributes:
        topic: The topic that the alarms publish to.
        alarms: The alarms by their names, such as `PaymentsErrors`. You may change them.
        dashboard: The dashboard, if there is one.

    Args:
        functions: Watched for errors, throttles, runs near their timeout, and by the metrics that
            the layer emits in them.
        tables: Watched for throttled writes and, if they hold records, for deletions.
        outboxes: Watched for dead letters, given-up stream records, a slow relay and waiting
            messages.
        reconcilers: Watched for failed and missing runs, escalations, what stays unknown, and
            messages that their outbox's relay leaves behind.
        apis: Watched for 5xx, 4xx and 429 answers.
        topic: A topic of yours that CloudWatch may publish to; by default a new one.
        dashboard: Whether there is a dashboard.
        runbook: The page that the alarms name. Give the address of your copy.

    Raises:
        ValueError: The context value `oncekey:watched` is neither true nor false.
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
        dashboard: bool = True,
        runbook: str = RUNBOOK,
    ) -> None:
        refuse(watched_faults(scope), scope=scope, construct_id=construct_id, kind="Observability")
        super().__init__(scope, construct_id)
        leave_out_if_unwatched(self)
        self._set = AlarmSet(self, topic=topic, runbook=runbook)
        self.alarms, self.topic = self._set.alarms, self._set.topic
        self._board = ServiceDashboard(self, self.alarms) if dashboard else None
        self.dashboard = self._board.dashboard if self._board else None
        self._queries = SavedQueries(self, OF_FUNCTIONS)
        self._access_queries = SavedQueries(self, OF_APIS)
        self._services: dict[LayerMetrics, str] = {}
        self._rest_apis: dict[str, str] = {}
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
        """Alarms for failed and missing runs, escalations, and what it cannot settle or send."""
        name, function = reconciler.node.id, reconciler.reconciler
        self.watch_function(function, name=name)
        self.watch_depth(f"{name}Escalated", reconciler.escalated, advice=ESCALATED_ADVICE)
        self.watch_reconciling(function, every=reconciler.every, name=name)
        self.watch_leftovers(function, every=reconciler.every, name=name)

    def watch_reconciling(
        self, function: IdempotentFunction, *, every: Duration, name: str | None = None
    ) -> None:
        """Alarms for missing runs, and for operations that runs leave unknown or fail on.

        Raises:
            ValueError: It runs less often than once a week.
        """
        source = function.metrics
        if source is None:
            self.watch_schedule(function, every=every, name=name)
            return
        name = name or function.node.id
        period = period_of(every, function)
        add_layer_alarms(self._set, function, name, OF_RECONCILERS, source, at_least=period)
        # A run that is cut off does not count, so this says more than the function's invocations.
        runs = source.metric("ReconcilerRuns", statistic="Sum", period=period)
        add_absent_alarm(self._set, function, name, runs, period)
        self._plot_layer(source, RECONCILER_GRAPHS)

    def watch_schedule(
        self, function: IdempotentFunction, *, every: Duration, name: str | None = None
    ) -> None:
        """An alarm for a function that its schedule should call `every` so often, and does not.

        Raises:
            ValueError: `every` is longer than a week.
        """
        period = period_of(every, function)
        calls = function.function.metric_invocations(period=period, statistic="Sum")
        add_absent_alarm(self._set, function, name or function.node.id, calls, period)

    def watch_leftovers(
        self,
        reconciler: IdempotentFunction,
        *,
        every: Duration = MINUTE,
        name: str | None = None,
    ) -> None:
        """Alarms for an outbox whose messages the reconciler has to send, or that nobody sends.

        It sends a few when a relay was killed. If it does so all the time, the relay does not run.

        Raises:
            ValueError: It runs less often than once a week.
        """
        if reconciler.metrics is not None:
            name, period = name or reconciler.node.id, period_of(every, reconciler)
            add_layer_alarms(
                self._set, reconciler, name, OF_SWEEPS, reconciler.metrics, at_least=period
            )

    def watch_canary(self, function: IdempotentFunction, *, name: str | None = None) -> None:
        """Alarms for a function that checks the service as a client would, and that raises."""
        name = name or function.node.id
        self._set.add(
            function,
            name,
            "Errors",
            _errors(function),
            section="Canary",
            advice=(
                f"{name}, which checks the service as a client would, failed. Its log says what it"
                " saw: no answer, a wrong one, or a repeat that is not the first answer."
            ),
        )
        self.watch_function(function, name=name)

    def watch_ledger(self, name: str, *, ledger: str, service: str) -> None:
        """Alarms for a comparison with a provider that found differences or did not end.

        Args:
            name: What the alarms' names begin with.
            ledger: The dimension `ledger` of the metrics LedgerDifferent, LedgerOnlyOurs,
                LedgerOnlyTheirs and LedgerIncomplete, which the comparing function emits.
            service: Its dimension `service`.
        """
        add_ledger_alarms(self._set, self, name, ledger=ledger, service=service)

    def watch_depth(
        self, name: str, queue: sqs.IQueue, *, advice: str, section: str = "Escalated"
    ) -> cloudwatch.Alarm:
        """An alarm for the first message in a queue that only people read.

        It is on as long as there is a message, and notifies once.
        """
        depth = queue.metric_approximate_number_of_messages_visible(
            period=MINUTE, statistic="Maximum"
        )
        self._plot("Queues that people read", depth)
        return self._set.add(
            queue,
            name,
            "Depth",
            depth,
            advice=advice,
            section=section,
            # SQS reports no metric for a queue that was idle for hours.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )

    def watch_function(self, function: IdempotentFunction, *, name: str | None = None) -> None:
        """Alarms for runs that raise, lack concurrency, or end near the timeout.

        The first function of a service adds the alarms on the metrics that the layer emits.
        """
        name, inner = name or function.node.id, function.function
        told = f"Function {name}"
        errors = _errors(function)
        throttled = inner.metric_throttles(period=MINUTE, statistic="Sum")
        alarms = [
            self._set.add(
                function,
                name,
                "Errors",
                errors,
                advice=(
                    f"{told} raises. Fix the cause shown in its log; operations may be in doubt."
                ),
            ),
            self._set.add(
                function,
                name,
                "Throttles",
                throttled,
                periods=PERIODS,
                advice=f"{told} lacks concurrency. Raise the account's limit or its own.",
            ),
        ]
        timeout_s = function_timeout_s(inner)
        if timeout_s is not None:
            near = self._set.add(
                function,
                name,
                "Duration",
                inner.metric_duration(period=MINUTE, statistic="p99"),
                threshold=round(timeout_s * 1000 * _NEAR_TIMEOUT),
                periods=PERIODS,
                advice=f"{told} ends near its timeout of {timeout_s} s. Find out what is slow.",
            )
            alarms.append(near)
        if function.rollout:
            function.rollout.stop_on(*alarms)
        if function.metrics is not None:
            self._watch_service(function.metrics)
        self._plot("Function errors", errors)
        self._plot("Function throttles", throttled)
        self._queries.add(function.logs)

    def _watch_service(self, source: LayerMetrics) -> None:
        if source in self._services:
            return
        # The alarms of the first service need no name.
        name = re.sub(r"\W", "", source.service) if self._services else ""
        self._services[source] = name
        add_layer_alarms(self._set, self, name, OF_SERVICES, source)
        self._plot_layer(source, SERVICE_GRAPHS)

    def watch_table(self, table: SafeTable, *, name: str | None = None) -> None:
        """Alarms for a table that throttles writes, or whose records are never deleted.

        A table of another account has its metrics there, so here it gets a warning of the CDK.
        """
        if warned_of_another_account(self, table):
            return
        add_table_alarms(self._set, table, name or table.node.id)
        self._plot("Table throttles", throttles(table))
        if isinstance(table, IdempotencyTable):
            self._plot("Pruned a day", pruned(table))

    def watch_outbox(self, outbox: Outbox) -> None:
        """Alarms for everything that can hold messages up."""
        name = outbox.node.id
        self.watch_depth(
            f"{name}DeadLetters",
            outbox.dead_letters,
            advice=DEAD_LETTERS_ADVICE,
            section="DeadLetters",
        )
        self.watch_depth(
            f"{name}GivenUp", outbox.given_up, advice=GIVEN_UP_ADVICE, section="GivenUp"
        )
        self.watch_function(outbox.relay, name=f"{name}Relay")
        self.watch_stream(outbox.relay, name=name)
        self.watch_queue(outbox.queue, name=name)

    def watch_queue(self, queue: sqs.IQueue, *, name: str) -> None:
        """An alarm for messages that wait too long for their worker."""
        age = queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum")
        self._plot("Age of messages (s)", age)
        self._set.add(
            queue,
            name,
            "Waiting",
            age,
            threshold=round(_MESSAGE_WAITS.to_seconds()),
            periods=PERIODS,
            advice=f"A message of {name} waits. Its worker fails, is too slow, or is disabled.",
        )

    def watch_stream(self, relay: IdempotentFunction, *, name: str | None = None) -> None:
        """An alarm for a relay that is minutes behind its table's stream."""
        name = name or relay.node.id
        self._set.add(
            relay,
            name,
            "Behind",
            relay.function.metric(
                "IteratorAge",
                period=MINUTE,
                statistic="Maximum",
                unit=cloudwatch.Unit.MILLISECONDS,
            ),
            threshold=round(_RELAY_BEHIND.to_milliseconds()),
            periods=PERIODS,
            advice=f"The relay of {name} is behind. Its log says whether DynamoDB or SQS fails.",
        )

    def watch_api(self, api: IdempotentHttpApi | IdempotentRestApi) -> None:
        """Alarms for 5xx answers, many 4xx answers, and 429 answers.

        That for 5xx stops the gradual deployments of the functions that have routes by now.

        Raises:
            ValueError: Another watched REST API has the same name.
        """
        inner = api.api
        if isinstance(inner, apigateway.RestApi):
            other = self._rest_apis.setdefault(inner.rest_api_name, api.node.path)
            if other != api.node.path:
                raise ValueError(
                    f"the REST APIs {other!r} and {api.node.path!r} have the same name"
                    f" {inner.rest_api_name!r}, so CloudWatch cannot tell their metrics apart: give"
                    " one another rest_api_name"
                )
        metrics = add_api_alarms(self._set, api)
        self._plot("API 5xx", metrics.server_errors)
        self._plot("API 4xx and 429", metrics.client_errors, metrics.too_many)
        self._plot("API refusals by route", metrics.refused_by_route)
        if api.access_log is not None:
            self._access_queries.add(api.access_log)

    def _plot(self, title: str, *metrics: cloudwatch.IMetric | None) -> None:
        if self._board:
            self._board.plot(title, *(one for one in metrics if one is not None))

    def _plot_layer(
        self, source: LayerMetrics, graphs: Mapping[str, tuple[str, tuple[str, ...]]]
    ) -> None:
        for title, (statistic, names) in graphs.items():
            self._plot(
                title,
                *(
                    source.metric(name, statistic=statistic, period=FAILURE_PERIOD)
                    for name in names
                ),
            )


def _errors(function: IdempotentFunction) -> cloudwatch.IMetric:
    return function.function.metric_errors(period=FAILURE_PERIOD, statistic="Sum")
