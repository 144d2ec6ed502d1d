"""The commands of the relay's flows: calls of the outbox table and of the queue.

Each is one call. Its `StoreError` is thrown into the flow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.flow.commands import Outside
from oncekey.value import field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey.store.dynamodb.outbox import OutboxPage, OutboxTable
    from oncekey.store.sqs import Entry, Rejected, SqsQueue


class Send(Outside["list[Rejected]"], kw_only=True):
    """One call of `SqsQueue.send`."""

    queue: SqsQueue = field(compare=False, repr=False)
    entries: Sequence[Entry]

    def carry_out(self) -> list[Rejected]:
        """See `SqsQueue.send`."""
        return self.queue.send(self.entries)


class Delete(Outside["set[str]"], kw_only=True):
    """One call of `OutboxTable.delete`."""

    table: OutboxTable = field(compare=False, repr=False)
    ids: Sequence[str]

    def carry_out(self) -> set[str]:
        """See `OutboxTable.delete`."""
        return self.table.delete(self.ids)


class CountTry(Outside["int | None"], kw_only=True):
    """One call of `OutboxTable.count_try`."""

    table: OutboxTable = field(compare=False, repr=False)
    message_id: str

    def carry_out(self) -> int | None:
        """See `OutboxTable.count_try`."""
        return self.table.count_try(self.message_id)


class PutAside(Outside[bool], kw_only=True):
    """One call of `OutboxTable.set_aside`."""

    table: OutboxTable = field(compare=False, repr=False)
    message_id: str
    reason: str
    at_ms: int

    def carry_out(self) -> bool:
        """See `OutboxTable.set_aside`."""
        return self.table.set_aside(self.message_id, self.reason, self.at_ms)


class MarkTold(Outside[bool], kw_only=True):
    """One call of `OutboxTable.mark_told`."""

    table: OutboxTable = field(compare=False, repr=False)
    message_id: str
    at_ms: int

    def carry_out(self) -> bool:
        """See `OutboxTable.mark_told`."""
        return self.table.mark_told(self.message_id, self.at_ms)


class ReadPage(Outside["OutboxPage"], kw_only=True):
    """One call of `OutboxTable.waiting`."""

    table: OutboxTable = field(compare=False, repr=False)
    before_ms: int
    after: Any = field(default=None, repr=False)

    def carry_out(self) -> OutboxPage:
        """See `OutboxTable.waiting`."""
        return self.table.waiting(self.before_ms, self.after)
