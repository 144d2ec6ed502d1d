"""Ends a recorded attempt that was stopped, or whose last commit was not confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.stop import Stop, StopReason
from oncekey.engine.recorder import Recorder
from oncekey.engine.replay import replay
from oncekey.engine.reservation import outcome_unknown, running
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Answered, Unserialisable
from oncekey.record.outcome import RETRY_SOON_MS, Failed, Outcome, Ran, Reason, Refusal, Replayed
from oncekey.record.record import Record, Status
from oncekey.record.stored_answer import NotKept
from oncekey.record.transitions import ClearStep, Release, Transition
from oncekey.store.store import Refused, Written
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from oncekey.effects.journal import Journal


class Interruption(Recorder, kw_only=True):
    """Ends an attempt without a confirmed end. `journal` says why it was stopped."""

    journal: Journal

    @property
    def _is_half_done(self) -> bool:
        # A checkpoint that was not confirmed may be on record. The order matters: a write that
        # another thread confirms meanwhile is on record by then.
        return not self.journal.is_certain or bool(self.journal.record.steps.finished)

    @property
    def _may_have_acted(self) -> bool:
        return self.journal.may_have_acted

    async def _stopped(self, stop: Stop) -> Outcome:
        telemetry.run_stopped(self.record, self.clock.now_ms(), str(stop))
        match stop.reason:
            case StopReason.LOST:
                return await self._lost(stop.met)
            case StopReason.NO_TIME:
                return await self._out_of_time()
            case StopReason.STORE:
                error = stop.error or StoreError("not confirmed", transient=True)
                return await self._unconfirmed(error, None)
            case StopReason.INTERRUPTED:
                return await self._unconfirmed(None, None)
            case StopReason.STEPS_CHANGED | StopReason.RESULT_LOST:
                await self._mark_unknown(str(stop), is_escalated=True)
                return outcome_unknown(self.record, self.clock.now_ms())

    async def _out_of_time(self) -> Outcome:
        # The lease is over but the process is alive. So the release may be sent late.
        reply = await self._released(is_late=True)
        if isinstance(reply, Refused):
            return await self._lost(reply.record)
        return self._unfinished(self.record)

    async def _unconfirmed(
        self, error: StoreError | None, result: Answered[Any] | Unserialisable | None
    ) -> Outcome:
        """End an attempt whose last write may or may not have been applied.

        A release finds out: it is refused if a completion was applied. `error` is the failure of
        the write; it is None if the attempt was interrupted.
        """
        reply = await self._released()
        if isinstance(reply, Refused):
            met = reply.record
            if result is not None and self._is_landed(met):
                return await self._refused(met, result)
            if met is None or not self._is_in_doubt(met):
                return await self._lost(met)
            await self._mark_unknown("step-not-confirmed")
            return outcome_unknown(met, self.clock.now_ms())
        if reply is None and self.journal.is_in_doubt:
            return outcome_unknown(self.record, self.clock.now_ms())
        if error is None:
            return self._unfinished(self.record)
        if error.contention is not None:
            # Others write the same items. That is not an outage of the store.
            telemetry.commit_contended(self.record, self.clock.now_ms(), error)
            return Refusal(reason=Reason.RUNNING, retry_after_ms=RETRY_SOON_MS)
        telemetry.store_unavailable(self.record.operation, error)
        return Refusal(
            reason=Reason.STORE_UNAVAILABLE,
            record=self.record,
            retry_after_ms=RETRY_SOON_MS,
            is_outage=error.is_outage,
        )

    async def _released(self, *, is_late: bool = False) -> Written | Refused | None:
        """The answer to a release; None if no time is left to send it, or if no answer came."""
        record = self.record
        release = Release(pk=record.pk, owner=record.owner, retry=self._retry("not-confirmed"))
        reply = await self._write_in_time(release, is_late=is_late)
        if not isinstance(reply, Refused) or reply.record is None:
            return reply
        if self._is_released(reply.record):
            return Written()
        if self.journal.is_in_doubt:
            return reply
        started = reply.record.steps.started
        if started is None or not self._is_in_doubt(reply.record):
            return reply
        # The step's mark was written, but this attempt knows that its function was not called.
        clear = ClearStep(pk=record.pk, owner=record.owner, step=started)
        await self._write_in_time(clear, is_late=is_late)
        return await self._write_in_time(release, is_late=is_late)

    def _is_released(self, met: Record) -> bool:
        # Our release was applied and its answer was lost, or somebody else wrote the same.
        return met.status is Status.FAILED_RETRYABLE and met.owner == self.record.owner

    async def _write_in_time(
        self, transition: Transition, *, is_late: bool
    ) -> Written | Refused | None:
        if not is_late and self.clock.now_ms() + self.budget.call_timeout_ms > self.budget.until_ms:
            return None
        try:
            return await retry.write(transition, self._until_the_deadline(), self.clock)
        except StoreError as failed:
            telemetry.ending_not_recorded(self.record, self.clock.now_ms(), failed)
            return None

    def _is_in_doubt(self, met: Record) -> bool:
        return (
            met.status is Status.IN_PROGRESS and met.owner == self.record.owner and met.is_in_doubt
        )

    async def _lost(self, met: Record | None) -> Outcome:
        """The outcome after this attempt has lost its record.

        Its writes can no longer be applied, because each of them names the owner.
        """
        now_ms = self.clock.now_ms()
        telemetry.ownership_lost(self.record, now_ms)
        if met is None or met.operation_id != self.record.operation_id:
            # The record is gone, and with it the evidence of what this attempt has done.
            reason = Reason.OUTCOME_UNKNOWN if self._may_have_acted else Reason.NOT_EXECUTED
            return Refusal(reason=reason, retry_after_ms=RETRY_SOON_MS)
        match met.status:
            case Status.COMPLETED:
                return await replay(Replayed(met), self.budget, self.clock)
            case Status.IN_PROGRESS:
                return running(met, now_ms)
            case Status.UNKNOWN:
                return outcome_unknown(met, now_ms)
            case Status.PENDING:
                # It was released with our owner and then accepted again.
                return running(met, now_ms)
            case Status.FAILED_RETRYABLE:
                # It was released with our owner or by a successor. Calls of this attempt may still
                # have taken effect.
                return self._unfinished(met)

    async def _refused(self, met: Record | None, result: Answered[Any] | Unserialisable) -> Outcome:
        if met is None or not self._is_landed(met):
            return await self._lost(met)
        if isinstance(result, Unserialisable):
            return Failed(result.error)
        is_done = isinstance(met.response, NotKept)
        expires_at_s = None if is_done else met.expires_at_s
        return Ran(value=result.value, record=met, expires_at_s=expires_at_s, is_done=is_done)

    def _is_landed(self, met: Record | None) -> bool:
        return met is not None and met.status is Status.COMPLETED and met.owner == self.record.owner
