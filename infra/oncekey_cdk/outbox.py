"""The outbox: a table, the queue that its messages go to, and the relay between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from aws_cdk import Duration, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from oncekey.store.dynamodb.schema import OUTBOX
from oncekey_local.description.actions import PUBLISH_ACTIONS, RELAY_ACTIONS, SWEEP_ACTIONS

from .arguments import explained
from .checks import safe_visibility_timeout_s, visibility_faults
from .event_sources import (
    connect_queue,
    connect_stream,
    grant_receive,
    grant_send,
    grant_stream,
    queue_source_faults,
)
from .existing_tables import region_faults
from .faults import override_faults, refuse
from .idempotent_function import FIXED_PROPS, IdempotentFunction
from .resources import function_timeout_s, queue_resource, visibility_timeout_s
from .safe_queue import DEAD_LETTER_RETENTION, create_queue
from .safe_table import SafeTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from .faults import Props

# The relay fails only if DynamoDB or SQS is down, so it tries for a long time. A relay that gives
# up sends nothing.
RELAY_TIMEOUT = Duration.seconds(60)
_RELAY_MEMORY_MB = 256
RETENTION = Duration.days(4)
_RELAY = "from oncekey.outbox import OutboxRelay\n\nhandler = OutboxRelay()\n"
_RELAY_IN_ORDER = (
    "from oncekey.outbox import OutboxRelay\n\n"
    "handler = OutboxRelay(group=lambda message: message.tenant)\n"
)


_FIXED_OF_QUEUE = {
    "dead_letter_queue": "failed messages go to this outbox's own; use max_receives=",
    "fifo": "the relay must know it; use fifo=",
    "visibility_timeout": "it depends on the worker; use visibility_timeout=",
    "retention_period": "it depends on that of the dead letters; use retention=",
}


class OutboxTable(SafeTable):
    """The table of messages on their way to the queue. The relay deletes those that arrived."""

    _kind = "OutboxTable"
    _fixed: ClassVar[Mapping[str, str]] = {
        "partition_key": "the layer writes it under this name",
        "sort_key": "a message is one item",
        "stream": "it calls the relay",
        "time_to_live_attribute": "a message that is not sent yet must not be deleted",
        "replication_regions": "each Region's relay would send every message",
    }

    def __init__(self, scope: Construct, construct_id: str, **props: Any) -> None:
        key = dynamodb.Attribute(name=OUTBOX.partition_key, type=dynamodb.AttributeType.STRING)
        super().__init__(scope, construct_id, partition_key=key, stream=True, **props)


@explained
class Outbox(Construct):
    """The way of messages from a handler's transaction to a worker.

        outbox = Outbox(self, "Outbox")
        IdempotentFunction(self, "Api", outbox=outbox, ...)
        outbox.add_worker(worker)

    Attributes:
        table: The outbox table, with its stream.
        queue: The queue that the relay sends to.
        dead_letters: The queue of messages that were received `max_receives` times.
        given_up: The queue of stream records that Lambda gave up. Their messages are still in the
            table.
        relay: The function on the stream.

    Args:
        fifo: Whether a tenant's messages are worked on in order.
        max_receives: How often a message is received at most. A delivery that ended in a kill, or
            was given back for lack of time, counts too.
        retention: How long a message may wait in the queue; shorter than for dead letters.
        visibility_timeout: By default the shortest one that is safe for the worker.
        keeps_data: Whether table, queues and log are kept when the stack is deleted.
        encryption_key: A customer's key; without one, keys that AWS owns.
        relay_scope: Where the relay is created, such as a stack that may be replaced; by default
            here.
        layers: The relay's layers; by default the library alone.
        table_props: Overrides of any property of `aws_dynamodb.Table`, by the CDK's names.
        queue_props: The same for the queue, `aws_sqs.Queue`.
        relay_props: The same for the relay, `aws_lambda.Function`.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fifo: bool = False,
        max_receives: int = 12,
        retention: Duration = RETENTION,
        visibility_timeout: Duration | None = None,
        keeps_data: bool = True,
        encryption_key: kms.IKey | None = None,
        relay_scope: Construct | None = None,
        layers: Sequence[lambda_.ILayerVersion] | None = None,
        table_props: Mapping[str, Any] | None = None,
        queue_props: Mapping[str, Any] | None = None,
        relay_props: Mapping[str, Any] | None = None,
    ) -> None:
        faults = [
            *_queue_faults(retention, max_receives),
            *override_faults(queue_props, name="queue_props", of=sqs.Queue, fixed=_FIXED_OF_QUEUE),
            *override_faults(
                relay_props, name="relay_props", of=lambda_.Function, fixed=FIXED_PROPS
            ),
            *OutboxTable.props_faults(table_props),
            *_region_faults(scope, relay_scope or scope),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="Outbox")
        super().__init__(scope, construct_id)
        kept: Props = {"keeps_data": keeps_data, "encryption_key": encryption_key}
        self.table = OutboxTable(self, "Table", table_props=table_props, **kept)
        self.dead_letters = create_queue(self, "DeadLetters", fifo=fifo, **kept)
        # Lambda cannot send failures to a FIFO queue.
        self.given_up = create_queue(self, "GivenUp", **kept)
        self._visibility_timeout = visibility_timeout
        self._worker: IdempotentFunction | None = None
        self.queue = create_queue(
            self,
            "Queue",
            retention=retention,
            fifo=fifo,
            visibility_timeout=visibility_timeout,
            dead_letters=self.dead_letters,
            max_receives=max_receives,
            queue_props=queue_props,
            **kept,
        )
        self.relay = IdempotentFunction(
            relay_scope or self,
            "Relay" if relay_scope is None else f"{construct_id}Relay",
            code=lambda_.Code.from_inline(_RELAY_IN_ORDER if fifo else _RELAY),
            handler="index.handler",
            timeout=RELAY_TIMEOUT,
            memory_mb=_RELAY_MEMORY_MB,
            environment=self._relay_variables(relay_scope or self),
            layers=layers,
            keeps_data=keeps_data,
            function_props=relay_props,
        )
        self._connect_relay()

    def _relay_variables(self, scope: Construct) -> dict[str, str]:
        return {
            "ONCEKEY_OUTBOX_TABLE": self.table.name_for(scope),
            "ONCEKEY_QUEUE_URL": self.queue.queue_url,
        }

    def _connect_relay(self) -> None:
        self.table.allow(self.relay, *self._relay_actions)
        grant_send(self.relay, self.queue)
        connect_stream(
            self.relay,
            "Stream",
            table=self.table.table,
            encryption_key=self.table.encryption_key,
            on_failure=self.given_up,
        )

    def grant_publish(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` publish messages."""
        self.table.allow(grantee, *PUBLISH_ACTIONS)

    def grant_relay(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` read the stream, send to the queue, and delete what was sent."""
        grant_stream(grantee, self.table.table, encryption_key=self.table.encryption_key)
        self.table.allow(grantee, *self._relay_actions)
        grant_send(grantee, self.queue)

    @property
    def _relay_actions(self) -> tuple[str, ...]:
        return (*RELAY_ACTIONS, *SWEEP_ACTIONS) if self.queue.fifo else RELAY_ACTIONS

    def grant_sweep(self, grantee: iam.IGrantable) -> None:
        """Let `grantee`, a reconciler, find messages that the relay left behind, and send them."""
        self.table.allow(grantee, *SWEEP_ACTIONS)
        self.table.allow(grantee, *RELAY_ACTIONS)
        grant_send(grantee, self.queue)

    def grant_receive(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` receive, delete and delay messages."""
        grant_receive(grantee, self.queue)

    def add_worker(
        self,
        worker: IdempotentFunction,
        *,
        batch_size: int = 5,
        window: Duration | None = None,
        max_concurrency: int | None = None,
    ) -> lambda_.CfnEventSourceMapping:
        """Let the queue call `worker`, with a visibility timeout that is safe for it.

        The worker gets the queue as ONCEKEY_QUEUE_URL, so that it can delay messages.

        Raises:
            ValueError: The given `visibility_timeout` is too short for this worker, the worker has
                another outbox, the outbox has another worker, or Lambda refuses the event source.
        """
        window_s = round(window.to_seconds(integral=False)) if window else 0
        timeout_s = function_timeout_s(worker.function) or 0
        given = self._visibility_timeout
        faults = queue_source_faults(
            self.queue, batch_size=batch_size, window=window, max_concurrency=max_concurrency
        )
        if given is not None:
            faults += visibility_faults(
                visible_s=round(given.to_seconds()), timeout_s=timeout_s, window_s=window_s
            )
        if self._worker is not None and self._worker is not worker:
            faults.append(
                f"{self._worker.node.path!r} works for it already, and each message would reach"
                " one of the two, by chance: let one worker handle all topics"
                " (oncekey.outbox.Topics), or give the other an outbox of its own"
            )
        if worker.works_for is self:
            faults.append(f"worker {worker.node.path!r} works for it already: add it once")
        elif worker.works_for is not None:
            faults.append(
                f"worker {worker.node.path!r} works for {worker.works_for.node.path!r} already, and"
                " can delay the messages of one queue only: give this outbox a worker of its own"
            )
        refuse(faults, scope=self, construct_id="Queue", kind="Outbox")
        worker.works_for = self
        self._worker = worker
        if given is None:
            least_s = safe_visibility_timeout_s(timeout_s=timeout_s, window_s=window_s)
            queue = queue_resource(self.queue)
            queue.visibility_timeout = max(least_s, visibility_timeout_s(self.queue) or 0)
        worker.function.add_environment("ONCEKEY_QUEUE_URL", self.queue.queue_url)
        return connect_queue(
            worker,
            f"{self.node.id}Queue",
            queue=self.queue,
            batch_size=batch_size,
            window=window,
            max_concurrency=max_concurrency,
        )


def _region_faults(scope: Construct, relay_scope: Construct) -> Iterator[str]:
    there, here = Stack.of(scope).region, Stack.of(relay_scope).region
    return region_faults(there, here, called="the table of the outbox")


def _queue_faults(retention: Duration, max_receives: int) -> Iterator[str]:
    most_s = DEAD_LETTER_RETENTION.to_seconds()
    if not 60 <= retention.to_seconds() < most_s:
        yield (
            f"retention is {retention.to_seconds():g} s: use at least a minute, and less than the"
            " 14 days of dead letters, which count from when a message was first sent"
        )
    if not 1 <= max_receives <= 1000:
        yield f"max_receives is {max_receives}: use 1 to 1000"
