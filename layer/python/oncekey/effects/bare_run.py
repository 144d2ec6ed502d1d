"""Runs a handler without a record: for a request that needs no key, or with ONCEKEY_DISABLED.

Steps, transaction and outbox work, but no record remembers them. The collected writes and messages
of a recorded handler are applied in one transaction at its end. So a handler that answers 201 has
written its data. With ONCEKEY_DISABLED, outside Lambda, they are checked and dropped
(`oncekey.store.disabled`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import Disposition, decide, is_proof, never_spent
from oncekey.effects.raised import RefusedBelow
from oncekey.effects.run_order import RunOrder
from oncekey.effects.running import RunningAttempt, run_handler
from oncekey.effects.transaction import Collected
from oncekey.effects.usage_guard import UsageGuard
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Answered, Invoke, Pause, Raised, Transact
from oncekey.flow.retry import Budget
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of, token
from oncekey.record.outcome import RETRY_SOON_MS, Failed, Outcome, Reason, Refusal, Unrecorded
from oncekey.record.record import Effects
from oncekey.record.steps import NO_STEPS
from oncekey.settings import STORE_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.effects.step_results import Found
    from oncekey.flow.commands import Result
    from oncekey.store.store import Refused, Written

_MOST_FAILURES = 3


@dataclass(slots=True, kw_only=True)
class BareRun:
    """The journal and the recorder of a run without a record.

    Its flows have the same purpose as those of `oncekey.effects.journal.Journal`. `raised` makes a
    result of an exception, as for `Invoke`.
    """

    operation_id: str
    clock: Clock
    until_ms: int
    call_timeout_ms: int
    raised: Callable[[BaseException], Result] = field(default=Raised, repr=False)
    is_spent: Callable[[BaseException], bool] = field(default=never_spent, repr=False)
    collected: Collected = field(default_factory=Collected)
    use: UsageGuard = field(default_factory=UsageGuard)
    order: RunOrder = field(default_factory=RunOrder)
    commits_passed: int = 0
    # How many steps and commits of this run may have taken effect.
    acts: int = 0
    # No record remembers a step, so none is in doubt.
    is_in_doubt: bool = False

    async def begin(self, name: str, *, is_idempotent: bool) -> Found | None:  # noqa: ARG002 -- nothing is marked
        """Begin a step, which may run. Nothing is recorded."""
        self.order.reach(name, NO_STEPS, is_commit=False)
        self.acts += 1
        return None

    async def finish(self, name: str, text: str | None, *, is_final: bool = False) -> None:  # noqa: ARG002 -- nothing is recorded
        """The step is done, and its name may not be used again."""
        self.order.finish(name)

    async def fail(self, name: str, error: BaseException) -> None:  # noqa: ARG002 -- as above
        """Note that the step raised `error`. The step may be tried again."""
        if is_proof(Raised(error), _only_not_executed, self.is_spent):
            self.acts -= 1

    async def take_back(self, name: str) -> None:
        """Do nothing: no mark has to be removed."""

    async def commit(self, name: str) -> None:
        """Apply the collected writes and messages."""
        self.order.reach(name, NO_STEPS, is_commit=True)
        await self.apply()
        self.order.finish(name)

    def close(self) -> None:
        """The handler has ended. Its operation object must not be used any more."""
        self.use.is_over = True

    async def end(self, result: Result, disposition: Disposition) -> Outcome:
        """Apply the collected writes and messages if `result` says so, and return the outcome.

        The outcome says that nothing was done only if no step or commit may have taken effect.
        """
        if isinstance(result, Raised):
            if disposition is not Disposition.NOT_EXECUTED or self.acts:
                return Failed(result.error)
            if isinstance(result.error, RefusedBelow):
                return Refusal(reason=result.error.reason, detail=result.error.detail)
            return Refusal(reason=Reason.NOT_EXECUTED, retry_after_ms=RETRY_SOON_MS)
        if result.commits:
            try:
                await self.apply()
            except Exception as error:  # noqa: BLE001 -- the error becomes the outcome
                result = self.raised(error)
        if isinstance(result, Answered):
            return Unrecorded(result.value, is_final=result.is_final)
        return Failed(result.error)

    async def apply(self) -> None:
        """Apply the collected writes and messages in one transaction.

        Raises:
            ConditionFailed, Final: a condition did not hold. Nothing was applied.
            TransactionInvalid: DynamoDB refuses the transaction. Nothing was applied.
            StoreError: the transaction may or may not have been applied.
        """
        taken = self.collected.take()
        if not taken:
            return
        whole = Commit(
            transition=None,
            token=token(self.operation_id, "bare", self.commits_passed),
            writes=tuple(taken.writes),
            messages=tuple(taken.messages),
        )
        self.commits_passed += 1
        self.acts += 1
        budget = Budget(
            until_ms=self.until_ms,
            call_timeout_ms=self.call_timeout_ms,
            max_failures=_MOST_FAILURES,
        )
        for blob in claimed(taken.messages):
            await retry.save(blob, budget, self.clock)
        reply = await self._sent(whole, budget)
        if isinstance(reply, ConditionsFailed | Inapplicable):
            raise error_of(whole, reply)

    async def _sent(
        self, whole: Commit, budget: Budget
    ) -> Written | Refused | ConditionsFailed | Inapplicable:
        # It is sent again only if it was certainly not applied. No record can tell this later, and
        # DynamoDB's client token alone is not reliable enough.
        while True:
            try:
                return await Transact(whole)
            except StoreError as error:
                budget.failures += 1
                delay_ms = retry.delay_ms(budget.failures, self.clock.random_fraction())
                if not error.contention or not budget.allows(self.clock.now_ms() + delay_ms):
                    raise
            await Pause(delay_ms)


def _only_not_executed(_error: BaseException) -> bool:
    return False


async def run_bare(
    operation: Operation,
    effects: Effects,
    until_ms: int,
    clock: Clock,
    *,
    returned: Callable[[Any, Operation], Result],
    raised: Callable[[BaseException], Result],
    is_not_executed: Callable[[BaseException], bool],
) -> Outcome:
    """Run the handler of `operation` without a record. Its invocation ends at `until_ms`.

    The store is not used, unless the handler has collected writes or messages.
    """
    running = RunningAttempt(operation, until_ms)
    bare = BareRun(
        operation_id=operation.operation_id,
        clock=clock,
        until_ms=until_ms,
        call_timeout_ms=STORE_TIMEOUT_MS,
        raised=raised,
        is_spent=running.is_spent,
    )
    journal = bare if effects is Effects.RECORDED else None
    invoke = Invoke(operation, journal, running, returned, raised)
    result = await run_handler(invoke)
    disposition = decide(result, effects, is_not_executed, is_spent=running.is_spent)
    return await bare.end(result, disposition)
