"""The writes of a reconciler's run: turns, and the ends of dead attempts and overdue requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.flow import retry
from oncekey.flow.commands import Outside
from oncekey.record.record import Due
from oncekey.record.rules import applied
from oncekey.record.transitions import ExpireLease, Reschedule, seen
from oncekey.store.store import Refused
from oncekey.value import field

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.retry import Budget
    from oncekey.reconciler.report import Report
    from oncekey.record.record import Record
    from oncekey.record.transitions import TimeOut
    from oncekey.store.due_index import OpenRecords


class PutOff(Outside["int | None"], kw_only=True):
    """One call of `OpenRecords.put_off`. Its `StoreError` is thrown into the flow."""

    store: OpenRecords = field(compare=False, repr=False)
    pk: str
    due_by_ms: int
    to_ms: int
    counts: bool = True

    def carry_out(self) -> int | None:
        """See `OpenRecords.put_off`."""
        return self.store.put_off(
            self.pk, due_by_ms=self.due_by_ms, to_ms=self.to_ms, counts=self.counts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """The writes of one run. `had_turn` has the records whose next turn was written."""

    store: OpenRecords
    clock: Clock
    report: Report
    had_turn: set[str]

    async def take(
        self, record: Record, transition: Reschedule | ExpireLease | TimeOut
    ) -> Record | None:
        """Write `transition`. Returns the record after it, or None if somebody else was first."""
        budget = self.budget()
        reply = await retry.write(transition, budget, self.clock)
        after = applied(transition, record)
        if isinstance(reply, Refused) and not has_landed(reply, after, budget):
            self.report.overtaken += 1
            return None
        if isinstance(transition, Reschedule):
            self.had_turn.add(record.pk)
        return after

    async def move(self, record: Record, at_ms: int) -> Record | None:
        """Make `record` due at `at_ms` without another turn. Returns the same as `take`."""
        later = Reschedule(
            pk=record.pk,
            seen=seen(record),
            due=Due(shard=record.due_shard, at_ms=at_ms),
            attempts=record.reconcile_attempts,
        )
        return await self.take(record, later)

    async def put_off(
        self, pk: str, *, due_by_ms: int, to_ms: int, counts: bool = True
    ) -> int | None:
        """Make the item due at `to_ms` if it is due by `due_by_ms`, as `OpenRecords.put_off`."""
        return await PutOff(
            store=self.store, pk=pk, due_by_ms=due_by_ms, to_ms=to_ms, counts=counts
        )

    def budget(self) -> Budget:
        """The limits for retrying a call."""
        return retry.few_tries(self.clock.now_ms(), self.store.call_timeout_ms)


def has_landed(reply: object, after: Record, budget: Budget) -> bool:
    """Whether a refused write had taken effect before, and only its answer was lost.

    Another reconciler may have made the same write at the same time. So this is False if no answer
    was lost.
    """
    return isinstance(reply, Refused) and reply.record == after and budget.doubts > 0
