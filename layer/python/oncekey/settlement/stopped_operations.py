"""What becomes of a recorded operation that was stopped because its handler no longer fits it.

Nothing is in doubt there but how to go on. Somebody who knows lets it go on, for a release whose
steps fit what is on record, or ends it with an answer of theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.flow import retry
from oncekey.record.record import Due, Effects, Status
from oncekey.record.rules import applied
from oncekey.record.transitions import Complete, Lease, Resume, seen
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record
    from oncekey.record.transitions import Ending, SettleStep, Transition
    from oncekey.settings import Settings

# Three writes take this long at the very most.
_LEASE_MS = 30_000


def is_stopped(record: Record) -> bool:
    """Whether a person was told that an operation with no step in doubt cannot go on."""
    return (
        record.status is Status.UNKNOWN
        and record.effects is Effects.RECORDED
        and not record.is_in_doubt
        and record.escalated_at_ms is not None
    )


async def end_stopped(
    record: Record,
    frees: SettleStep,
    ending: Ending,
    budget: Budget,
    clock: Clock,
    settings: Settings,
) -> Record | None:
    """End a stopped operation with `ending`, as an attempt of its own that runs no handler.

    Only the owner of an attempt completes recorded effects. So the record is freed, resumed and
    completed. Returns what stood in the way, or None. Given up in between, it is half done, or has
    a lease that runs out, and goes on like any other.

    Raises:
        StoreError: it may or may not have been ended; say it again.
    """
    met = await _written(frees, record, budget, clock)
    if met.owner != frees.new_owner:
        return met
    owner, until_ms = clock.new_owner(), clock.now_ms() + _LEASE_MS
    due = Due(shard=record.due_shard, at_ms=until_ms + settings.reconcile_grace_ms)
    lease = Lease(owner=owner, until_ms=until_ms, due=due, effects=Effects.RECORDED)
    resume = Resume(pk=record.pk, seen=seen(met), lease=lease)
    met = await _written(resume, met, budget, clock)
    if met.owner != owner:
        return met
    complete = Complete(pk=record.pk, owner=owner, ending=ending)
    met = await _written(complete, met, budget, clock)
    return None if (met.owner, met.status) == (owner, Status.COMPLETED) else met


async def _written(transition: Transition, record: Record, budget: Budget, clock: Clock) -> Record:
    """The record after `transition`, written now or, its answer being lost, before."""
    reply = await retry.write(transition, budget, clock)
    if not isinstance(reply, Refused):
        return applied(transition, record)
    # Nobody else draws the same owner.
    return record if reply.record is None else reply.record
