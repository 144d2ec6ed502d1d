"""The relay: a Lambda function on the outbox table's stream that sends its messages to a queue.

    from oncekey.outbox import OutboxRelay

    handler = OutboxRelay()

ONCEKEY_OUTBOX_TABLE names the table, and ONCEKEY_QUEUE_URL the queue. The event source must filter
INSERT and have `ReportBatchItemFailures`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from oncekey.effects.handlers import is_coroutine_function, is_generator_function
from oncekey.engine.request import remaining_ms
from oncekey.errors import ConfigurationError, StoreError
from oncekey.flow.driver import NO_STORE, drive
from oncekey.options import clock_faults, part_faults
from oncekey.outbox.batch import records_of
from oncekey.outbox.relay_order import in_order
from oncekey.outbox.relay_turn import Turn
from oncekey.store import in_use
from oncekey.store.dynamodb.outbox import NotAMessage, OutboxTable, message_from_item
from oncekey.store.sqs import LONGEST_CALL_MS, SqsQueue
from oncekey.telemetry import outbox as relay_telemetry
from oncekey.telemetry import watching

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from oncekey.clock import Clock
    from oncekey.record.message import Message

# The time for one call of the queue and the deletion after it. In a short invocation it is at most
# a third of the time, so that the relay does some work.
_MARGIN_MS = LONGEST_CALL_MS + 2_000
_MARGIN_FRACTION = 3
# How many sent messages one sandbox remembers. A stream's batch has at most 10,000 records.
_MOST_REMEMBERED = 10_000


class OutboxRelay:
    """Sends each message to the queue at least once, and then deletes it from the table.

    A message stays in the table until `SendMessageBatch` has acknowledged it. A relay that is
    killed at any moment, or runs twice at once, can send a message again but never loses one.
    Workers recognise repeats by the message's id.

    If the queue does not answer, or if time runs out, the relay reports the first failed record.
    Lambda then delivers the stream's records again from there on. The relay skips those that were
    already sent, as long as its sandbox lives. A message that the queue refuses is not reported, so
    it does not delay others. The reconciler's sweep sends it again, and sets it aside after several
    refusals.

    Args:
        table: the outbox table, by default the one that ONCEKEY_OUTBOX_TABLE names.
        queue: the queue, by default the one that ONCEKEY_QUEUE_URL names.
        group: for a FIFO queue, a function that returns a message's group, by default its tenant.
            Messages of one group are sent in order: no later message is sent while an earlier one
            of its group is in the table. A name that SQS does not accept is replaced by its hash.
            Such a relay reads the table at each call; the table is nearly empty unless the queue is
            down. A standard queue gets the groups too, and does not keep their order.
        clock: for tests.

    Raises:
        ConfigurationError: an argument is wrong; the message names every fault.
    """

    def __init__(
        self,
        *,
        table: OutboxTable | None = None,
        queue: SqsQueue | None = None,
        group: Callable[[Message], str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        faults = [
            *_group_faults(group),
            *part_faults(
                {
                    "table=": (table, "delete", "OutboxTable(name)"),
                    "queue=": (queue, "send", "SqsQueue(url)"),
                }
            ),
            *clock_faults(clock),
        ]
        if faults:
            raise ConfigurationError("OutboxRelay", faults)
        self._table = table
        self._queue = queue
        self._group = group
        self._given_clock = clock
        # Messages that were sent and deleted after a failed record. Lambda delivers them again.
        self._sent: dict[str, None] = {}

    def __call__(self, event: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Relay the messages of a DynamoDB stream event, and return the records that failed.

        https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html

        Raises:
            ConfigurationError: there is no table or no queue, the event is none of the table's
                stream, or the stream does not contain the new items; nothing was sent.
        """
        watching.look_again()
        relaying = self.relay_flow(event, _is_time_left(context))
        try:
            return drive(relaying, store=NO_STORE, clock=self.clock)
        finally:
            watching.flush(self.clock.now_ms())

    async def relay_flow(
        self, event: Mapping[str, Any], is_time_left: Callable[[], bool]
    ) -> dict[str, Any]:
        """The flow of one invocation, which sends messages while there is time.

        It is for drivers of flows. A Lambda handler is the relay itself.
        """
        turn = self.turn(is_time_left)
        numbers: dict[str, str] = {}
        messages: list[Message] = []
        for record in records_of(event, "dynamodb", "OutboxRelay", "the outbox table's stream"):
            if record.get("eventName") != "INSERT":
                continue
            change = record["dynamodb"]
            if "NewImage" not in change:
                fault = "the stream tells no new images: give it the view NEW_AND_OLD_IMAGES"
                raise ConfigurationError("OutboxRelay", [fault])
            try:
                message = message_from_item(change["NewImage"])
            except NotAMessage as fault:
                await turn.put_aside(str(change["NewImage"].get("id", {}).get("S", "")), str(fault))
                continue
            if message.id not in self._sent and message.id not in numbers:
                numbers[message.id] = change["SequenceNumber"]
                messages.append(message)
        if messages:
            again = await self._relay(messages, turn, is_time_left)
            watching.count("MessagesSent", value=len(turn.gone))
            self._remember(turn.gone & numbers.keys(), numbers, again)
            failed = sorted((numbers[each] for each in again if each in numbers), key=int)
            return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
        return {"batchItemFailures": []}

    def turn(self, is_time_left: Callable[[], bool]) -> Turn:
        """A turn that sends messages while there is time.

        Raises:
            ConfigurationError: there is no table or no queue.
        """
        table, queue = self._connected()
        return Turn(
            table=table,
            queue=queue,
            group=self.group,
            clock=self.clock,
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
        """The function that returns a message's group; None for a queue without order.

        Raises:
            ConfigurationError: there is no table or no queue.
        """
        if self._group is None and self._connected()[1].is_fifo:
            return _tenant
        return self._group

    @property
    def clock(self) -> Clock:
        """The clock in use."""
        return in_use.clock_or(self._given_clock)

    async def _relay(
        self, messages: Sequence[Message], turn: Turn, is_time_left: Callable[[], bool]
    ) -> set[str]:
        """Send `messages`. Returns the ids of those whose records must be delivered again."""
        group = self.group
        if group is None:
            await turn.send(messages)
            return turn.again
        try:
            line = await in_order(messages, self.table, group, is_time_left)
        except StoreError as error:
            # Without the table, the relay does not know which messages must be sent first.
            relay_telemetry.relay_failed(len(messages), error)
            return {message.id for message in messages}
        await turn.send(line.messages)
        return turn.again | line.behind

    def _remember(self, sent: set[str], numbers: Mapping[str, str], again: set[str]) -> None:
        """Remember the sent messages after the first failed record, which Lambda delivers again."""
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


def _group_faults(group: object) -> list[str]:
    if group is None:
        return []
    if isinstance(group, type) or not callable(group):
        return ["group= is no function of a message"]
    if is_coroutine_function(group) or is_generator_function(group):
        return ["group= is an async function or a generator, which nobody runs: return the text"]
    return []


def _tenant(message: Message) -> str:
    return message.tenant


def _is_time_left(context: object) -> Callable[[], bool]:
    """A function that says whether the invocation has time for one more call of the queue."""
    at_first_ms = remaining_ms(context)
    if at_first_ms is None:
        return lambda: True
    margin_ms = min(_MARGIN_MS, at_first_ms // _MARGIN_FRACTION)
    return lambda: (remaining_ms(context) or 0) > margin_ms
