"""The contract's table of transitions, a row each, in the words of the design.

It is written apart from the code that it judges: tests compare every store and every rule with it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from oncekey.record import Due, Effects, Record, Status
from oncekey.step_transitions import ClearStep, FinishStep, StartStep
from oncekey.steps import FinishedStep, StartedStep
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
    SettleStep,
    TakeOver,
    Transition,
)
from tests.support.records import EXPIRIES, FINISHED, LEASES, NOW_MS, NOW_S, STARTED, record

if TYPE_CHECKING:
    from collections.abc import Callable

PK = record().pk
LATER = Due(shard="5", at_ms=NOW_MS + 100_000)
LEASE = Lease(owner="owner-9", until_ms=NOW_MS + 40_000, due=LATER, effects=Effects.REPEATABLE)
ENDING = Ending(response='{"statusCode":201}', completed_at_ms=NOW_MS, expires_at_s=NOW_S + 86_400)
RETRY = Retry(reason="NotExecuted", expires_at_s=NOW_S + 3_600)
HALF_DONE = Retry(reason="TimeoutError", expires_at_s=None, due=LATER)
DOUBT = Doubt(reason="lease-expired", due=LATER)
ESCALATED = Doubt(reason="steps-changed: charge", due=LATER, escalated_at_ms=NOW_MS)
RECORDED_LEASE = Lease(
    owner="owner-9", until_ms=NOW_MS + 40_000, due=LATER, effects=Effects.RECORDED
)
OTHER_STEP = StartedStep(name="another", position=2, mark=4, at_ms=NOW_MS)
CHARGED = FinishedStep(name="charge", position=2, at_ms=NOW_MS, result='{"id":"ch_1"}')
FRESH = record(pk=PK, rev=1, attempt=1, owner="owner-9", operation_id="another", due=LATER)

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
    to: Status
    from_status: frozenset[Status]
    from_absent: bool = False
    owner: bool = False  # the owner is the writer, or the one that it has seen
    rev: bool = False  # the revision is the one that it has seen
    lease_over: bool = False
    expired: bool = False
    effects: frozenset[Effects] = frozenset(Effects)
    doubt: bool | None = None  # whether a step is in doubt; None where it does not matter
    mark: int | None = None  # the mark of the step in doubt, where it matters
    absent: str | None = None  # the step that is not finished yet
    half_done: bool = False  # settled, and still to be looked at
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
            and (self.doubt is None or self.doubt == (stored.steps.started is not None))
            and (self.mark is None or _mark(stored) == self.mark)
            and all(step.name != self.absent for step in stored.steps.finished)
        )


def _mark(stored: Record) -> int | None:
    return stored.steps.started.mark if stored.steps.started is not None else None


def changing(*names: str) -> frozenset[str]:
    """The fields that a row may change."""
    return frozenset(names)


ENDS = ("rev", "status", "lease_until_ms", "due", "expires_at_s", "last_error")
ANSWERS = (*ENDS, "response", "response_version", "completed_at_ms")
RESTARTS = (*ENDS, "owner", "attempt", "effects")
DOUBTS = ("rev", "status", "due", "last_error", "escalated_at_ms")
STEPPED = ("rev", "steps")
IN_PROGRESS, UNKNOWN = frozenset({Status.IN_PROGRESS}), frozenset({Status.UNKNOWN})
COMPLETED, FAILED = frozenset({Status.COMPLETED}), frozenset({Status.FAILED_RETRYABLE})
REPEATABLE = frozenset({Effects.REPEATABLE})
RECORDED = frozenset({Effects.RECORDED})
NOT_RECORDED = frozenset({Effects.UNRECORDED, Effects.REPEATABLE})

TABLE = [
    Row(
        name="absent, or settled and expired -> IN_PROGRESS by reserve",
        build=lambda _: Reserve(record=FRESH, now_ms=NOW_MS),
        to=Status.IN_PROGRESS,
        from_status=COMPLETED | FAILED,
        from_absent=True,
        expired=True,
        changes=changing(*(field.name for field in fields(Record))),
    ),
    Row(
        name="FAILED_RETRYABLE -> IN_PROGRESS by resume",
        build=lambda seen: Resume(pk=PK, seen=seen, lease=LEASE),
        to=Status.IN_PROGRESS,
        from_status=FAILED,
        owner=True,
        rev=True,
        changes=changing(*RESTARTS),
    ),
    Row(
        name="IN_PROGRESS, lease over, none in doubt -> IN_PROGRESS by takeover",
        build=lambda seen: TakeOver(pk=PK, seen=seen, lease=RECORDED_LEASE, now_ms=NOW_MS),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        rev=True,
        lease_over=True,
        effects=REPEATABLE | RECORDED,
        doubt=False,
        changes=changing(*RESTARTS),
    ),
    Row(
        name="FAILED_RETRYABLE -> IN_PROGRESS by resume, recorded",
        build=lambda seen: Resume(pk=PK, seen=seen, lease=RECORDED_LEASE),
        to=Status.IN_PROGRESS,
        from_status=FAILED,
        owner=True,
        rev=True,
        changes=changing(*RESTARTS),
    ),
    Row(
        name="IN_PROGRESS, lease over -> UNKNOWN by a request or the reconciler",
        build=lambda seen: ExpireLease(pk=PK, seen=seen, now_ms=NOW_MS, to=DOUBT),
        to=Status.UNKNOWN,
        from_status=IN_PROGRESS,
        owner=True,
        rev=True,
        lease_over=True,
        changes=changing(*DOUBTS),
    ),
    Row(
        name="IN_PROGRESS, lease over, none in doubt -> FAILED_RETRYABLE by the reconciler",
        build=lambda seen: ExpireLease(pk=PK, seen=seen, now_ms=NOW_MS, to=RETRY),
        to=Status.FAILED_RETRYABLE,
        from_status=IN_PROGRESS,
        owner=True,
        rev=True,
        lease_over=True,
        effects=REPEATABLE | RECORDED,
        doubt=False,
        changes=changing(*ENDS),
    ),
    Row(
        name="IN_PROGRESS, UNKNOWN -> COMPLETED by its own owner",
        build=lambda seen: Complete(pk=PK, owner=seen.owner, ending=ENDING),
        to=Status.COMPLETED,
        from_status=IN_PROGRESS | UNKNOWN,
        owner=True,
        doubt=False,
        changes=changing(*ANSWERS),
    ),
    Row(
        name="IN_PROGRESS -> FAILED_RETRYABLE by its own owner",
        build=lambda seen: Release(pk=PK, owner=seen.owner, retry=RETRY),
        to=Status.FAILED_RETRYABLE,
        from_status=IN_PROGRESS,
        owner=True,
        doubt=False,
        changes=changing(*ENDS),
    ),
    Row(
        name="IN_PROGRESS -> FAILED_RETRYABLE, half done, by its own owner",
        build=lambda seen: Release(pk=PK, owner=seen.owner, retry=HALF_DONE),
        to=Status.FAILED_RETRYABLE,
        from_status=IN_PROGRESS,
        owner=True,
        doubt=False,
        half_done=True,
        changes=changing(*ENDS),
    ),
    Row(
        name="IN_PROGRESS -> UNKNOWN, escalated, by its own owner",
        build=lambda seen: MarkUnknown(pk=PK, owner=seen.owner, doubt=ESCALATED),
        to=Status.UNKNOWN,
        from_status=IN_PROGRESS,
        owner=True,
        changes=changing(*DOUBTS),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a step started, by its own owner",
        build=lambda seen: StartStep(pk=PK, owner=seen.owner, step=OTHER_STEP),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=False,
        absent="another",
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a finished step started again, by its own owner",
        build=lambda seen: StartStep(
            pk=PK, owner=seen.owner, step=replace(STARTED, name=FINISHED.name)
        ),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=False,
        absent=FINISHED.name,
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, the started step finished, by its own owner",
        build=lambda seen: FinishStep(pk=PK, owner=seen.owner, step=CHARGED, mark=STARTED.mark),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=True,
        mark=STARTED.mark,
        absent="charge",
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, an unmarked step finished, by its own owner",
        build=lambda seen: FinishStep(pk=PK, owner=seen.owner, step=FINISHED, mark=None),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=False,
        absent=FINISHED.name,
        changes=changing(*STEPPED),
    ),
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, the started step cleared, by its own owner",
        build=lambda seen: ClearStep(pk=PK, owner=seen.owner, mark=STARTED.mark),
        to=Status.IN_PROGRESS,
        from_status=IN_PROGRESS,
        owner=True,
        effects=RECORDED,
        doubt=True,
        mark=STARTED.mark,
        changes=changing(*STEPPED),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, its step finished, by a resolver",
        build=lambda seen: SettleStep(
            pk=PK,
            seen_owner=seen.owner,
            new_owner="owner-9",
            retry=HALF_DONE,
            finished=CHARGED,
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=RECORDED,
        doubt=True,
        half_done=True,
        changes=changing(*ENDS, "owner", "steps"),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, its step cleared, by a resolver",
        build=lambda seen: SettleStep(
            pk=PK, seen_owner=seen.owner, new_owner="owner-9", retry=RETRY, cleared="charge"
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=RECORDED,
        doubt=True,
        changes=changing(*ENDS, "owner", "steps"),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, no step in doubt, by an operator",
        build=lambda seen: SettleStep(
            pk=PK, seen_owner=seen.owner, new_owner="owner-9", retry=HALF_DONE
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=RECORDED,
        doubt=False,
        half_done=True,
        changes=changing(*ENDS, "owner"),
    ),
    Row(
        name="IN_PROGRESS -> UNKNOWN by its own owner",
        build=lambda seen: MarkUnknown(pk=PK, owner=seen.owner, doubt=DOUBT),
        to=Status.UNKNOWN,
        from_status=IN_PROGRESS,
        owner=True,
        changes=changing(*DOUBTS),
    ),
    Row(
        name="UNKNOWN -> COMPLETED by a resolver, webhook or operator",
        build=lambda seen: Settle(pk=PK, seen_owner=seen.owner, new_owner="owner-9", to=ENDING),
        to=Status.COMPLETED,
        from_status=UNKNOWN,
        owner=True,
        effects=NOT_RECORDED,
        changes=changing(*ANSWERS, "owner"),
    ),
    Row(
        name="UNKNOWN -> FAILED_RETRYABLE by a resolver, webhook or operator",
        build=lambda seen: Settle(pk=PK, seen_owner=seen.owner, new_owner="owner-9", to=RETRY),
        to=Status.FAILED_RETRYABLE,
        from_status=UNKNOWN,
        owner=True,
        effects=NOT_RECORDED,
        changes=changing(*ENDS, "owner"),
    ),
    Row(
        name="FAILED_RETRYABLE -> COMPLETED by a late effect",
        build=lambda seen: LateEffect(pk=PK, seen=seen, new_owner="owner-9", ending=ENDING),
        to=Status.COMPLETED,
        from_status=FAILED,
        owner=True,
        rev=True,
        effects=NOT_RECORDED,
        changes=changing(*ANSWERS, "owner"),
    ),
]
# Transitions that no record permits, written as rows.
NEVER = [
    Row(
        name="IN_PROGRESS -> IN_PROGRESS, a step finished under another mark, by its own owner",
        build=lambda seen: FinishStep(pk=PK, owner=seen.owner, step=CHARGED, mark=99),
        to=Status.IN_PROGRESS,
        from_status=frozenset(),
        changes=changing(*STEPPED),
    ),
    Row(
        name="UNKNOWN, recorded -> FAILED_RETRYABLE, another step cleared, by a resolver",
        build=lambda seen: SettleStep(
            pk=PK, seen_owner=seen.owner, new_owner="owner-9", retry=RETRY, cleared="another"
        ),
        to=Status.FAILED_RETRYABLE,
        from_status=frozenset(),
        changes=changing(*ENDS, "owner", "steps"),
    ),
]
OUR_VERSION = VERSIONS["same owner, same rev"]
