"""Ending an operation that will not go on: a person gives the answer, and no handler runs.

A recorded operation may have been stopped because its handler no longer fits its record. It has no
step in doubt. A person either lets it continue, with a release whose steps fit the record, or ends
it with an answer. One that failed, or waits for a worker, is ended in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.flow import retry
from oncekey.record.record import Due, Effects, Status
from oncekey.record.rules import applied
from oncekey.record.transitions import Begin, Complete, Lease, Resume, seen
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record
    from oncekey.record.transitions import Ending, SettleStep, Transition
    from oncekey.settings import Settings

# The longest time for three writes.
_LEASE_MS = 30_000


def is_stopped(record: Record) -> bool:
    """Whether the operation was escalated although it has no step in doubt."""
    return (
        record.status is Status.UNKNOWN
        and record.effects is Effects.RECORDED
        and not record.is_in_doubt
        and record.escalated_at_ms is not None
    )


async def end_by_hand(
    record: Record,
    ending: Ending,
    budget: Budget,
    clock: Clock,
    settings: Settings,
    *,
    frees: SettleStep | None = None,
) -> Record | None:
    """End a recorded operation with `ending`, in an attempt that runs no handler.

    Only the owner of an attempt can complete recorded effects. So the operation is resumed, or
    begun if it waits for a worker, and then completed. One that was stopped is freed first, by
    `frees`. Returns None, or the record that prevented one of the writes. If this is interrupted
    between them, the operation is half done, or its lease expires. Then it continues like any
    other.

    Raises:
        StoreError: it may or may not have been ended; try again.
    """
    met = record
    if frees is not None:
        met = await _written(frees, record, budget, clock)
        if met.owner != frees.new_owner:
            return met
    owner, until_ms = clock.new_owner(), clock.now_ms() + _LEASE_MS
    due = Due(shard=record.due_shard, at_ms=until_ms + settings.reconcile_grace_ms)
    lease = Lease(owner=owner, until_ms=until_ms, due=due, effects=Effects.RECORDED)
    begins: Begin | Resume = Resume(pk=record.pk, seen=seen(met), lease=lease)
    if met.status is Status.PENDING:
        begins = Begin(pk=record.pk, seen_owner=met.owner, lease=lease)
    met = await _written(begins, met, budget, clock)
    if met.owner != owner:
        return met
    complete = Complete(pk=record.pk, owner=owner, ending=ending)
    met = await _written(complete, met, budget, clock)
    return None if (met.owner, met.status) == (owner, Status.COMPLETED) else met


async def _written(transition: Transition, record: Record, budget: Budget, clock: Clock) -> Record:
    """The record after `transition` was written, or the record that refused it.

    If the answer to the first try was lost, a later try is refused by its result. The owner shows
    that, because nobody else has the same one.
    """
    reply = await retry.write(transition, budget, clock)
    if not isinstance(reply, Refused):
        return applied(transition, record)
    return record if reply.record is None else reply.record
