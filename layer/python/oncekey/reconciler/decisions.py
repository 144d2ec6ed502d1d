"""The pure decision of what a reconciler does with a due record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.policy import policy_of
from oncekey.record.record import Due, Status
from oncekey.record.transitions import Doubt, Ending, ExpireLease, Reschedule, Retry, TimeOut, seen
from oncekey.settlement.resolvers import nothing_in_doubt, resolver_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.reconciler.settings import ReconcilerSettings
    from oncekey.record.record import Record
    from oncekey.settings import Settings

# The mark before an escalation postpones the record by this time. So a reconciler that is killed
# before it escalates leaves the record due, and nothing is escalated twice a day.
TOLD_ONCE_IN_MS = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Leave:
    """Do nothing now."""


@dataclass(frozen=True, slots=True)
class End:
    """End a dead attempt or an overdue request, and then decide again."""

    transition: ExpireLease | TimeOut


@dataclass(frozen=True, slots=True)
class Ask:
    """Take the turn, then ask the resolver."""

    turn: Reschedule


@dataclass(frozen=True, slots=True)
class HandBack:
    """Take the turn, and in the same transaction send a worker the message to continue."""

    turn: Reschedule


@dataclass(frozen=True, slots=True)
class Wait:
    """Take the turn, because the client may retry, or a message may be redriven."""

    turn: Reschedule


@dataclass(frozen=True, slots=True)
class Escalate:
    """Mark the record as escalated, and then escalate it, for the first time or again."""

    turn: Reschedule


Visit = Leave | End | Ask | HandBack | Wait | Escalate


def never_paused(_record: Record) -> bool:
    """Nothing is paused."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Decides visits at `now_ms`.

    `has_resolver` says whether a record can be settled by asking. `timed_out` returns the ending of
    an accepted request that was never begun. `is_paused` says whether an operator has paused the
    record's operation or tenant: nothing is then begun. `chance` is a random number from 0 to 1.
    """

    now_ms: int
    chance: float
    settings: Settings
    turns: ReconcilerSettings
    has_resolver: Callable[[Record], bool]
    timed_out: Callable[[Record], Ending]
    is_paused: Callable[[Record], bool] = never_paused

    def visit(self, record: Record) -> Visit:
        """What to do with `record` now."""
        if record.due is None or record.due.at_ms >= self.now_ms:
            # The index lags, and somebody has written the record since. The last millisecond still
            # belongs to the lease and the grace.
            return Leave()
        if record.status is Status.IN_PROGRESS:
            return self._dead(record) if record.is_lease_over(self.now_ms) else Leave()
        if record.status is Status.COMPLETED:
            return Leave()
        is_used_up = record.reconcile_attempts >= self.turns.max_attempts
        if record.escalated_at_ms is not None or is_used_up:
            return Escalate(self._escalation(record))
        if record.status is Status.PENDING and not record.was_begun:
            ending = self.timed_out(record)
            return End(TimeOut(pk=record.pk, seen_owner=record.owner, ending=ending))
        turn = self.turn(record)
        if record.status is Status.UNKNOWN:
            return Ask(turn) if self.has_resolver(record) else Escalate(self._escalation(record))
        if record.status is Status.PENDING or record.request is None:
            return Wait(turn)
        if self.is_paused(record):
            # It waits for an operator, who knows of it. So it uses up no turn.
            return Wait(self.turn(record, counts=False))
        if record.attempt >= self.turns.max_attempts:
            return Escalate(self._escalation(record))
        return HandBack(turn)

    def _dead(self, record: Record) -> End:
        """End an attempt whose lease, and so also its invocation, has ended."""
        to: Doubt | Retry
        if not record.may_run_again:
            to = Doubt(reason="lease-expired", due=self._now(record))
        elif record.steps.finished:
            to = Retry(reason="lease-expired", expires_at_s=None, due=self._now(record))
        else:
            until_s = policy_of(record, self.settings).failure_expires_at_s(self.now_ms)
            to = Retry(reason="lease-expired", expires_at_s=until_s)
        return End(ExpireLease(pk=record.pk, seen=seen(record), now_ms=self.now_ms, to=to))

    def turn(self, record: Record, *, counts: bool = True) -> Reschedule:
        """The write that takes the turn of `record` now, whatever is done in it."""
        attempts = record.reconcile_attempts + counts
        due_at_ms = self.now_ms + self.turns.delay_ms(max(1, attempts), self.chance)
        due = Due(shard=record.due_shard, at_ms=due_at_ms)
        return Reschedule(pk=record.pk, seen=seen(record), due=due, attempts=attempts)

    def _escalation(self, record: Record) -> Reschedule:
        again_ms, since_ms = self.turns.escalate_again_ms, record.escalated_at_ms
        # Within this time it is the same escalation, whose message may not have been sent yet.
        is_new = since_ms is None or since_ms + again_ms <= self.now_ms
        return Reschedule(
            pk=record.pk,
            seen=seen(record),
            due=Due(shard=record.due_shard, at_ms=self.now_ms + TOLD_ONCE_IN_MS),
            attempts=record.reconcile_attempts,
            escalated_at_ms=self.now_ms if is_new else since_ms,
        )

    def _now(self, record: Record) -> Due:
        return Due(shard=record.due_shard, at_ms=self.now_ms - 1)


def has_resolver(record: Record) -> bool:
    """Whether an unknown record has a resolver in this process, or needs none."""
    return (
        nothing_in_doubt(record) or resolver_of(record.operation, record.step_in_doubt) is not None
    )
