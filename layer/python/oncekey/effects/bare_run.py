"""The run of a recorded handler outside any record: everything works, and nothing is remembered.

That is a request that needs no key, or ONCEKEY_DISABLED. What it collects is still applied in one
transaction: a handler that answers 201 has written what it says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey.effects.raised import leaves
from oncekey.effects.run_order import RunOrder
from oncekey.effects.transaction import Collected
from oncekey.effects.usage_guard import UsageGuard
from oncekey.errors import NotExecuted, StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Pause, Transact
from oncekey.flow.retry import Budget
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable, claimed, error_of, token
from oncekey.record.steps import NO_STEPS

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.effects.step_results import Found
    from oncekey.store.store import Refused, Written

_MOST_FAILURES = 3


@dataclass(slots=True, kw_only=True)
class BareRun:
    """One run; see `oncekey.effects.journal.Journal` for what its flows are for."""

    operation_id: str
    clock: Clock
    until_ms: int
    call_timeout_ms: int
    collected: Collected = field(default_factory=Collected)
    use: UsageGuard = field(default_factory=UsageGuard)
    order: RunOrder = field(default_factory=RunOrder)
    commits_passed: int = 0
    # How many steps and commits of this run may have taken effect.
    acts: int = 0

    async def begin(self, name: str, *, is_idempotent: bool) -> Found | None:  # noqa: ARG002 -- nothing is marked
        """The step may run."""
        await ()
        self.order.reach(name, NO_STEPS, is_commit=False)
        self.acts += 1
        return None

    async def finish(self, name: str, text: str | None, *, is_final: bool = False) -> None:  # noqa: ARG002 -- nothing is recorded
        """The step is done, and its name used up."""
        await ()
        self.order.finish(name)

    async def fail(self, name: str, error: BaseException) -> None:  # noqa: ARG002 -- as above
        """The step may be tried again."""
        await ()
        if all(isinstance(each, NotExecuted) for each in leaves(error)):
            self.acts -= 1

    async def take_back(self, name: str) -> None:  # noqa: ARG002 -- as above
        """The step was not called."""
        await ()

    async def commit(self, name: str) -> None:
        """Apply what is collected."""
        self.order.reach(name, NO_STEPS, is_commit=True)
        await self.apply()
        self.order.finish(name)

    async def apply(self) -> None:
        """Apply what is collected, in one transaction.

        Raises:
            ConditionFailed, Final: a condition did not hold; nothing was applied.
            TransactionInvalid: DynamoDB refuses it.
            StoreError: it may or may not have been applied.
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
        # Sent again only where it was certainly not applied: no record is here to say so later, and
        # DynamoDB's token is not to be relied on alone.
        while True:
            try:
                return await Transact(whole)
            except StoreError as error:
                budget.failures += 1
                delay_ms = retry.delay_ms(budget.failures, self.clock.random_fraction())
                if not error.contention or not budget.allows(self.clock.now_ms() + delay_ms):
                    raise
            await Pause(delay_ms)
