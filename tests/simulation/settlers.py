"""Those who settle what is in doubt, as flows that a schedule can interleave.

They know a record, their clock, and what a provider answers; nothing of the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.errors import NotExecuted, StoreError
from oncekey.flow.commands import Command, Read, Save, Write
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.transitions import (
    Doubt,
    Ending,
    ExpireLease,
    LateEffect,
    Retry,
    Settle,
    SettleStep,
    Transition,
    seen,
)
from oncekey.settlement.resolvers import Completed, resolver
from oncekey.settlement.settlement import Settlement, Settler
from oncekey.store.store import Written
from oncekey.testing.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Generator

    from oncekey.clock import Clock
    from oncekey.record.stored_answer import Blob
    from oncekey.settings import Settings
    from oncekey.settlement.resolvers import Finding, Question
    from oncekey.store.store import Refused

    Flow = Generator[Command | "Ask", Any, None]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the provider what it carried out for an operation, or for a step of it.

    Answers its result, a str, or None where it did nothing.
    """

    operation_id: str
    step: str = ""


def reconcile(pk: str, clock: Clock, settings: Settings) -> Flow:
    """Mark a record whose lease is over: retryable where that is harmless, else unknown."""
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
    if record.may_run_again:
        return _may_run_again(record, now_ms, settings)
    shard = record.due.shard if record.due is not None else "0"
    dead_since_ms = record.lease_until_ms if record.lease_until_ms is not None else now_ms
    at_ms = max(now_ms, dead_since_ms + settings.reconcile_grace_ms)
    return Doubt(reason="lease-expired", due=Due(shard=shard, at_ms=at_ms))


def _may_run_again(record: Record, now_ms: int, settings: Settings) -> Retry:
    if not record.steps.finished:
        return Retry(reason="settled", expires_at_s=_expiry_s(now_ms, settings))
    # Half done: it is evidence, and somebody must look at it until it is completed.
    shard = record.due.shard if record.due is not None else "0"
    return Retry(reason="settled", expires_at_s=None, due=Due(shard=shard, at_ms=now_ms))


def resolve(pk: str, clock: Clock, settings: Settings) -> Flow:
    """Settle an unknown outcome that is due by what the provider says."""
    try:
        record: Record | None = yield Read(pk)
        is_due = (
            record is not None and record.due is not None and record.due.at_ms <= clock.now_ms()
        )
        if record is None or record.status is not Status.UNKNOWN or not is_due:
            return
        if record.effects is Effects.RECORDED:
            yield from _resolve_step(record, clock, settings)
            return
        executed: str | None = yield Ask(record.operation_id)
        to: Ending | Retry = Retry(
            reason="not-executed", expires_at_s=_expiry_s(clock.now_ms(), settings)
        )
        if executed is not None:
            to = _found(record, clock, settings)
        new_owner = clock.new_owner()
        yield Write(Settle(pk=pk, seen_owner=record.owner, new_owner=new_owner, to=to))
    except StoreError:
        return


def report(pk: str, clock: Clock, settings: Settings) -> Flow:
    """What a webhook or an operator does: record an effect that is known to have happened."""
    try:
        record: Record | None = yield Read(pk)
        if record is None:
            return
        if record.effects is Effects.RECORDED:
            yield from _report_step(record, clock, settings)
            return
        executed: str | None = yield Ask(record.operation_id)
        if executed is None:
            return
        ending = _found(record, clock, settings)
        owner = clock.new_owner()
        if record.status is Status.UNKNOWN:
            yield Write(Settle(pk=pk, seen_owner=record.owner, new_owner=owner, to=ending))
        elif record.status is Status.FAILED_RETRYABLE:
            yield Write(LateEffect(pk=pk, seen=seen(record), new_owner=owner, ending=ending))
    except StoreError:
        return


def _resolve_step(record: Record, clock: Clock, settings: Settings) -> Flow:
    started = record.steps.started
    if started is None:
        return
    result: str | None = yield Ask(record.operation_id, started.name)
    answer = NotExecuted() if result is None else Completed(result)
    yield from _settle_step(record, answer, clock, settings)


def _report_step(record: Record, clock: Clock, settings: Settings) -> Flow:
    started = record.steps.started
    if started is None or record.status is not Status.UNKNOWN:
        return
    result: str | None = yield Ask(record.operation_id, started.name)
    if result is not None:
        yield from _settle_step(record, Completed(result), clock, settings)


def _settle_step(record: Record, answer: Finding, clock: Clock, settings: Settings) -> Flow:
    """The library's own settlement, held up before each of its writes."""
    started = record.steps.started
    assert started is not None

    def answered(_question: Question) -> Finding:
        return answer

    resolver(record.operation, started.name)(answered)
    noted = _Notebook()
    settler = Settler(store=noted, clock=clock, settings=settings)
    if settler.settle(record) is Settlement.TOO_EARLY:
        # Who reports what has happened need not wait for what may still happen.
        settler.write(record, answer, step=started.name)
    for blob in noted.kept:
        yield Save(blob)
    for transition in noted.written:
        yield Write(transition)


class _Notebook(MemoryStore):
    """A store that notes what it is to do, and does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Blob] = []
        self.written: list[Transition] = []

    def save(self, blob: Blob) -> None:
        self.kept.append(blob)

    def write(self, transition: Transition) -> Written | Refused:
        self.written.append(transition)
        return Written()


def operate(pk: str, clock: Clock, settings: Settings) -> Flow:
    """What an operator does: let go what nobody knows about, though no step is in doubt."""
    try:
        record: Record | None = yield Read(pk)
        if (
            record is None
            or record.effects is not Effects.RECORDED
            or record.status is not Status.UNKNOWN
            or record.is_in_doubt
        ):
            return
        retry = _may_run_again(record, clock.now_ms(), settings)
        owner = clock.new_owner()
        yield Write(SettleStep(pk=pk, seen_owner=record.owner, new_owner=owner, retry=retry))
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
