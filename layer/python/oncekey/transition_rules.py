"""The meaning of the transitions: when each is permitted, and what it leaves.

A store's conditions and updates say the same in its own language; a contract test compares them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from oncekey.record import Effects, Record, Status
from oncekey.transitions import (
    Complete,
    Doubt,
    Ending,
    ExpireLease,
    LateEffect,
    Lease,
    MarkUnknown,
    Release,
    Reserve,
    Resume,
    Retry,
    Seen,
    Settle,
    TakeOver,
    Transition,
    seen,
)


def permitted(transition: Transition, record: Record | None) -> bool:
    """Whether a store may apply `transition` to what it holds under the key (`None`: nothing)."""
    if isinstance(transition, Reserve):
        return record is None or record.is_expired(transition.now_ms)
    if record is None:
        return False
    match transition:
        case Resume():
            return record.status is Status.FAILED_RETRYABLE and transition.seen == seen(record)
        case TakeOver():
            repeatable = record.effects is Effects.REPEATABLE
            return repeatable and _lease_ran_out(record, transition.seen, transition.now_ms)
        case ExpireLease():
            # Doubt is always safe; running again must have been declared harmless by the attempt
            # that died.
            harmless = isinstance(transition.to, Doubt) or record.effects is Effects.REPEATABLE
            return harmless and _lease_ran_out(record, transition.seen, transition.now_ms)
        case Complete():
            return record.owner == transition.owner and record.status in {
                Status.IN_PROGRESS,
                Status.UNKNOWN,
            }
        case Release() | MarkUnknown():
            return record.owner == transition.owner and record.status is Status.IN_PROGRESS
        case Settle():
            unrecorded = record.effects is not Effects.RECORDED
            return (
                unrecorded
                and record.status is Status.UNKNOWN
                and record.owner == transition.seen_owner
            )
        case LateEffect():
            unrecorded = record.effects is not Effects.RECORDED
            failed = record.status is Status.FAILED_RETRYABLE
            return unrecorded and failed and transition.seen == seen(record)
        case _:
            assert_never(transition)


def _lease_ran_out(record: Record, version: Seen, now_ms: int) -> bool:
    return (
        record.status is Status.IN_PROGRESS
        and version == seen(record)
        and record.is_lease_over(now_ms)
    )


def applied(transition: Transition, record: Record | None) -> Record:
    """What the store holds after a permitted `transition`.

    Named fields change; no other is ever dropped.
    """
    if isinstance(transition, Reserve):
        return transition.record
    if record is None:
        raise AssertionError(f"Bug: {type(transition).__name__} was applied to an absent record")
    record = replace(record, rev=record.rev + 1)
    match transition:
        case Resume() | TakeOver():
            return _restarted(record, transition.lease)
        case ExpireLease():
            return _ended(record, transition.to)
        case Complete():
            return _ended(record, transition.ending)
        case Release():
            return _ended(record, transition.retry)
        case MarkUnknown():
            return _ended(record, transition.doubt)
        case Settle():
            return _ended(replace(record, owner=transition.new_owner), transition.to)
        case LateEffect():
            return _ended(replace(record, owner=transition.new_owner), transition.ending)
        case _:
            assert_never(transition)


def _restarted(record: Record, lease: Lease) -> Record:
    return replace(
        record,
        status=Status.IN_PROGRESS,
        owner=lease.owner,
        attempt=record.attempt + 1,
        effects=lease.effects,
        lease_until_ms=lease.until_ms,
        due=lease.due,
        expires_at_s=None,
        last_error=None,
    )


def _ended(record: Record, to: Ending | Retry | Doubt) -> Record:
    match to:
        case Ending():
            return replace(
                record,
                status=Status.COMPLETED,
                response=to.response,
                response_version=to.response_version,
                completed_at_ms=to.completed_at_ms,
                expires_at_s=to.expires_at_s,
                lease_until_ms=None,
                due=None,
                last_error=None,
            )
        case Retry():
            return replace(
                record,
                status=Status.FAILED_RETRYABLE,
                expires_at_s=to.expires_at_s,
                last_error=to.reason,
                lease_until_ms=None,
                due=None,
            )
        case Doubt():
            return replace(record, status=Status.UNKNOWN, due=to.due, last_error=to.reason)
