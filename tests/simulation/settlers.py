"""Those who settle what is in doubt, as flows that a schedule can interleave.

They know a record, their clock, and what a provider answers; nothing of the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.commands import Command, Read, Write
from oncekey.errors import StoreError
from oncekey.record import Due, Effects, Record, Status
from oncekey.transitions import Doubt, Ending, ExpireLease, LateEffect, Retry, Settle, seen

if TYPE_CHECKING:
    from collections.abc import Generator

    from oncekey.clock import Clock
    from oncekey.settings import Settings


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the provider whether it carried anything out for an operation. Answers a bool."""

    operation_id: str


def reconcile(pk: str, clock: Clock, settings: Settings) -> Generator[Command | Ask, Any, None]:
    """Mark a record whose lease is over: unknown, or retryable where that is harmless."""
    try:
        record: Record | None = yield Read(pk)
        now_ms = clock.now_ms()
        if (
            record is None
            or record.status is not Status.IN_PROGRESS
            or not record.is_lease_over(now_ms)
        ):
            return
        yield Write(
            ExpireLease(
                pk=pk, seen=seen(record), now_ms=now_ms, to=_verdict(record, now_ms, settings)
            )
        )
    except StoreError:
        return  # It comes again.


def _verdict(record: Record, now_ms: int, settings: Settings) -> Doubt | Retry:
    if record.effects is Effects.REPEATABLE:
        return Retry(reason="lease-expired", expires_at_s=_expiry_s(now_ms, settings))
    shard = record.due.shard if record.due is not None else "0"
    dead_since_ms = record.lease_until_ms if record.lease_until_ms is not None else now_ms
    at_ms = max(now_ms, dead_since_ms + settings.reconcile_grace_ms)
    return Doubt(reason="lease-expired", due=Due(shard=shard, at_ms=at_ms))


def resolve(pk: str, clock: Clock, settings: Settings) -> Generator[Command | Ask, Any, None]:
    """Settle an unknown outcome that is due by what the provider says."""
    try:
        record: Record | None = yield Read(pk)
        is_due = (
            record is not None and record.due is not None and record.due.at_ms <= clock.now_ms()
        )
        if record is None or record.status is not Status.UNKNOWN or not is_due:
            return
        executed: bool = yield Ask(record.operation_id)
        to: Ending | Retry = Retry(
            reason="not-executed", expires_at_s=_expiry_s(clock.now_ms(), settings)
        )
        if executed:
            to = _found(record, clock, settings)
        new_owner = clock.new_owner()
        yield Write(Settle(pk=pk, seen_owner=record.owner, new_owner=new_owner, to=to))
    except StoreError:
        return


def report(pk: str, clock: Clock, settings: Settings) -> Generator[Command | Ask, Any, None]:
    """What a webhook or an operator does: record an effect that is known to have happened."""
    try:
        record: Record | None = yield Read(pk)
        if record is None:
            return
        executed: bool = yield Ask(record.operation_id)
        if not executed:
            return
        ending = _found(record, clock, settings)
        owner = clock.new_owner()
        if record.status is Status.UNKNOWN:
            yield Write(Settle(pk=pk, seen_owner=record.owner, new_owner=owner, to=ending))
        elif record.status is Status.FAILED_RETRYABLE:
            yield Write(LateEffect(pk=pk, seen=seen(record), new_owner=owner, ending=ending))
    except StoreError:
        return


def _found(record: Record, clock: Clock, settings: Settings) -> Ending:
    now_ms = clock.now_ms()
    return Ending(
        response=f"{record.operation_id}/settled",
        completed_at_ms=now_ms,
        expires_at_s=_expiry_s(now_ms, settings),
    )


def _expiry_s(now_ms: int, settings: Settings) -> int:
    return now_ms // 1000 + settings.retention_s
