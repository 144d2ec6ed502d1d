"""Records how a recorded attempt ended: everything in one transaction, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import Disposition, decide
from oncekey.effects.raised import ends_all, leaves
from oncekey.effects.stop import StopReason
from oncekey.effects.transaction import Collected
from oncekey.engine.recorded_interruption import Interruption
from oncekey.engine.recorder import KEPT_LONGER_S, Recorder
from oncekey.engine.reservation import outcome_unknown
from oncekey.errors import Final, NotExecuted, RunStopped, StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Answered, Raised, Unserialisable
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of
from oncekey.record.outcome import Failed, Outcome, Ran, Refusal
from oncekey.record.record import Effects
from oncekey.record.stored_answer import NotKept, Place, StoredRef, place_answer
from oncekey.store.store import Refused, Written
from oncekey.telemetry import requests as telemetry
from oncekey.value import field, replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.effects.journal import Journal
    from oncekey.flow.commands import Result
    from oncekey.record.stored_answer import Blob, StoredAnswer
    from oncekey.record.transitions import Complete

# DynamoDB's limit for one transaction.
_MOST_ACTIONS = 100


class RecordedRecorder(Interruption, kw_only=True):
    """Ends one attempt. `result_of` makes a `Result` of an exception raised by the last commit."""

    result_of: Callable[[BaseException], Result] = field(repr=False)

    async def end(self, result: Result, disposition: Disposition) -> Outcome:
        """Record `result` as `disposition` says, unless the journal contradicts it.

        When it returns a final answer of the handler that commits, the collected writes and
        messages are applied.
        """
        outcome = await self._ended(result, disposition)
        if not isinstance(outcome, Refusal):
            return outcome
        stopped = self.journal.stopped
        was_interrupted = stopped is not None and stopped.reason is StopReason.INTERRUPTED
        if isinstance(result, Raised):
            passes = was_interrupted and not _is_answered(result.error)
            if passes or ends_all(result.error):
                # Errors that end the process or cancel the coroutine must be passed on. So must an
                # error that interrupted a step.
                return Failed(result.error)
        elif isinstance(result, Answered) and was_interrupted and not result.is_final:
            # An answer that is not final makes no claim about the interrupted step.
            return Ran(value=result.value, record=self.record, expires_at_s=None)
        return outcome

    async def _ended(self, result: Result, disposition: Disposition) -> Outcome:
        journal = self.journal
        if journal.stopped is None and disposition is Disposition.COMPLETED:
            missed = journal.order.missed(self.record.steps)
            if missed is not None and isinstance(result, Answered) and result.is_failure:
                # The handler failed before it reached the missed steps. The next attempt may.
                return await Recorder.end(self, result, Disposition.RETRYABLE)
            if missed is not None:
                journal.stop_for_changed_steps(missed)
            lost = journal.result_lost_of
            if lost is not None and isinstance(result, Answered) and result.is_refusal:
                # The step is done, but its handler got an error, and so reports it as failed.
                journal.lose_result_of(lost)
        if journal.stopped is not None:
            return await self._stopped(journal.stopped)
        if disposition is Disposition.UNKNOWN:
            return await self._in_doubt(result)
        if disposition is Disposition.COMPLETED and isinstance(result, Answered | Unserialisable):
            return await self._complete_with(result)
        return await Recorder.end(self, result, disposition)

    async def _in_doubt(self, result: Result) -> Outcome:
        started = self.record.steps.started
        name = started.name if started is not None else ""
        await self._mark_unknown(f"step-in-doubt: {name}")
        if isinstance(result, Answered) and not result.is_final:
            return Ran(value=result.value, record=self.record, expires_at_s=None)
        if isinstance(result, Raised) and not _is_answered(result.error):
            return Failed(result.error)
        return outcome_unknown(self.record, self.clock.now_ms())

    async def _complete_with(self, result: Answered[Any] | Unserialisable) -> Outcome:
        collected = self.journal.collected.take() if result.commits else Collected()
        try:
            stored, companion = await self._stored(result, collected)
            transition = self._completion(stored)
            commit = self._commit(transition, collected, companion)
            reply = await self._applied(commit)
        except StoreError as failed:
            return await self._unconfirmed(failed, result)
        if isinstance(reply, ConditionsFailed | Inapplicable):
            error = error_of(commit, reply)
            # Nothing was applied. So no failure is final, even if the operation stores failures.
            instead = self.result_of(error) if isinstance(error, Final) else Raised(error)
            disposition = decide(
                instead,
                Effects.RECORDED,
                self.journal.is_not_executed,
                is_spent=self.journal.is_spent,
            )
            outcome = await self.end(instead, disposition)
            return replace(outcome, error=error) if isinstance(outcome, Refusal) else outcome
        if isinstance(reply, Refused):
            return await self._refused(reply.record, result)
        if isinstance(result, Unserialisable):
            return Failed(result.error)
        is_done = isinstance(stored, NotKept)
        expires_at_s = None if is_done else transition.ending.expires_at_s
        return Ran(
            value=result.value, record=self.record, expires_at_s=expires_at_s, is_done=is_done
        )

    async def _stored(
        self, result: Answered[Any] | Unserialisable, collected: Collected
    ) -> tuple[StoredAnswer, Blob | None]:
        for blob in claimed(collected.messages):
            await retry.save(blob, self._until_the_deadline(), self.clock)
        if isinstance(result, Unserialisable):
            return NotKept("answer-not-storable"), None
        expires_at_s = self.request.expires_at_s(self.clock.now_ms()) + KEPT_LONGER_S
        stored, kept = place_answer(
            result.stored,
            self.record,
            expires_at_s=expires_at_s,
            has_bucket=self.request.store_state.has_bucket,
        )
        if kept is None:
            pass
        elif kept.at.place is Place.OBJECT:
            stored = await self._kept_as_object(stored, kept)
        elif collected.fits(len(kept.data)):
            return stored, kept
        else:
            # The transaction has no room for it. It is saved first, and no record refers to it yet.
            await retry.save(kept, self._until_the_deadline(), self.clock)
        if isinstance(stored, NotKept):
            telemetry.answer_not_kept(self.record, self.clock.now_ms(), stored.reason)
        return stored, None

    def _commit(self, transition: Complete, collected: Collected, companion: Blob | None) -> Commit:
        expires_at_s = transition.ending.expires_at_s + KEPT_LONGER_S
        expiring = [
            (step.result, expires_at_s)
            for step in self.record.steps.finished
            if isinstance(step.result, StoredRef) and step.result.place is Place.ITEM
        ]
        taken = 1 + len(collected.writes) + len(collected.messages) + (companion is not None)
        return Commit(
            transition=transition,
            token=self.journal.next_token(),
            writes=tuple(collected.writes),
            messages=tuple(collected.messages),
            companion=companion,
            # The results over the limit get no expiry. They are kept too long, never too short.
            expiring=tuple(expiring[: _MOST_ACTIONS - taken]),
        )

    async def _applied(self, commit: Commit) -> Written | Refused | ConditionsFailed | Inapplicable:
        budget = self._until_the_deadline()
        if commit.writes or commit.messages or commit.companion or commit.expiring:
            return await retry.commit(commit, budget, self.clock, self._is_landed)
        assert commit.transition is not None
        # A plain write costs half as much as a transaction with one action.
        return await retry.write(commit.transition, budget, self.clock)


def _is_answered(error: BaseException) -> bool:
    """Whether `error` and all its members are answered with a refusal, and not passed on."""
    return all(isinstance(each, RunStopped | NotExecuted) for each in leaves(error))


def recorded(
    recorder: Recorder, journal: Journal, result_of: Callable[[BaseException], Result]
) -> RecordedRecorder:
    """The recorder of an attempt whose handler has ended and left `journal`."""
    return RecordedRecorder(
        request=recorder.request,
        record=journal.record,
        clock=recorder.clock,
        budget=recorder.budget,
        journal=journal,
        result_of=result_of,
    )
