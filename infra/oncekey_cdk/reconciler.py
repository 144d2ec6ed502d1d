"""The reconciler: a function on a schedule that settles due records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from .arguments import explained
from .event_sources import grant_send
from .faults import override_faults, refuse
from .idempotency_table import NO_INDEX
from .idempotent_function import FIXED_PROPS, IdempotentFunction
from .safe_queue import create_queue
from .schedule import connect_schedule, let_events_send

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aws_cdk import aws_codedeploy as codedeploy
    from aws_cdk import aws_kms as kms

    from .idempotency_table import IdempotencyTable
    from .outbox import Outbox
    from .response_bucket import ResponseBucket

_EVERY = Duration.minutes(1)
_TIMEOUT = Duration.seconds(60)
_MEMORY_MB = 256
# EventBridge and Lambda keep a call for at most six hours.
_LONGEST_AGE_S = 6 * 3600
_MINUTE_S = 60
_OF_THE_SCHEDULE = "the schedule of the reconciler sets it"
_FIXED_OF_RUNS = dict.fromkeys(
    ("on_failure", "on_success", "max_event_age", "retry_attempts"), _OF_THE_SCHEDULE
)
_WITHOUT_RESOLVERS = "from oncekey.reconciler import Reconciler\n\nhandler = Reconciler()\n"


@explained
class Reconciler(Construct):
    """A function on a schedule that settles due records, and the escalation queue.

    It ends dead attempts and asks resolvers. What nobody can settle becomes a message in
    `escalated`, for a person. Runs may overlap, which is safe because every write is conditional.

    Attributes:
        reconciler: The function. Grant it what your resolvers need.
        escalated: The queue for operations that nobody could settle, and for failed runs.
        every: How often it runs.

    Args:
        table: The table whose records it settles.
        code: Your resolvers and the handler, `oncekey.reconciler.Reconciler(resolvers=...)`; by
            default one without resolvers, which escalates every unknown operation.
        handler: The handler's name in the code, as `module.attribute`.
        outbox: The outbox whose messages it sends again if the relay left them behind.
        responses: The bucket for large answers.
        every: How often it runs, in whole minutes.
        timeout: How long a run may take.
        environment: Further variables.
        layers: By default the library alone.
        keeps_data: Whether its queue and log are kept when the stack is deleted.
        rollout: How a deployment moves its runs to a new version; by default at once.
        encryption_key: A customer's key for the queue; without one, SQS's own.
        function_props: Overrides of any property of `aws_lambda.Function`, by the CDK's names.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        table: IdempotencyTable,
        code: lambda_.Code | None = None,
        handler: str | None = None,
        outbox: Outbox | None = None,
        responses: ResponseBucket | None = None,
        every: Duration = _EVERY,
        timeout: Duration = _TIMEOUT,
        environment: Mapping[str, str] | None = None,
        layers: Sequence[lambda_.ILayerVersion] | None = None,
        keeps_data: bool = True,
        rollout: codedeploy.ILambdaDeploymentConfig | None = None,
        encryption_key: kms.IKey | None = None,
        function_props: Mapping[str, Any] | None = None,
    ) -> None:
        faults = [
            *_schedule_faults(every),
            *_code_faults(code, handler),
            *([] if table.has_due_index else [NO_INDEX]),
            *override_faults(
                function_props,
                name="function_props",
                of=lambda_.Function,
                fixed={**FIXED_PROPS, **_FIXED_OF_RUNS},
            ),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="Reconciler")
        super().__init__(scope, construct_id)
        self.escalated = create_queue(
            self, "Escalated", keeps_data=keeps_data, encryption_key=encryption_key
        )
        let_events_send(self.escalated)
        variables = {"ONCEKEY_ESCALATION_QUEUE_URL": self.escalated.queue_url}
        if outbox:
            variables["ONCEKEY_QUEUE_URL"] = outbox.queue.queue_url
        self.reconciler = IdempotentFunction(
            self,
            "Reconciler",
            code=code or lambda_.Code.from_inline(_WITHOUT_RESOLVERS),
            handler=handler or "index.handler",
            timeout=timeout,
            table=table,
            outbox=outbox,
            responses=responses,
            environment={**variables, **(environment or {})},
            layers=layers,
            memory_mb=_MEMORY_MB,
            keeps_data=keeps_data,
            rollout=rollout,
            function_props=function_props,
        )
        self.every = every
        self._connect(table, outbox, every)

    def _connect(self, table: IdempotencyTable, outbox: Outbox | None, every: Duration) -> None:
        table.grant_due(self.reconciler)
        grant_send(self.reconciler, self.escalated)
        if outbox:
            outbox.grant_sweep(self.reconciler)
        minutes = round(every.to_minutes())
        connect_schedule(
            self.reconciler,
            expression=f"rate({minutes} {'minute' if minutes == 1 else 'minutes'})",
            # The next run does the work of a dropped one.
            max_age=Duration.seconds(min(minutes * _MINUTE_S, _LONGEST_AGE_S)),
            on_failure=self.escalated,
        )


def _code_faults(code: lambda_.Code | None, handler: str | None) -> Iterator[str]:
    if (code is None) != (handler is None):
        yield "code and handler belong together: pass both, or neither"


def _schedule_faults(every: Duration) -> Iterator[str]:
    seconds = every.to_seconds()
    if seconds < _MINUTE_S or seconds % _MINUTE_S:
        yield f"every is {seconds:g} s: use whole minutes, at least one"
