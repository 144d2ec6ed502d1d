"""What rows of the contract's table of transitions are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import FinishedStep, StartedStep
from oncekey.record.transitions import (
    Doubt,
    Ending,
    Lease,
    Retry,
    Seen,
    Transition,
    Waiting,
)
from tests.support.records import EXPIRIES, LEASES, NOW_MS, NOW_S, record
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

PK = record().pk
LATER = Due(shard="5", at_ms=NOW_MS + 100_000)
# Of the release that runs the next attempt.
POLICY = Policy(
    encoding=Encoding.RESULT,
    retention_s=60,
    gone_for_s=30,
    response_version=2,
    preset="stripe",
    is_queued=True,
    grace_ms=600_000,
)
LEASE = Lease(
    owner="owner-9",
    until_ms=NOW_MS + 40_000,
    due=LATER,
    effects=Effects.REPEATABLE,
    policy=POLICY,
)
ENDING = Ending(response='{"statusCode":201}', completed_at_ms=NOW_MS, expires_at_s=NOW_S + 86_400)
RETRY = Retry(reason="NotExecuted", expires_at_s=NOW_S + 3_600)
HALF_DONE = Retry(reason="TimeoutError", expires_at_s=None, due=LATER)
DOUBT = Doubt(reason="lease-expired", due=LATER)
ESCALATED = Doubt(reason="steps-changed: charge", due=LATER, escalated_at_ms=NOW_MS)
RECORDED_LEASE = Lease(
    owner="owner-9", until_ms=NOW_MS + 40_000, due=LATER, effects=Effects.RECORDED
)
WAITING = Waiting(
    owner="owner-9",
    due=LATER,
    effects=Effects.REPEATABLE,
    request_digest="digest-9",
    policy=POLICY,
)
RECORDED_WAITING = Waiting(
    owner="owner-9", due=LATER, effects=Effects.RECORDED, request_digest="digest-9"
)
OTHER_STEP = StartedStep(name="another", position=2, mark=4, at_ms=NOW_MS)
CHARGED = FinishedStep(name="charge", position=2, at_ms=NOW_MS, result='{"id":"ch_1"}')
FRESH = record(pk=PK, rev=1, attempt=1, owner="owner-9", operation_id="another", due=LATER)
ACCEPTED = replace(FRESH, status=Status.PENDING, lease_until_ms=None)

# Which version of the record the writer has seen, or is the owner of.
VERSIONS = {
    "same owner, same rev": Seen(owner="owner-1", rev=7),
    "same owner, other rev": Seen(owner="owner-1", rev=6),
    "other owner, same rev": Seen(owner="owner-2", rev=7),
    "other owner, other rev": Seen(owner="owner-2", rev=8),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of the contract's table: from where, under which conditions, and what changes."""

    name: str
    build: Callable[[Seen], Transition]
    to: Status | None  # None: the state stays what it is
    from_status: frozenset[Status]
    from_absent: bool = False
    owner: bool = False  # the owner is the writer, or the one that it has seen
    rev: bool = False  # the revision is the one that it has seen
    lease_over: bool = False
    expired: bool = False
    effects: frozenset[Effects] = frozenset(Effects)
    may_run_again: bool = False  # repeatable effects, or recorded ones with no step in doubt
    doubt: bool | None = None  # whether a step is in doubt; None where it does not matter
    mark: int | None = None  # the mark of the step in doubt, where it matters
    absent: str | None = None  # the step that is not finished yet
    nothing_done: bool = False  # no step is finished
    unrecorded_or_never_begun: bool = False
    never_begun: bool = False  # the first attempt
    half_done: bool = False  # settled, and still to be looked at
    due: bool = False  # somebody is to look at it
    changes: frozenset[str]

    def permits(self, stored: Record | None, version: Seen) -> bool:
        """What the row says, by the names of the record's parts."""
        if stored is None:
            return self.from_absent
        lease_is_over = stored.lease_until_ms == LEASES["over"]
        is_expired = stored.expires_at_s in {EXPIRIES["exactly now"], EXPIRIES["past"]}
        return (
            stored.status in self.from_status
            and stored.effects in self.effects
            and (not self.owner or stored.owner == version.owner)
            and (not self.rev or stored.rev == version.rev)
            and (not self.lease_over or lease_is_over)
            and (not self.expired or is_expired)
            and (not self.may_run_again or _may_run_again(stored))
            and (self.doubt is None or self.doubt == (stored.steps.started is not None))
            and (self.mark is None or _mark(stored) == self.mark)
            and not (self.nothing_done and stored.steps.finished)
            and not (
                self.unrecorded_or_never_begun
                and stored.effects == "recorded"
                and stored.attempt != 1
            )
            and not (self.never_begun and stored.attempt != 1)
            and not (self.due and stored.due is None)
            and all(step.name != self.absent for step in stored.steps.finished)
        )


def _may_run_again(stored: Record) -> bool:
    return stored.effects == "repeatable" or (
        stored.effects == "recorded" and stored.steps.started is None
    )


def _mark(stored: Record) -> int | None:
    return stored.steps.started.mark if stored.steps.started is not None else None


def changing(*names: str) -> frozenset[str]:
    """The fields that a row may change."""
    return frozenset(names)


_ALWAYS = ("rev", "status", "lease_until_ms", "due", "expires_at_s", "last_error")
TURNS = ("reconcile_attempts", "escalated_at_ms")
ENDS = (*_ALWAYS, *TURNS)
ANSWERS = (*_ALWAYS, "response", "response_version", "completed_at_ms", "request", "request_digest")
RESTARTS = (*ENDS, "owner", "attempt", "effects", "policy")
LOOKED_AT = ("rev", "due", *TURNS)
DOUBTS = ("rev", "status", "due", "last_error", "escalated_at_ms")
STEPPED = ("rev", "steps")
WAITS = (
    *("rev", "status", "owner", "attempt", "effects", "due", "expires_at_s", "last_error"),
    *("request_digest", *TURNS),
    "policy",
)
BEGINS = (*ENDS, "owner", "effects", "policy")
PENDING = frozenset({Status.PENDING})
IN_PROGRESS, UNKNOWN = frozenset({Status.IN_PROGRESS}), frozenset({Status.UNKNOWN})
COMPLETED, FAILED = frozenset({Status.COMPLETED}), frozenset({Status.FAILED_RETRYABLE})
RECORDED = frozenset({Effects.RECORDED})
NOT_RECORDED = frozenset({Effects.UNRECORDED, Effects.REPEATABLE})
OUR_VERSION = VERSIONS["same owner, same rev"]
