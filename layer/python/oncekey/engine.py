"""The one flow: reserve the key, run the handler, record how it ended, answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey import commands, retry, telemetry
from oncekey.commands import Answered, Raised
from oncekey.errors import StoreError
from oncekey.fate import Fate, decide, is_proof, reason
from oncekey.operation import Operation
from oncekey.record import Status
from oncekey.reservation import (
    ANSWER_MARGIN_MS,
    Decision,
    Held,
    Reason,
    Refusal,
    Replayed,
    outcome_unknown,
    reserve,
    running,
)
from oncekey.retry import Budget
from oncekey.store import Refused
from oncekey.transitions import Complete, Doubt, Ending, MarkUnknown, Release, Retry, Transition

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.claim import Claim
    from oncekey.clock import Clock
    from oncekey.commands import Flow
    from oncekey.record import Record

# Before the handler has run the caller loses nothing by an early refusal: it simply sends the
# request again.
_MOST_RESERVE_ATTEMPTS = 3
# An item holds 400 KB, names and the rest of the record included.
MAX_STORED_BYTES = 380_000
_RETRY_AFTER_STORE_MS = 1_000
_RETRY_AFTER_NOT_EXECUTED_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The handler ran and this is its answer.

    `expires_at_s` is None where the answer could not be recorded.
    """

    value: Any
    expires_at_s: int | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler ran and raised; the exception belongs to its caller."""

    error: BaseException


Outcome = Replayed | Refusal | Ran | Failed


def attempt(
    claim: Claim,
    clock: Clock,
    *,
    call_timeout_ms: int,
    is_not_executed: Callable[[BaseException], bool],
) -> Flow[Outcome]:
    """Carry out one request. The handler runs at most once, and only under a lease that is durable.

    Never raises for the store's sake: a store that fails before the handler ran is a `Refusal`, and
    one that fails afterwards costs the record, not the answer.
    """
    if claim.deadline_ms <= clock.now_ms():
        return Refusal(reason=Reason.NOT_EXECUTED, retry_after_ms=_RETRY_AFTER_NOT_EXECUTED_MS)
    budget = Budget(
        until_ms=claim.deadline_ms - ANSWER_MARGIN_MS,
        call_timeout_ms=call_timeout_ms,
        max_attempts=_MOST_RESERVE_ATTEMPTS,
    )
    try:
        decision = yield from reserve(claim, clock.new_owner(), budget, clock)
    except StoreError as error:
        telemetry.store_unavailable(claim.identity.operation, error)
        return Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=_RETRY_AFTER_STORE_MS)
    if not isinstance(decision, Held):
        _tell(decision, clock)
        return decision
    telemetry.reserved(decision.record, clock.now_ms())
    result = yield from commands.invoke(_operation(decision.record))
    recorder = _Recorder(claim=claim, record=decision.record, clock=clock, budget=budget)
    return (
        yield from recorder.end(
            result, decide(result, claim.effects, is_not_executed), is_not_executed
        )
    )


def _operation(record: Record) -> Operation:
    return Operation(
        name=record.operation,
        operation_id=record.operation_id,
        attempt=record.attempt,
        tenant=record.tenant,
        principal=record.principal,
    )


def _tell(decision: Decision, clock: Clock) -> None:
    if isinstance(decision, Replayed):
        telemetry.replayed(decision.record, clock.now_ms())
    elif isinstance(decision, Refusal) and decision.record is not None:
        telemetry.refused(decision.reason, decision.record, clock.now_ms())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorder:
    """Records how an attempt ended, and finds the answer that its caller gets."""

    claim: Claim
    record: Record
    clock: Clock
    budget: Budget

    def end(
        self,
        result: Answered[Any] | Raised,
        fate: Fate,
        is_not_executed: Callable[[BaseException], bool],
    ) -> Flow[Outcome]:
        if fate is Fate.COMPLETED and isinstance(result, Answered):
            return (yield from self._complete(result))
        if fate is Fate.RETRYABLE:
            yield from self._release(reason(result))
        else:
            yield from self._mark_unknown(reason(result))
        if isinstance(result, Answered):
            return Ran(value=result.value, expires_at_s=None)
        if is_proof(result.error, is_not_executed):
            record, retry_after_ms = self.record, _RETRY_AFTER_NOT_EXECUTED_MS
            return Refusal(reason=Reason.NOT_EXECUTED, record=record, retry_after_ms=retry_after_ms)
        return Failed(result.error)

    def _complete(self, answered: Answered[Any]) -> Flow[Outcome]:
        if len(answered.stored.encode("utf-8", "surrogatepass")) > MAX_STORED_BYTES:
            # The work is done: its record must never be released because the answer does not fit.
            yield from self._mark_unknown("answer-too-large")
            return Ran(value=answered.value, expires_at_s=None)
        now_ms = self.clock.now_ms()
        expires_at_s = self.claim.expires_at_s(now_ms)
        ending = Ending(response=answered.stored, completed_at_ms=now_ms, expires_at_s=expires_at_s)
        transition = Complete(pk=self.record.pk, owner=self.record.owner, ending=ending)
        try:
            reply = yield from retry.write(transition, self._until_the_deadline(), self.clock)
        except StoreError as error:
            telemetry.answer_not_recorded(self.record, self.clock.now_ms(), error)
            return Ran(value=answered.value, expires_at_s=None)
        if isinstance(reply, Refused):
            return self._answer_in_place_of(answered, reply.record)
        return Ran(value=answered.value, expires_at_s=expires_at_s)

    def _answer_in_place_of(self, answered: Answered[Any], met: Record | None) -> Outcome:
        now_ms = self.clock.now_ms()
        if met is None or met.operation_id != self.record.operation_id:
            # Another operation lives under the key by now, or none: what it says is no answer to
            # this request.
            telemetry.ownership_lost(self.record, now_ms)
            return Ran(value=answered.value, expires_at_s=None)
        if met.status is Status.COMPLETED and met.owner == self.record.owner:
            return Ran(
                value=answered.value, expires_at_s=met.expires_at_s
            )  # ours: it landed and its answer was lost
        telemetry.ownership_lost(self.record, now_ms)
        if met.status is Status.COMPLETED:
            return Replayed(met)
        return (
            running(met, now_ms)
            if met.status is Status.IN_PROGRESS
            else outcome_unknown(met, now_ms)
        )

    def _release(self, why: str) -> Flow[None]:
        telemetry.not_executed(self.record, self.clock.now_ms(), why)
        expiry = Retry(reason=why, expires_at_s=self.claim.expires_at_s(self.clock.now_ms()))
        release = Release(pk=self.record.pk, owner=self.record.owner, retry=expiry)
        yield from self._write_if_possible(release, self._until_the_deadline())

    def _mark_unknown(self, why: str) -> Flow[None]:
        telemetry.outcome_unknown(self.record, self.clock.now_ms(), why)
        lease_until_ms = self.record.lease_until_ms or self.clock.now_ms()
        doubt = Doubt(reason=why, due=self.claim.due_after_lease(lease_until_ms))
        yield from self._write_if_possible(
            MarkUnknown(pk=self.record.pk, owner=self.record.owner, doubt=doubt), self.budget
        )

    def _write_if_possible(self, transition: Transition, budget: Budget) -> Flow[None]:
        # Where it is not, the lease runs out, which means the same to everybody, only later.
        try:
            yield from retry.write(transition, budget, self.clock)
        except StoreError as error:
            telemetry.answer_not_recorded(self.record, self.clock.now_ms(), error)

    def _until_the_deadline(self) -> Budget:
        return Budget(
            until_ms=self.budget.until_ms,
            call_timeout_ms=self.budget.call_timeout_ms,
            max_attempts=None,
        )
