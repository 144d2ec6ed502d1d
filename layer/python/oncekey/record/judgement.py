"""What an existing record means for a request: one pure function for every caller."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.record.record import Effects, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record


class Verdict(StrEnum):
    """What may happen to this record now."""

    EXPIRED = "expired"  # counts as absent: reserve anew
    GONE = "gone"  # the answer is no longer replayed, and the key is not free yet
    OURS = "ours"  # our own write was applied and its reply was lost: we hold the lease
    KEY_REUSED = "key-reused"  # the same key with another request
    PENDING = "pending"  # accepted, and waiting for a worker
    REPLAY = "replay"
    RESUME = "resume"  # ended, and safe to run again
    RUNNING = "running"
    TAKE_OVER = "take-over"  # the lease is over, and another run is harmless or resumes exactly
    LEASE_EXPIRED = "lease-expired"  # the lease is over, the outcome unknown: mark it so
    UNKNOWN = "unknown"


def judge(
    record: Record,
    *,
    owner: str,
    fingerprint: str,
    effects: Effects,
    now_ms: int,
    accepts: Callable[[str], bool] | None = None,
    gone_after_ms: int | None = None,
) -> Verdict:
    """Judge `record` for a request by `owner`.

    The order is fixed: expired or gone; our own owner; fingerprint; status.

    `effects` is what the present handler declares. A dead attempt runs again only if its record
    says that this is harmless, or that its effects are recorded with no step in doubt, and if the
    present handler declares the same. `accepts` says whether a different fingerprint belongs to the
    same request, computed with an older algorithm or secret. An answer is replayed for as long as
    its record says. If the record does not say it, an answer older than `gone_after_ms` is gone.
    """
    if record.is_expired(now_ms):
        return Verdict.EXPIRED
    if is_gone(record, now_ms, gone_after_ms):
        return Verdict.GONE
    if _holds_open_lease(record, owner, now_ms):
        return Verdict.OURS
    same = record.fingerprint == fingerprint or (accepts and accepts(record.fingerprint))
    if not same:
        return Verdict.KEY_REUSED
    match record.status:
        case Status.PENDING:
            return Verdict.PENDING
        case Status.COMPLETED:
            return Verdict.REPLAY
        case Status.FAILED_RETRYABLE:
            return _judge_failed(record, effects)
        case Status.UNKNOWN:
            return Verdict.UNKNOWN
        case Status.IN_PROGRESS:
            return _judge_in_progress(record, effects, now_ms)


def is_gone(record: Record, now_ms: int, gone_after_ms: int | None = None) -> bool:
    """Whether the answer of `record` is no longer given, though its key is not free yet.

    `gone_after_ms` counts if the record does not say how long its answer is given.
    """
    if record.status is not Status.COMPLETED:
        return False
    if record.policy is not None and record.expires_at_s is not None:
        return record.policy.given_until_s(record.expires_at_s) <= now_ms // 1000
    if gone_after_ms is None or record.completed_at_ms is None:
        return False
    return record.completed_at_ms + gone_after_ms <= now_ms


def _holds_open_lease(record: Record, owner: str, now_ms: int) -> bool:
    # After its lease, or once marked unknown, a record is no longer ours to run, even with our own
    # owner token: another process may already have acted on it.
    return (
        record.status is Status.IN_PROGRESS
        and record.owner == owner
        and not record.is_lease_over(now_ms)
    )


def _judge_failed(record: Record, effects: Effects) -> Verdict:
    # A handler that knows nothing of steps would run the finished ones again.
    if record.steps.finished and effects is not Effects.RECORDED:
        return Verdict.UNKNOWN
    return Verdict.RESUME


def _judge_in_progress(record: Record, effects: Effects, now_ms: int) -> Verdict:
    if not record.is_lease_over(now_ms):
        return Verdict.RUNNING
    if record.may_run_again and effects is record.effects:
        return Verdict.TAKE_OVER
    return Verdict.LEASE_EXPIRED
