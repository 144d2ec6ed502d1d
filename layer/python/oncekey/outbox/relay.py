"""The relay: a Lambda on the outbox table's stream that sends what is written there to a queue.

    from oncekey.outbox import OutboxRelay

    handler = OutboxRelay()

The table and the queue are those of ONCEKEY_OUTBOX_TABLE and ONCEKEY_QUEUE_URL. The event source
filters INSERT and has `ReportBatchItemFailures`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from oncekey.clock import SystemClock
from oncekey.engine.claim import remaining_ms
from oncekey.errors import ConfigurationError, StoreError
from oncekey.outbox.relay_order import in_order
from oncekey.outbox.relay_turn import Turn
from oncekey.store.dynamodb.outbox import NotAMessage, OutboxTable, message_from_item
from oncekey.store.sqs import LONGEST_CALL_MS, SqsQueue
from oncekey.telemetry import outbox as relay_telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oncekey.clock import Clock
    from oncekey.record.message import Message

# One call of the queue, and the deletion after it. Of a short invocation a third, or it would never
# do anything.
_MARGIN_MS = LONGEST_CALL_MS + 2_000
_MARGIN_FRACTION = 3
# What one sandbox remembers of what it has sent; a stream's batch has 10,000 records at the most.
_MOST_REMEMBERED = 10_000


class OutboxRelay:
    """Sends each message to the queue, at least once, and deletes it once the queue has it.

    A message is in the table until `SendMessageBatch` has acknowledged it; killed at any moment, or
    run twice at once, the relay can send one again and never lose one. Workers tell repeats by the
    message's id.

    What fails because the queue does not answer, and what there is no time for, is reported, so
    that Lambda sends the stream's records again from there on; those behind it that were sent are
    passed over then, as long as the sandbox lives. What the queue refuses is not reported: it
    waits for the reconciler's sweep, and is set aside in the end. It holds nothing up.

    Args:
        table: the outbox table, by default that of ONCEKEY_OUTBOX_TABLE.
        queue: the queue, by default that of ONCEKEY_QUEUE_URL.
        group: for a FIFO queue, the group that a message is kept in order with, by default its
            tenant. A name that SQS does not take is replaced by its hash. While an earlier message
            of a group is in the table, none that is later is sent. Such a relay reads the table at
            each call, which is nearly empty unless the queue is down.
        clock: for tests.
    """

    def __init__(
        self,
        *,
        table: OutboxTable | None = None,
        queue: SqsQueue | None = None,
        group: Callable[[Message], str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._table = table
        self._queue = queue
        self._group = group
        self._clock = clock or SystemClock()
        # Sent and deleted, and behind a failure: Lambda sends their records again.
        self._sent: dict[str, None] = {}

    def __call__(self, event: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Relay the messages of a DynamoDB stream event; which of its records failed.

        https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html

        Raises:
            ConfigurationError: there is no table or no queue, or the stream does not tell what was
                written; nothing was sent.
        """
        is_time_left = _is_time_left(context)
        turn = self.turn(is_time_left)
        numbers: dict[str, str] = {}
        messages: list[Message] = []
        for record in event.get("Records", []):
            if record.get("eventName") != "INSERT":
                continue
            change = record["dynamodb"]
            if "NewImage" not in change:
                fault = "the stream tells no new images: give it the view NEW_AND_OLD_IMAGES"
                raise ConfigurationError("OutboxRelay", [fault])
            try:
                message = message_from_item(change["NewImage"])
            except NotAMessage as fault:
                turn.put_aside(str(change["NewImage"].get("id", {}).get("S", "")), str(fault))
                continue
            if message.id not in self._sent and message.id not in numbers:
                numbers[message.id] = change["SequenceNumber"]
                messages.append(message)
        if messages:
            again = self._relay(messages, turn, is_time_left)
            self._remember(turn.gone & numbers.keys(), numbers, again)
            failed = sorted((numbers[each] for each in again if each in numbers), key=int)
            return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
        return {"batchItemFailures": []}

    def turn(self, is_time_left: Callable[[], bool]) -> Turn:
        """A turn that sends what it is given, as long as there is time.

        Raises:
            ConfigurationError: there is no table or no queue.
        """
        table, queue = self._connected()
        return Turn(
            table=table,
            queue=queue,
            group=self.group,
            clock=self._clock,
            is_time_left=is_time_left,
        )

    @property
    def table(self) -> OutboxTable:
        """The outbox table.

        Raises:
            ConfigurationError: there is no table or no queue.
        """
        return self._connected()[0]

    @property
    def group(self) -> Callable[[Message], str] | None:
        """What tells the group of a message; None for a queue that keeps no order.

        Raises:
            ConfigurationError: there is no table or no queue.
        """
        if self._group is None and self._connected()[1].is_fifo:
            return _tenant
        return self._group

    def _relay(
        self, messages: Sequence[Message], turn: Turn, is_time_left: Callable[[], bool]
    ) -> set[str]:
        """Send `messages`; the ids of those whose records are to come again."""
        group = self.group
        if group is None:
            turn.send(messages)
            return turn.again
        try:
            line = in_order(messages, self.table, group, is_time_left)
        except StoreError as error:
            # Nobody knows what has to go first.
            relay_telemetry.relay_failed(len(messages), error)
            return {message.id for message in messages}
        turn.send(line.messages)
        return turn.again | line.behind

    def _remember(self, sent: set[str], numbers: Mapping[str, str], again: set[str]) -> None:
        """Remember what Lambda sends again although it was sent: what stands behind a failure."""
        first = min((int(numbers[each]) for each in again if each in numbers), default=None)
        if first is None:
            return
        self._sent |= dict.fromkeys(each for each in sent if int(numbers[each]) > first)
        while len(self._sent) > _MOST_REMEMBERED:
            del self._sent[next(iter(self._sent))]

    def _connected(self) -> tuple[OutboxTable, SqsQueue]:
        faults: list[str] = []
        if self._table is None:
            name = os.environ.get("ONCEKEY_OUTBOX_TABLE", "").strip()
            faults += [] if name else ["ONCEKEY_OUTBOX_TABLE is not set: name the outbox table"]
            self._table = OutboxTable(name) if name else None
        if self._queue is None:
            url = os.environ.get("ONCEKEY_QUEUE_URL", "").strip()
            faults += [] if url else ["ONCEKEY_QUEUE_URL is not set: name the queue"]
            self._queue = SqsQueue(url) if url else None
        if self._table is None or self._queue is None:
            raise ConfigurationError("OutboxRelay", faults)
        return self._table, self._queue


def _tenant(message: Message) -> str:
    return message.tenant


def _is_time_left(context: object) -> Callable[[], bool]:
    """Whether the invocation lasts for one more call of the queue, asked again and again."""
    at_first_ms = remaining_ms(context)
    if at_first_ms is None:
        return lambda: True
    margin_ms = min(_MARGIN_MS, at_first_ms // _MARGIN_FRACTION)
    return lambda: (remaining_ms(context) or 0) > margin_ms
