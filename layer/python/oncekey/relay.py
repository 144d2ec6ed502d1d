"""The relay: a Lambda on the outbox table's stream that sends what is written there to a queue.

    from oncekey.relay import OutboxRelay

    handler = OutboxRelay()

The table and the queue are those of ONCEKEY_OUTBOX_TABLE and ONCEKEY_QUEUE_URL. The event source
filters INSERT and has `ReportBatchItemFailures`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey import relay_telemetry
from oncekey.dynamodb_outbox import NotAMessage, OutboxTable, message_from_item
from oncekey.envelope import sealed
from oncekey.errors import ConfigurationError, StoreError
from oncekey.sqs_queue import MOST_BATCH_BYTES, MOST_ENTRIES, Entry, SqsQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from oncekey.outbox import Message


_LONGEST_GROUP = 128


@dataclass(frozen=True, slots=True)
class _Due:
    """A message of the stream, under its sequence number there."""

    sequence_number: str
    entry: Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Relayed:
    """Of a batch: the sequence numbers to be sent again, and the ids that only the queue has."""

    again: set[str]
    gone: set[str]


class OutboxRelay:
    """Sends each message to the queue, at least once, and deletes it once the queue has it.

    A message is in the table until `SendMessageBatch` has acknowledged it; killed at any moment, or
    run twice at once, the relay can send one again and never lose one. Workers tell repeats by the
    message's id. What fails is reported, so that Lambda sends the stream's records again from there
    on. What can never be sent stays in the table and is logged; it holds nothing up.

    Args:
        table: the outbox table, by default that of ONCEKEY_OUTBOX_TABLE.
        queue: the queue, by default that of ONCEKEY_QUEUE_URL.
        group: for a FIFO queue, the group that a message is kept in order with, such as
            `lambda message: message.tenant`.
    """

    def __init__(
        self,
        *,
        table: OutboxTable | None = None,
        queue: SqsQueue | None = None,
        group: Callable[[Message], str] | None = None,
    ) -> None:
        self._table = table
        self._queue = queue
        self._group = group

    def __call__(self, event: Mapping[str, Any], context: object) -> dict[str, Any]:
        """Relay the messages of a DynamoDB stream event; which of its records failed.

        https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-batchfailurereporting.html

        Raises:
            ConfigurationError: there is no table or no queue; nothing was sent.
        """
        del context
        table, queue = self._connected()
        failed: set[str] = set()
        for batch in _batches(self._due(event.get("Records", []))):
            failed |= self._relay(batch, table, queue).again
        return {"batchItemFailures": [{"itemIdentifier": each} for each in sorted(failed, key=int)]}

    @property
    def table(self) -> OutboxTable:
        """The outbox table.

        Raises:
            ConfigurationError: there is no table or no queue.
        """
        return self._connected()[0]

    def send_again(self, messages: Sequence[Message]) -> set[str]:
        """Relay messages that were found in the table; the ids of those that have left it.

        What the stream's relay has sent meanwhile arrives twice, under one id.

        Raises:
            ConfigurationError: as above.
        """
        table, queue = self._connected()
        gone: set[str] = set()
        for batch in _batches(_known(self._entries(messages))):
            gone |= self._relay(batch, table, queue).gone
        return gone

    def _due(self, records: Sequence[Mapping[str, Any]]) -> Iterator[_Due]:
        for record in records:
            if record.get("eventName") != "INSERT":
                continue
            change = record["dynamodb"]
            try:
                message = message_from_item(change["NewImage"])
            except NotAMessage as fault:
                relay_telemetry.message_set_aside("", str(fault))
                continue
            entry = self._entry(message)
            if entry is not None:
                yield _Due(change["SequenceNumber"], entry)

    def _entries(self, messages: Sequence[Message]) -> Iterator[Entry]:
        for message in messages:
            entry = self._entry(message)
            if entry is not None:
                yield entry

    def _entry(self, message: Message) -> Entry | None:
        """The message as the queue takes it; None, and a log line, for one that it never will."""
        try:
            group = self._group_of(message)
        except Exception as fault:  # noqa: BLE001 -- of the author's; one message holds nothing up
            relay_telemetry.message_set_aside(message.id, f"group= {type(fault).__name__}")
            return None
        entry = Entry(id=message.id, body=sealed(message), group=group)
        if entry.size_bytes > MOST_BATCH_BYTES:
            relay_telemetry.message_set_aside(message.id, "it is larger than the queue takes")
            return None
        return entry

    def _group_of(self, message: Message) -> str | None:
        if self._group is None:
            return None
        group = self._group(message)
        # https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
        if not 0 < len(group) <= _LONGEST_GROUP:
            raise ValueError("a group has 1 to 128 characters")
        return group

    def _relay(self, batch: Sequence[_Due], table: OutboxTable, queue: SqsQueue) -> _Relayed:
        numbers = {due.entry.id: due.sequence_number for due in batch}
        try:
            rejected = queue.send([due.entry for due in batch])
            for each in rejected:
                relay_telemetry.message_rejected(each.id, each.reason, is_final=each.is_final)
            sent = numbers.keys() - {each.id for each in rejected}
            left = table.delete(sorted(sent))
        except StoreError as error:
            relay_telemetry.relay_failed(len(batch), error)
            return _Relayed(again=set(numbers.values()), gone=set())
        again = left | {each.id for each in rejected if not each.is_final}
        return _Relayed(again={numbers[each] for each in again}, gone=sent - left)

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


def _known(entries: Iterator[Entry]) -> Iterator[_Due]:
    # What stands in no stream goes by its id.
    for entry in entries:
        yield _Due(entry.id, entry)


def _batches(due: Iterator[_Due]) -> Iterator[list[_Due]]:
    batch: list[_Due] = []
    for each in due:
        size_bytes = sum(other.entry.size_bytes for other in batch) + each.entry.size_bytes
        if batch and (len(batch) == MOST_ENTRIES or size_bytes > MOST_BATCH_BYTES):
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch
