"""The transitions of a record: the writes that exist, when each is permitted, and what it leaves.

```
             Reserve                     Complete                     (expires_at)
  absent ───────────────▶ IN_PROGRESS ───────────────▶ COMPLETED ───────────────▶ expired
  expired                  │  ▲  ▲  │                   ▲    ▲
                           │  │  │  │ MarkUnknown       │    │
        TakeOver (lease    └──┘  │  │ ExpireLease       │    │ LateEffect
        over, repeatable)        │  ▼            Settle │    │
                          Resume │ UNKNOWN ─────────────┤    │
                                 │                      ▼    │
                                 └──────────────── FAILED_RETRYABLE ◀── Release, ExpireLease
```

Each is one conditional write in a store. `permitted` and `applied` are the meaning of those
conditions and updates; a contract test holds every store to them. No plain read is ever the guard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from oncekey.record import RESPONSE_VERSION, Due, Effects, Record, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The version of a record that a decision was made from."""

    owner: str
    rev: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A new attempt's right to run."""

    owner: str
    until_ms: int
    due: Due
    effects: Effects


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A stored answer."""

    response: str
    completed_at_ms: int
    expires_at_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Safe to run again, for as long as the record lives."""

    reason: str
    expires_at_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """What happened is not known; somebody must look at `due`."""

    reason: str
    due: Due


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Absent, or settled and expired → IN_PROGRESS, as `record`."""

    record: Record
    now_ms: int

    @property
    def pk(self) -> str:
        """The record's partition key."""
        return self.record.pk


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """FAILED_RETRYABLE → IN_PROGRESS, with a new owner and the next attempt."""

    pk: str
    seen: Seen
    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """IN_PROGRESS with its lease over → IN_PROGRESS, with a new owner and the next attempt.

    Repeatable effects only.
    """

    pk: str
    seen: Seen
    lease: Lease
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireLease:
    """IN_PROGRESS with its lease over → UNKNOWN, or FAILED_RETRYABLE.

    The latter only where running again is harmless.

    The owner stays.
    """

    pk: str
    seen: Seen
    now_ms: int
    to: Doubt | Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """IN_PROGRESS or UNKNOWN → COMPLETED, by its own owner."""

    pk: str
    owner: str
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """IN_PROGRESS → FAILED_RETRYABLE, by its own owner.

    Proven not executed, or harmless to repeat.
    """

    pk: str
    owner: str
    retry: Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkUnknown:
    """IN_PROGRESS → UNKNOWN, by its own owner. The lease stays."""

    pk: str
    owner: str
    doubt: Doubt


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """UNKNOWN → COMPLETED or FAILED_RETRYABLE, by a resolver, webhook or operator.

    Writes `new_owner`, a fresh one, so that a late owner does not take the settlement for its own
    write.
    """

    pk: str
    seen_owner: str
    new_owner: str
    to: Ending | Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class LateEffect:
    """FAILED_RETRYABLE → COMPLETED, by a webhook or operator: an effect came to light after all."""

    pk: str
    seen: Seen
    new_owner: str
    ending: Ending


Transition = (
    Reserve
    | Resume
    | TakeOver
    | ExpireLease
    | Complete
    | Release
    | MarkUnknown
    | Settle
    | LateEffect
)


def seen(record: Record) -> Seen:
    """The version that a decision from `record` must name in its write."""
    return Seen(owner=record.owner, rev=record.rev)


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
                response_version=RESPONSE_VERSION,
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
