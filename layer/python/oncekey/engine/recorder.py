"""Records how an attempt ended, and determines the outcome for its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import Disposition, reason
from oncekey.effects.raised import RefusedBelow, ends_all
from oncekey.engine.replay import replay
from oncekey.engine.reservation import outcome_unknown, running
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Answered, Raised, Unserialisable
from oncekey.flow.retry import Budget
from oncekey.record.outcome import RETRY_SOON_MS, Failed, Outcome, Ran, Reason, Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.rules import applied
from oncekey.record.stored_answer import (
    OBJECT_CALL_TIMEOUT_MS,
    Blob,
    NotKept,
    Place,
    StoredAnswer,
    place_answer,
)
from oncekey.record.transitions import (
    Complete,
    Doubt,
    Ending,
    MarkUnknown,
    Release,
    Retry,
    Transition,
)
from oncekey.store.store import Refused
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry.operation_event import tell
from oncekey.value import Value

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.engine.request import Request
    from oncekey.flow.commands import Result
    from oncekey.record.record import Record

# Companions and objects outlive their record, so that a valid record never refers to a missing one.
KEPT_LONGER_S = 24 * 3600
# The longest time that a durable execution lasts, and so waits.
_LONGEST_WAIT_MS = 366 * 86_400_000


class Recorder(Value, kw_only=True):
    """Ends one attempt. `record` is its record, with its lease."""

    request: Request
    record: Record
    clock: Clock
    budget: Budget

    async def end(self, result: Result, disposition: Disposition) -> Outcome:
        """Record `result` as `disposition` says, and return the outcome for the caller.

        When it returns, the end is recorded if the store allowed it. A failure of the store is not
        raised. If the end could not be written, the lease runs out. That has the same meaning for
        all others, only later.
        """
        if disposition is Disposition.COMPLETED and isinstance(result, Answered):
            return await self._complete(result)
        if disposition is Disposition.COMPLETED and isinstance(result, Unserialisable):
            await self._complete_without_answer()
            return Failed(result.error)
        if disposition is Disposition.NOT_EXECUTED:
            if isinstance(result, Raised) and isinstance(result.error, RefusedBelow):
                return await self._forget(result.error)
            refusal = await self.give_back(reason(result))
            if isinstance(result, Raised) and ends_all(result.error):
                # Errors that end or suspend the process or the task must be passed on.
                return Failed(result.error)
            return refusal
        if disposition is Disposition.RETRYABLE:
            resumes_at_ms = _resumes_at_ms(result, self.clock.now_ms())
            await self._release(reason(result), resumes_at_ms)
            self._warn_of_long_wait(resumes_at_ms)
        else:
            await self._mark_unknown(reason(result))
        if isinstance(result, Answered):
            return Ran(value=result.value, record=self.record, expires_at_s=None)
        return Failed(result.error)

    async def give_back(self, why: str) -> Refusal:
        """End an attempt that has done nothing except its steps on record. It may run again."""
        await self._release(why)
        return self._unfinished(self.record)

    def _unfinished(self, record: Record | None) -> Refusal:
        """The refusal for an attempt without an answer.

        It says that nothing was done only if no step or commit may have taken effect.
        """
        has_acted = self._may_have_acted or (record is not None and bool(record.steps.finished))
        reason = Reason.UNFINISHED if has_acted else Reason.NOT_EXECUTED
        return Refusal(reason=reason, record=record, retry_after_ms=RETRY_SOON_MS)

    @property
    def _may_have_acted(self) -> bool:
        """Whether a step or commit of this operation may have taken effect."""
        return bool(self.record.steps.finished)

    async def _complete(self, answered: Answered[Any]) -> Outcome:
        now_ms = self.clock.now_ms()
        stored, blob = place_answer(
            answered.stored,
            self.record,
            expires_at_s=self.request.expires_at_s(now_ms) + KEPT_LONGER_S,
            has_bucket=self.request.store_state.has_bucket,
        )
        try:
            if blob is not None:
                stored = await self._kept(stored, blob)
            if isinstance(stored, NotKept):
                telemetry.answer_not_kept(self.record, self.clock.now_ms(), stored.reason)
            transition = self._completion(stored)
            reply = await retry.write(transition, self._until_the_deadline(), self.clock)
        except StoreError as error:
            telemetry.answer_not_recorded(self.record, self.clock.now_ms(), error)
            return Ran(value=answered.value, record=self.record, expires_at_s=None)
        if isinstance(reply, Refused):
            return await self._answer_in_place_of(answered, reply.record)
        cache = self.request.options.cache
        if cache is not None:
            cache.remember(applied(transition, self.record), self.clock.now_ms())
        # If the answer is not stored, no expiry can be promised for it.
        is_done = isinstance(stored, NotKept)
        expires_at_s = None if is_done else transition.ending.expires_at_s
        return Ran(
            value=answered.value, record=self.record, expires_at_s=expires_at_s, is_done=is_done
        )

    async def _complete_without_answer(self) -> None:
        # The work is done. The record must not be released only because the answer is not storable.
        transition = self._completion(NotKept("answer-not-storable"))
        try:
            await retry.write(transition, self._until_the_deadline(), self.clock)
        except StoreError as error:
            telemetry.answer_not_recorded(self.record, self.clock.now_ms(), error)

    async def _kept(self, stored: StoredAnswer, blob: Blob) -> StoredAnswer:
        if blob.at.place is Place.OBJECT:
            return await self._kept_as_object(stored, blob)
        try:
            await retry.save(blob, self._until_the_deadline(), self.clock)
        except StoreError as error:
            if error.transient:
                # The table accepts no item now, so it would not accept the record either.
                raise
            return NotKept(f"it could not be kept: {error.reason}")
        return stored

    async def _kept_as_object(self, stored: StoredAnswer, blob: Blob) -> StoredAnswer:
        # The work is done, and the record can say so without the bucket. If the bucket is down, the
        # answer must still be given in time and the record be written.
        if self.clock.now_ms() + OBJECT_CALL_TIMEOUT_MS > self.budget.until_ms:
            return NotKept("no time was left to keep it")
        try:
            await retry.save(blob, self.budget.afresh(), self.clock)
        except StoreError as error:
            return NotKept(f"it could not be kept: {error.reason}")
        return stored

    def _completion(self, stored: StoredAnswer) -> Complete:
        now_ms = self.clock.now_ms()
        ending = Ending(
            response=stored,
            response_version=self.request.options.response_version,
            completed_at_ms=now_ms,
            expires_at_s=self.request.expires_at_s(now_ms),
        )
        return Complete(pk=self.record.pk, owner=self.record.owner, ending=ending)

    async def _answer_in_place_of(self, answered: Answered[Any], met: Record | None) -> Outcome:
        now_ms = self.clock.now_ms()
        if met is None or met.operation_id != self.record.operation_id:
            # The key now belongs to another operation, or to none. Its record is no answer to this
            # request.
            telemetry.ownership_lost(self.record, now_ms)
            return Ran(value=answered.value, record=self.record, expires_at_s=None)
        if met.status is Status.COMPLETED and met.owner == self.record.owner:
            # The write of this attempt was applied, and the store's answer was lost.
            kept = not isinstance(met.response, NotKept)
            expires_at_s = met.expires_at_s if kept else None
            return Ran(
                value=answered.value, record=met, expires_at_s=expires_at_s, is_done=not kept
            )
        telemetry.ownership_lost(self.record, now_ms)
        if met.status is Status.COMPLETED:
            return await replay(Replayed(met), self.budget, self.clock)
        if met.status in {Status.IN_PROGRESS, Status.PENDING}:
            return running(met, now_ms)
        return outcome_unknown(met, now_ms)

    async def _forget(self, refused: RefusedBelow) -> Refusal:
        """End an attempt that the protection below it refused.

        Its record expires at once, with two exceptions. What an attempt before it may have done is
        harmless to repeat only under the same operation id. And an accepted request was promised an
        end: its message stays, for a person.
        """
        now_ms = self.clock.now_ms()
        telemetry.refused(refused.reason, self.record, now_ms)
        if refused.reason is Reason.KEY_REUSED:
            tell(self.request.options.on_event, "key-reused", self.record)
        has_acted = self.record.attempt > 1 and self.record.effects is not Effects.UNRECORDED
        is_kept = has_acted or self.record.request_digest is not None
        expires_at_s = self.request.failure_expires_at_s(now_ms) if is_kept else now_ms // 1000
        retry_later = Retry(reason=refused.reason, expires_at_s=expires_at_s)
        release = Release(pk=self.record.pk, owner=self.record.owner, retry=retry_later)
        await self._write_if_possible(release, self._until_the_deadline())
        return Refusal(reason=refused.reason, detail=refused.detail)

    async def _release(self, why: str, resumes_at_ms: int = 0) -> None:
        telemetry.not_executed(self.record, self.clock.now_ms(), why)
        retry_later = self._retry(why, resumes_at_ms)
        release = Release(pk=self.record.pk, owner=self.record.owner, retry=retry_later)
        await self._write_if_possible(release, self._until_the_deadline())

    def _retry(self, why: str, resumes_at_ms: int = 0) -> Retry:
        now_ms = self.clock.now_ms()
        if not self._is_half_done:
            return Retry(reason=why, expires_at_s=self.request.failure_expires_at_s(now_ms))
        grace_ms = self.request.options.settings.reconcile_grace_ms
        due = self.request.due(max(now_ms, resumes_at_ms) + grace_ms)
        return Retry(reason=why, expires_at_s=None, due=due)

    def _warn_of_long_wait(self, resumes_at_ms: int) -> None:
        """Warn if the record expires before a durable execution resumes."""
        now_ms = self.clock.now_ms()
        expires_at_ms = self.request.failure_expires_at_s(now_ms) * 1000
        if not self._is_half_done and resumes_at_ms >= expires_at_ms:
            telemetry.forgotten_while_suspended(self.record, now_ms)

    @property
    def _is_half_done(self) -> bool:
        # A record with finished steps is evidence, and does not expire before it is completed.
        return bool(self.record.steps.finished)

    async def _mark_unknown(self, why: str, *, is_escalated: bool = False) -> None:
        now_ms = self.clock.now_ms()
        telemetry.outcome_unknown(self.record, now_ms, why)
        tell(self.request.options.on_event, "unknown", self.record)
        due = self.request.due_after_lease(self.record.lease_until_ms or now_ms)
        doubt = Doubt(reason=why, due=due, escalated_at_ms=now_ms if is_escalated else None)
        mark = MarkUnknown(pk=self.record.pk, owner=self.record.owner, doubt=doubt)
        await self._write_if_possible(mark, self.budget)

    async def _write_if_possible(self, transition: Transition, budget: Budget) -> None:
        try:
            await retry.write(transition, budget, self.clock)
        except StoreError as error:
            telemetry.ending_not_recorded(self.record, self.clock.now_ms(), error)

    def _until_the_deadline(self) -> Budget:
        return Budget(
            until_ms=self.budget.until_ms,
            call_timeout_ms=self.budget.call_timeout_ms,
            max_failures=None,
        )


def _resumes_at_ms(result: Result, now_ms: int) -> int:
    """When a durable execution of AWS resumes that `result` suspended; 0 if it does not say."""
    if not isinstance(result, Raised) or isinstance(result.error, Exception):
        return 0
    # An attribute of `TimedSuspendExecution`, which is no `Exception`. The layer does not import
    # AWS's SDK.
    at_s = vars(result.error).get("scheduled_timestamp")
    if not isinstance(at_s, int | float):
        return 0
    return int(at_s * 1000) if 0 < at_s <= (now_ms + _LONGEST_WAIT_MS) / 1000 else 0
