"""An outbox table in memory, in the order of the scan, and messages in it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from oncekey.record.message import Message
from oncekey.record.set_aside import SetAside
from oncekey.store.dynamodb.outbox import OutboxPage, OutboxTable, message_item

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WEEK_MS = 7 * 24 * 3_600_000


class MemoryOutbox(OutboxTable):
    """The verbs of the table on a dictionary. `happens` is called before each, and may raise."""

    def __init__(self, *messages: Message, page: int = 1_000) -> None:
        super().__init__("outbox-in-memory")
        self.messages = {message.id: message for message in messages}
        self.tries: dict[str, int] = {}
        self.aside: dict[str, SetAside] = {}
        self.told: dict[str, int] = {}
        self.pages = 0
        self.happens: Callable[[str], object] = lambda _verb: None
        self._page = page

    def waiting(self, before_ms: int, after: Any = None) -> OutboxPage:
        """See `OutboxTable.waiting`."""
        self.happens("waiting")
        self.pages += 1
        ids = sorted(each for each in self.messages if after is None or each > after)
        here = list(islice(ids, self._page))
        return OutboxPage(
            messages=tuple(
                self.messages[each]
                for each in here
                if each not in self.aside and self.messages[each].created_at_ms < before_ms
            ),
            tries={each: self.tries[each] for each in here if self.tries.get(each)},
            set_aside=tuple(
                self.aside[each]
                for each in here
                if each in self.aside and self.told.get(each, -WEEK_MS) < before_ms - WEEK_MS
            ),
            after=here[-1] if len(ids) > len(here) else None,
        )

    def delete(self, ids: Sequence[str]) -> set[str]:
        """See `OutboxTable.delete`."""
        self.happens("delete")
        for each in ids:
            self.messages.pop(each, None)
        return set()

    def count_try(self, message_id: str) -> int | None:
        """See `OutboxTable.count_try`."""
        self.happens("count_try")
        if message_id not in self.messages:
            return None
        self.tries[message_id] = self.tries.get(message_id, 0) + 1
        return self.tries[message_id]

    def set_aside(self, message_id: str, reason: str, now_ms: int) -> bool:
        """See `OutboxTable.set_aside`."""
        self.happens("set_aside")
        if message_id not in self.messages:
            return False
        message = self.messages[message_id]
        self.aside[message_id] = SetAside(
            id=message_id,
            topic=message.topic,
            operation=message.operation,
            operation_id=message.operation_id,
            tenant=message.tenant,
            created_at_ms=message.created_at_ms,
            reason=reason,
            set_aside_at_ms=now_ms,
        )
        return True

    def mark_told(self, message_id: str, now_ms: int) -> bool:
        """See `OutboxTable.mark_told`."""
        self.happens("mark_told")
        self.told[message_id] = now_ms
        return message_id in self.messages

    def requeue(self, message_id: str) -> bool:
        """See `OutboxTable.requeue`."""
        for noted in (self.tries, self.aside, self.told):
            noted.pop(message_id, None)
        return message_id in self.messages


def waiting(number: int, *, tenant: str = "acme", **values: Any) -> Message:
    """A message that waits; a later number was published later."""
    return Message(
        **{
            "id": f"message-{number:04d}",
            "topic": "ride.ordered",
            "payload": f'{{"n":{number}}}',
            "operation_id": f"operation-{number:04d}",
            "operation": "POST /rides",
            "tenant": tenant,
            "created_at_ms": 1_000 + number,
            **values,
        }
    )


def stream_of(messages: Sequence[Message], *, name: str = "INSERT") -> dict[str, Any]:
    """The event of a stream on which these were written, in their order, from number 900 on."""
    return {
        "Records": [
            {
                "eventName": name,
                "dynamodb": {"NewImage": message_item(each), "SequenceNumber": str(900 + number)},
            }
            for number, each in enumerate(messages)
        ]
    }


def failed_of(answer: dict[str, Any]) -> list[str]:
    """The sequence numbers that Lambda is told of."""
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


class Lambda:
    """Calls a relay with a stream as Lambda does: again, from the lowest failure on."""

    def __init__(self, relay: Any, *, most_attempts: int = 100) -> None:
        self.relay = relay
        self.most_attempts = most_attempts
        self.attempts = 0

    def delivers(self, event: dict[str, Any], context: Any = None) -> list[dict[str, Any]]:
        """Deliver the records until none fails; those that were given up."""
        records: list[dict[str, Any]] = event["Records"]
        for _ in range(self.most_attempts):
            self.attempts += 1
            failed = failed_of(self.relay({"Records": records}, context))
            if not failed:
                return []
            lowest = min(map(int, failed))
            records = [
                each for each in records if int(each["dynamodb"]["SequenceNumber"]) >= lowest
            ]
        return records
