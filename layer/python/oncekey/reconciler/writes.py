"""The writes of a run of the reconciler: turns, and the ends of what is dead or overdue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from oncekey.flow import retry
from oncekey.flow.driver import drive
from oncekey.record.record import Due
from oncekey.record.rules import applied
from oncekey.record.transitions import ExpireLease, Reschedule, seen
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.commands import Flow
    from oncekey.flow.retry import Budget
    from oncekey.reconciler.report import Report
    from oncekey.record.record import Record
    from oncekey.record.transitions import TimeOut
    from oncekey.store.due_index import OpenRecords

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """The writes of one run. `had_turn` are the records whose next turn is on record."""

    store: OpenRecords
    clock: Clock
    report: Report
    had_turn: set[str]

    def take(self, record: Record, transition: Reschedule | ExpireLease | TimeOut) -> Record | None:
        """Apply `transition`: what it leaves, or None if somebody else was faster."""
        budget = self.budget()
        reply = self.run(retry.write(transition, budget, self.clock))
        after = applied(transition, record)
        if isinstance(reply, Refused) and not has_landed(reply, after, budget):
            self.report.overtaken += 1
            return None
        if isinstance(transition, Reschedule):
            self.had_turn.add(record.pk)
        return after

    def move(self, record: Record, at_ms: int) -> Record | None:
        """Let `record` be due then, without another turn."""
        later = Reschedule(
            pk=record.pk,
            seen=seen(record),
            due=Due(shard=record.due_shard, at_ms=at_ms),
            attempts=record.reconcile_attempts,
        )
        return self.take(record, later)

    def run(self, flow: Flow[R]) -> R:
        """Carry out `flow` on the store."""
        return drive(flow, store=self.store, clock=self.clock)

    def budget(self) -> Budget:
        """How often a call is made."""
        return retry.few_tries(self.clock.now_ms(), self.store.call_timeout_ms)


def has_landed(reply: object, after: Record, budget: Budget) -> bool:
    """Whether a refused write was ours, and its answer was lost.

    Another reconciler may have written the very same at the same moment: without a lost answer it
    was that one.
    """
    return isinstance(reply, Refused) and reply.record == after and budget.doubts > 0
