"""Hand-written histories: the words that the checkers' own tests are written in."""

from __future__ import annotations

from typing import Any

from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.transitions import (
    Complete,
    Ending,
    ExpireLease,
    Lease,
    Reserve,
    Resume,
    Retry,
    Settle,
    TakeOver,
    Transition,
    seen,
)
from tests.simulation.history import (
    Affected,
    Answer,
    Asked,
    Began,
    Circumstances,
    Event,
    Held,
    History,
    Told,
    Wrote,
)
from tests.support.replacing import replace

AT_MS = 1_000_000
EXPIRES_AT_S = 5_000
DUE = Due(shard="0", at_ms=AT_MS + 60_000)
RUNNING = Record(
    pk="pk",
    status=Status.IN_PROGRESS,
    rev=1,
    tenant="tenant",
    operation="POST /payments",
    key="key",
    operation_id="op",
    fingerprint="f1:a",
    owner="A/1",
    attempt=1,
    effects=Effects.UNRECORDED,
    created_at_ms=AT_MS,
    lease_until_ms=AT_MS + 10_000,
    due=DUE,
)
UNKNOWN = replace(RUNNING, status=Status.UNKNOWN, rev=2)
RETRYABLE = replace(
    RUNNING, status=Status.FAILED_RETRYABLE, rev=2, expires_at_s=EXPIRES_AT_S, due=None
)
COMPLETED = replace(
    RUNNING,
    status=Status.COMPLETED,
    rev=2,
    response="op/1/A",
    expires_at_s=EXPIRES_AT_S,
    due=None,
    lease_until_ms=None,
)
ENDING = Ending(response="op/1/A", completed_at_ms=AT_MS, expires_at_s=EXPIRES_AT_S)
RETRY = Retry(reason="not-executed", expires_at_s=EXPIRES_AT_S)
RESERVE = Reserve(record=RUNNING, now_ms=AT_MS)
COMPLETE = Complete(pk="pk", owner="A/1", ending=ENDING)
AGAIN = Lease(owner="B/1", until_ms=AT_MS + 20_000, due=DUE, effects=Effects.UNRECORDED)
RESUME = Resume(pk="pk", seen=seen(RETRYABLE), lease=AGAIN)
TAKE_OVER = TakeOver(pk="pk", seen=seen(RUNNING), lease=AGAIN, now_ms=AT_MS)
DENIAL = Settle(pk="pk", seen_owner="A/1", new_owner="S/1", to=RETRY)
DENIED = replace(RETRYABLE, rev=3, owner="S/1")
EXPIRE = ExpireLease(pk="pk", seen=seen(RUNNING), now_ms=AT_MS, to=RETRY)


def history(*events: Event, **circumstances: Any) -> History:
    """These events, where nothing is wrong with platform and clocks unless it is said."""
    return History(events=events, circumstances=Circumstances(**circumstances))


def asked(actor: str, body: str = "a") -> Asked:
    """A caller asks."""
    return Asked(at_ms=AT_MS, actor=actor, fingerprint=f"f1:{body}")


def wrote(actor: str, transition: Transition, before: Record | None, after: Record | None) -> Wrote:
    """A write that is applied."""
    return Wrote(
        at_ms=AT_MS,
        actor=actor,
        transition=transition,
        permitted=True,
        before=before,
        after=after,
        answer=str(after.response) if after is not None and after.response else "",
    )


def refused(
    actor: str, transition: Transition, before: Record | None, after: Record | None
) -> Wrote:
    """A write that is refused, and what was stored before and after it."""
    return replace(wrote(actor, transition, before, after), permitted=False)


def held(actor: str, attempt: int = 1, own_ms: int = AT_MS) -> Held:
    """A caller holds the lease."""
    return Held(at_ms=AT_MS, actor=actor, operation_id="op", attempt=attempt, own_ms=own_ms)


def began(actor: str, attempt: int = 1, operation_id: str = "op") -> Began:
    """A handler begins."""
    return Began(at_ms=AT_MS, actor=actor, operation_id=operation_id, attempt=attempt)


def affected(actor: str, attempt: int = 1) -> Affected:
    """An effect."""
    return Affected(at_ms=AT_MS, actor=actor, operation_id="op", attempt=attempt)


def ran(actor: str, by: str = "A", expires_at_s: int | None = EXPIRES_AT_S) -> Told:
    """A caller gets the answer of its own run."""
    value = Answer(operation_id="op", attempt=1, by=by)
    return Told(
        at_ms=AT_MS,
        actor=actor,
        fingerprint="f1:a",
        outcome=Ran(value=value, record=RUNNING, expires_at_s=expires_at_s),
    )


def replayed(actor: str, record: Record = COMPLETED, body: str = "a") -> Told:
    """A caller gets the answer of a record."""
    return Told(at_ms=AT_MS, actor=actor, fingerprint=f"f1:{body}", outcome=Replayed(record))


def turned_away(actor: str, reason: Reason) -> Told:
    """A caller is refused."""
    return Told(at_ms=AT_MS, actor=actor, fingerprint="f1:a", outcome=Refusal(reason=reason))
