"""Relays, each with one protection removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.outbox import relay, relay_turn, sweep
from oncekey.outbox.relay_commands import Delete, Send
from oncekey.outbox.relay_order import Line
from oncekey.outbox.relay_turn import Turn
from oncekey.store.sqs import MOST_ENTRIES, Entry

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    import pytest

    from oncekey.record.set_aside import SetAside
    from oncekey.store.sqs import SqsQueue


def deleted_first(patch: pytest.MonkeyPatch) -> None:
    """Messages are deleted before they are sent."""
    original = Turn._send

    async def send(self: Turn, batch: Sequence[Entry]) -> None:
        await Delete(table=self._table, ids=tuple(each.id for each in batch))
        await original(self, batch)

    patch.setattr(Turn, "_send", send)


def rejected_deleted(patch: pytest.MonkeyPatch) -> None:
    """An answer of the queue deletes the whole batch."""
    original = Send.carry_out
    patch.setattr(Send, "carry_out", lambda self: original(self) and [])


def timeout_is_sent(patch: pytest.MonkeyPatch) -> None:
    """A queue that does not answer counts as one that has the messages."""

    def not_answered(self: Turn, batch: Sequence[Entry], _error: StoreError) -> None:
        for each in batch:
            self._table.messages.pop(each.id, None)  # type: ignore[attr-defined]  # one in memory

    patch.setattr(Turn, "_not_answered", not_answered)


def group_not_held(patch: pytest.MonkeyPatch) -> None:
    """After a failure, later messages of the group are sent all the same."""
    original = Turn._leave_one

    def leave_one(self: Turn, message_id: str, _group: str | None, *, again: bool) -> None:
        original(self, message_id, None, again=again)

    patch.setattr(Turn, "_leave_one", leave_one)


def group_in_one_batch(patch: pytest.MonkeyPatch) -> None:
    """A batch takes several messages of one group."""

    def next_batch(lines: deque[deque[Entry]]) -> list[tuple[Entry, deque[Entry]]]:
        batch: list[tuple[Entry, deque[Entry]]] = []
        while lines and len(batch) < MOST_ENTRIES:
            line = lines.popleft()
            batch += [(line.popleft(), line) for _ in range(len(line))]
        return batch

    patch.setattr(Turn, "_next_batch", staticmethod(next_batch))


def table_not_read(patch: pytest.MonkeyPatch) -> None:
    """A stream's batch is sent without a look at what waits before it."""

    async def in_order(new: Sequence[Any], *_: object) -> Line:
        return Line(messages=new)

    patch.setattr(relay, "in_order", in_order)


def aside_at_the_first_failure(patch: pytest.MonkeyPatch) -> None:
    """A failure that the queue reports as its own sets the message aside."""
    patch.setattr(relay_turn, "_MOST_FAILURES", 1)


def never_aside(patch: pytest.MonkeyPatch) -> None:
    """Refusals are not counted."""
    patch.setattr(relay_turn, "_MOST_REFUSALS", 10_000)


def escalation_not_sent(patch: pytest.MonkeyPatch) -> None:
    """A message counts as escalated although the escalation queue did not answer."""
    original = sweep._sent

    async def sent(batch: list[SetAside], escalations: SqsQueue) -> list[SetAside]:
        try:
            return await original(batch, escalations)
        except StoreError:
            return batch

    patch.setattr(sweep, "_sent", sent)
