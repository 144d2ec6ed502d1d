"""The records of an event that Lambda sends for a stream or a queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oncekey.errors import ConfigurationError
from oncekey.misuse import event_kind
from oncekey.record.outcome import whole_seconds
from oncekey.store.sqs import LONGEST_DELAY_S

Record = Mapping[str, Any]


def records_of(event: object, member: str, where: str, source: str) -> list[Record]:
    """The records of `event`, each of which has the member that all records of `source` have.

    A function with the event source of another one would otherwise report success, and Lambda would
    delete messages that nobody has read.

    Raises:
        ConfigurationError: it is the event of something else.
    """
    records: Any = event.get("Records") if isinstance(event, Mapping) else None
    is_batch = isinstance(records, list)
    if is_batch and all(isinstance(each, Mapping) and member in each for each in records):
        found: list[Record] = records
        return found
    kind = event_kind(event)
    if not kind and not isinstance(event, Mapping):
        kind = f"a {type(event).__name__}"
    fault = f"its event is {kind or 'no batch of records'}: its event source must be {source}"
    raise ConfigurationError(where, [fault])


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A record of the event. `group` is set for a FIFO queue only."""

    record: Record
    id: str
    handle: str
    receives: int
    first_received_ms: int | None
    group: str | None

    @classmethod
    def of(cls, record: Record) -> Received:
        """The message of a record."""
        attributes = record.get("attributes", {})
        # Messages of standard queues may also have groups, which do not order them.
        is_fifo = str(record.get("eventSourceARN", "")).endswith(".fifo")
        first_ms = attributes.get("ApproximateFirstReceiveTimestamp")
        return cls(
            record=record,
            id=record["messageId"],
            handle=record.get("receiptHandle", ""),
            receives=int(attributes.get("ApproximateReceiveCount", 1)),
            first_received_ms=None if first_ms is None else int(first_ms),
            group=attributes.get("MessageGroupId", "") if is_fifo else None,
        )

    def tried_for_s(self, now_ms: int) -> int:
        """The time since its first receive, in seconds."""
        if self.first_received_ms is None or self.first_received_ms > now_ms:
            # The time is missing or in the future. Only the number of receives is then used.
            return LONGEST_DELAY_S
        return whole_seconds(now_ms - self.first_received_ms)
