"""Records how a recorded attempt ended: everything in one transaction, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey import retry, telemetry
from oncekey.commands import Answered, Raised, Unsendable
from oncekey.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of
from oncekey.errors import NotExecuted, StoreError
from oncekey.fate import Fate, decide
from oncekey.outcome import RETRY_SOON_MS, Failed, Outcome, Ran, Reason, Refusal, Replayed
from oncekey.record import Effects, Status
from oncekey.recorded_errors import RunStopped
from oncekey.recorder import Recorder
from oncekey.replay import replay
from oncekey.reservation import outcome_unknown, running
from oncekey.stop import Stop, StopReason
from oncekey.store import Refused, Written
from oncekey.stored_answer import Elsewhere, NotKept, Place, keep
from oncekey.transaction import Collected
from oncekey.transitions import Release

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.commands import Flow, Result
    from oncekey.journal import Journal
    from oncekey.record import Record
    from oncekey.stored_answer import Blob, StoredAnswer

# DynamoDB's limit for one transaction.
_MOST_ACTIONS = 100
_KEPT_LONGER_S = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRecorder(Recorder):
    """Ends one attempt. `result_of` says what an exception raised at its end comes to."""

    journal: Journal
    result_of: Callable[[BaseException], Result]

    def end(self, result: Result, fate: Fate) -> Flow[Outcome]:
        """Record `result` as `fate` says, unless the journal knows better.

        When it returns an answer of the handler's, what the handler has collected is applied.
        """
        journal = self.journal
        if journal.stopped is None and fate is Fate.COMPLETED:
            missed = journal.order.missed(self.record.steps)
            if missed is not None:
                journal.stop_for_changed_steps(missed)
        if journal.stopped is not None:
            return (yield from self._stopped(journal.stopped))
        if fate is Fate.UNKNOWN:
            return (yield from self._in_doubt(result))
        if fate is Fate.COMPLETED and isinstance(result, Answered | Unsendable):
            return (yield from self._complete_with(result))
        return (yield from Recorder.end(self, result, fate))

    @property
    def _is_half_done(self) -> bool:
        # A checkpoint that was not confirmed may be on record.
        return bool(self.record.steps.finished) or not self.journal.is_certain

    def _in_doubt(self, result: Result) -> Flow[Outcome]:
        started = self.record.steps.started
        name = started.name if started is not None else ""
        yield from self._mark_unknown(f"step-in-doubt: {name}")
        if isinstance(result, Answered) and not result.is_final:
            return Ran(value=result.value, record=self.record, expires_at_s=None)
        if isinstance(result, Raised) and not isinstance(result.error, RunStopped | NotExecuted):
            return Failed(result.error)
        return outcome_unknown(self.record, self.clock.now_ms())

    def _complete_with(self, result: Answered[Any] | Unsendable) -> Flow[Outcome]:
        collected = self.journal.collected.take() if result.commits else Collected()
        try:
            stored, companion = yield from self._stored(result, collected)
            commit = self._commit(stored, collected, companion)
            reply = yield from self._applied(commit)
        except StoreError as error:
            return (yield from self._unconfirmed(error, result))
        if isinstance(reply, ConditionsFailed | Inapplicable):
            instead = self.result_of(error_of(commit, reply))
            fate = decide(instead, Effects.RECORDED, self.journal.is_not_executed)
            return (yield from self.end(instead, fate))
        if isinstance(reply, Refused):
            return (yield from self._refused(reply.record, result))
        return self._ran(result, None if isinstance(stored, NotKept) else commit)

    def _stored(
        self, result: Answered[Any] | Unsendable, collected: Collected
    ) -> Flow[tuple[StoredAnswer, Blob | None]]:
        for blob in claimed(collected):
            yield from retry.keep(blob, self._until_the_deadline(), self.clock)
        if isinstance(result, Unsendable):
            return NotKept("answer-not-storable"), None
        expires_at_s = self.claim.expires_at_s(self.clock.now_ms()) + _KEPT_LONGER_S
        stored, kept = keep(
            result.stored, self.record, expires_at_s=expires_at_s, has_bucket=self.has_bucket
        )
        if kept is None:
            pass
        elif kept.at.place is Place.OBJECT:
            stored = yield from self._kept_as_object(stored, kept)
        elif collected.fits(len(kept.data)):
            return stored, kept
        else:
            # There is no room for it in the transaction: it stands there before, as evidence of
            # nothing.
            yield from retry.keep(kept, self._until_the_deadline(), self.clock)
        if isinstance(stored, NotKept):
            telemetry.answer_not_kept(self.record, self.clock.now_ms(), stored.reason)
        return stored, None

    def _commit(self, stored: StoredAnswer, collected: Collected, companion: Blob | None) -> Commit:
        transition = self._completion(stored)
        expires_at_s = transition.ending.expires_at_s + _KEPT_LONGER_S
        expiring = [
            (step.result, expires_at_s)
            for step in self.record.steps.finished
            if isinstance(step.result, Elsewhere) and step.result.place is Place.ITEM
        ]
        taken = 1 + len(collected.writes) + len(collected.messages) + (companion is not None)
        return Commit(
            transition=transition,
            token=self.journal.next_token(),
            writes=tuple(collected.writes),
            messages=tuple(collected.messages),
            companion=companion,
            # Beyond that they stay without an expiry: too much is kept, never too little.
            expiring=tuple(expiring[: _MOST_ACTIONS - taken]),
        )

    def _applied(self, commit: Commit) -> Flow[Written | Refused | ConditionsFailed | Inapplicable]:
        budget = self._until_the_deadline()
        if not (commit.writes or commit.messages or commit.companion or commit.expiring):
            assert commit.transition is not None
            return (yield from retry.write(commit.transition, budget, self.clock))
        reply = yield from retry.commit(commit, budget, self.clock)
        if budget.failures and isinstance(reply, ConditionsFailed | Inapplicable):
            # An earlier sending may have been applied: then the condition failed on its own writes.
            met = yield from retry.read(self.record.pk, budget, self.clock)
            if self._is_landed(met):
                return Refused(met)
        return reply

    def _is_landed(self, met: Record | None) -> bool:
        return met is not None and met.status is Status.COMPLETED and met.owner == self.record.owner

    def _ran(self, result: Answered[Any] | Unsendable, commit: Commit | None) -> Outcome:
        if isinstance(result, Unsendable):
            return Failed(result.error)
        if not self.journal.use.is_used and result.commits:
            telemetry.operation_unused(self.record.operation)
        ending = getattr(commit.transition, "ending", None) if commit is not None else None
        expires_at_s = ending.expires_at_s if ending is not None else None
        return Ran(value=result.value, record=self.record, expires_at_s=expires_at_s)

    def _refused(self, met: Record | None, result: Answered[Any] | Unsendable) -> Flow[Outcome]:
        if met is None or not self._is_landed(met):
            return (yield from self._lost(met))
        if isinstance(result, Unsendable):
            return Failed(result.error)
        expires_at_s = None if isinstance(met.response, NotKept) else met.expires_at_s
        return Ran(value=result.value, record=met, expires_at_s=expires_at_s)

    def _stopped(self, stop: Stop) -> Flow[Outcome]:
        telemetry.run_stopped(self.record, self.clock.now_ms(), str(stop))
        match stop.reason:
            case StopReason.LOST:
                return (yield from self._lost(stop.met))
            case StopReason.NO_TIME:
                return (yield from self.give_back(stop.reason))
            case StopReason.STORE:
                error = stop.error or StoreError("not confirmed", transient=True)
                return (yield from self._unconfirmed(error, None))
            case StopReason.STEPS_CHANGED | StopReason.RESULT_LOST:
                yield from self._mark_unknown(str(stop), is_escalated=True)
                return outcome_unknown(self.record, self.clock.now_ms())

    def _unconfirmed(
        self, error: StoreError, result: Answered[Any] | Unsendable | None
    ) -> Flow[Outcome]:
        """What was sent may have been applied. A release says: it is refused if it was."""
        release = Release(
            pk=self.record.pk, owner=self.record.owner, retry=self._retry("not-confirmed")
        )
        reply: Written | Refused | None = None
        if self.clock.now_ms() + self.budget.call_timeout_ms <= self.budget.until_ms:
            try:
                reply = yield from retry.write(release, self._until_the_deadline(), self.clock)
            except StoreError as failed:
                telemetry.ending_not_recorded(self.record, self.clock.now_ms(), failed)
        met = reply.record if isinstance(reply, Refused) else None
        if isinstance(reply, Refused):
            if result is not None and self._is_landed(met):
                return (yield from self._refused(met, result))
            is_ours = met is not None and met.owner == self.record.owner
            if not (met is not None and is_ours and met.is_in_doubt):
                return (yield from self._lost(met))
            yield from self._mark_unknown("step-not-confirmed")
            return outcome_unknown(met, self.clock.now_ms())
        if reply is None and self.journal.is_in_doubt:
            return outcome_unknown(self.record, self.clock.now_ms())
        telemetry.store_unavailable(self.record.operation, error)
        reason = Reason.RUNNING if error.contention else Reason.STORE_UNAVAILABLE
        is_outage = error.transient and error.contention is None
        return Refusal(
            reason=reason, record=self.record, retry_after_ms=RETRY_SOON_MS, is_outage=is_outage
        )

    def _lost(self, met: Record | None) -> Flow[Outcome]:
        """The record is another's: nothing of this attempt that was not confirmed has happened."""
        now_ms = self.clock.now_ms()
        telemetry.ownership_lost(self.record, now_ms)
        if met is None or met.operation_id != self.record.operation_id:
            reason = Reason.OUTCOME_UNKNOWN if self._is_half_done else Reason.NOT_EXECUTED
            return Refusal(reason=reason, retry_after_ms=RETRY_SOON_MS)
        match met.status:
            case Status.COMPLETED:
                return (yield from replay(Replayed(met), self.budget, self.clock))
            case Status.IN_PROGRESS:
                return running(met, now_ms)
            case Status.UNKNOWN:
                return outcome_unknown(met, now_ms)
            case Status.FAILED_RETRYABLE:
                return Refusal(reason=Reason.NOT_EXECUTED, record=met, retry_after_ms=RETRY_SOON_MS)


def recorded(
    recorder: Recorder, journal: Journal, result_of: Callable[[BaseException], Result]
) -> RecordedRecorder:
    """The recorder of an attempt whose handler has ended with this journal."""
    return RecordedRecorder(
        claim=recorder.claim,
        record=journal.record,
        clock=recorder.clock,
        budget=recorder.budget,
        has_bucket=recorder.has_bucket,
        journal=journal,
        result_of=result_of,
    )
