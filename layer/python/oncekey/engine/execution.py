"""Carrying out a claim against a store: behind the breaker, in this thread or on an event loop."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from oncekey.effects import proofs
from oncekey.effects.binding import bind_effects
from oncekey.engine.engine import attempt
from oncekey.engine.reservation import reserve
from oncekey.flow.commands import Raised
from oncekey.flow.driver import drive
from oncekey.flow.driver_async import drive_async
from oncekey.quotas.memory import memory_of
from oncekey.record.outcome import Outcome, Reason, Refusal
from oncekey.store.breaker import breaker_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.effects.proofs import Attempting
    from oncekey.engine.claim import Claim
    from oncekey.engine.engine import Reserving
    from oncekey.flow.commands import Flow, Invoke, Result
    from oncekey.store.store import Store

# When the invocation ends that is being carried out: what is called below it has no more time.
enclosing_deadline_ms: ContextVar[int | None] = ContextVar("oncekey_deadline_ms", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """Where records are, the clock they are judged by, and what proves that nothing happened.

    `result_of`: see `oncekey.engine.engine.attempt`.
    """

    store: Store
    clock: Clock
    is_not_executed: Callable[[BaseException], bool] = field(repr=False)
    result_of: Callable[[BaseException], Result] = field(default=Raised, repr=False)

    def run(
        self,
        claim: Claim,
        invocation: Callable[[Operation], Result],
        reserving: Reserving = reserve,
    ) -> Outcome:
        """Carry out `claim`; see `oncekey.engine.engine.attempt`."""
        refusal = self._refused_by_breaker()
        if refusal is not None:
            return refusal
        token = enclosing_deadline_ms.set(claim.deadline_ms)
        mine, around = proofs.begin()
        try:
            flow = self._flow(claim, reserving, mine)
            outcome = drive(
                flow,
                store=self.store,
                clock=self.clock,
                invocation=lambda command: invocation(self._operation(command)),
            )
        finally:
            proofs.end(mine, around)
            enclosing_deadline_ms.reset(token)
        return self._counted(outcome)

    async def run_async(
        self,
        claim: Claim,
        invocation: Callable[[Operation], Awaitable[Result]],
        reserving: Reserving = reserve,
    ) -> Outcome:
        """Carry out `claim`; calls of the store leave the event loop free."""
        refusal = self._refused_by_breaker()
        if refusal is not None:
            return refusal
        token = enclosing_deadline_ms.set(claim.deadline_ms)
        mine, around = proofs.begin()
        try:
            flow = self._flow(claim, reserving, mine)
            outcome = await drive_async(
                flow,
                store=self.store,
                clock=self.clock,
                invocation=lambda command: invocation(self._operation(command)),
            )
        finally:
            proofs.end(mine, around)
            enclosing_deadline_ms.reset(token)
        return self._counted(outcome)

    def _flow(self, claim: Claim, reserving: Reserving, mine: Attempting) -> Flow[Outcome]:
        if claim.quota is not None:
            claim = replace(claim, quota_memory=memory_of(self.store))
        return attempt(
            claim,
            self.clock,
            call_timeout_ms=self.store.call_timeout_ms,
            is_not_executed=self.is_not_executed,
            is_spent=mine.is_spent,
            has_bucket=self.store.has_bucket,
            reserving=reserving,
            result_of=self.result_of,
        )

    def _operation(self, command: Invoke) -> Operation:
        operation: Operation = command.operation
        if command.journal is None:
            return operation
        return bind_effects(operation, command.journal, lambda: self.store, self.clock)

    def _refused_by_breaker(self) -> Refusal | None:
        refused_for_ms = breaker_of(self.store).refuses_for_ms(self.clock.now_ms())
        if not refused_for_ms:
            return None
        return Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=refused_for_ms)

    def _counted(self, outcome: Outcome) -> Outcome:
        breaker = breaker_of(self.store)
        if isinstance(outcome, Refusal) and outcome.is_outage:
            breaker.failed(self.clock.now_ms())
        else:
            breaker.succeeded()
        return outcome
