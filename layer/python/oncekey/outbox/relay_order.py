"""The order of sending within a group: earlier messages in the table first, then new ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.outbox.relay_commands import ReadPage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from oncekey.record.message import Message
    from oncekey.store.dynamodb.outbox import OutboxTable

    Group = Callable[[Message], str]

# How many earlier messages of its groups one turn sends.
_MOST_EARLIER = 1_000
# Later than any message.
_END_OF_TIME_MS = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Messages in the order of sending, and the ids of those that must wait for earlier ones."""

    messages: Sequence[Message]
    behind: frozenset[str] = frozenset()


async def in_order(
    new: Sequence[Message], table: OutboxTable, group: Group, is_time_left: Callable[[], bool]
) -> Line:
    """The `new` messages of a stream, and before them the earlier ones that wait in `table`.

    A stream only orders the changes of one item, and each message is its own item. So a message in
    the table that was published earlier in the same group is sent first. The `new` messages keep
    the stream's order; those of one operation are sent in the order in which they were published.

    Raises:
        StoreError: the table did not answer, or has more than can be read in time.
    """
    latest: dict[str, tuple[int, int]] = {}
    for message in new:
        name = group_of(message, group)
        if name is not None:
            latest[name] = max(latest.get(name, message.order), message.order)
    earlier, is_cut = await _earlier(new, latest, table, group, is_time_left)
    if not is_cut:
        return Line(messages=[*earlier, *_by_operation(new)])
    last = earlier[-1].order
    fitting = [message for message in new if message.order <= last]
    behind = frozenset(message.id for message in new if message.order > last)
    return Line(messages=[*earlier, *_by_operation(fitting)], behind=behind)


async def _earlier(
    new: Sequence[Message],
    latest: dict[str, tuple[int, int]],
    table: OutboxTable,
    group: Group,
    is_time_left: Callable[[], bool],
) -> tuple[list[Message], bool]:
    """The first messages published before the latest `new` one, and whether more are waiting."""
    ids = {message.id for message in new}
    found: list[Message] = []
    is_cut = False
    after = None
    while True:
        page = await ReadPage(table=table, before_ms=_END_OF_TIME_MS, after=after)
        for message in page.messages:
            name = group_of(message, group)
            if message.id not in ids and name in latest and message.order < latest[name]:
                found.append(message)
        found.sort(key=published)
        if len(found) > _MOST_EARLIER:
            is_cut = True
            del found[_MOST_EARLIER:]
        after = page.after
        if after is None:
            return found, is_cut
        if not is_time_left():
            raise StoreError("the outbox cannot be read in time", transient=True)


def published(message: Message) -> tuple[tuple[int, int], str]:
    """The sort key for the order in which messages were published."""
    return message.order, message.id


def _by_operation(messages: Iterable[Message]) -> list[Message]:
    """The same messages, with those of each operation sorted among their own places."""
    given = list(messages)
    of_operation: dict[str, list[Message]] = {}
    for message in given:
        of_operation.setdefault(message.operation_id, []).append(message)
    in_turn = {
        name: iter(sorted(several, key=lambda message: message.order))
        for name, several in of_operation.items()
    }
    return [next(in_turn[message.operation_id]) for message in given]


def group_of(message: Message, group: Group) -> str | None:
    """The group of a message; None if the author's function raises."""
    try:
        return group(message)
    except Exception:  # noqa: BLE001 -- from the author's function; the turn logs it when it sends
        return None
