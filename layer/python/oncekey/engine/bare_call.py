"""A call that no record protects, with an operation object that works all the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.effects.bare_run import BareRun
from oncekey.effects.binding import bind_effects, never_async
from oncekey.engine.claim import remaining_ms
from oncekey.flow.driver import drive
from oncekey.flow.driver_async import drive_async
from oncekey.record.record import Effects
from oncekey.settings import DEFAULT_LEASE_MS, STORE_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class BareCall:
    """One call; the store is asked for only if there is something to be applied."""

    operation: Operation
    effects: Effects
    clock: Clock
    store: Callable[[], Store]

    def begin(self, context: Any) -> tuple[Operation, BareRun]:
        """The operation to be handed out, and its run."""
        left_ms = remaining_ms(context)
        run = BareRun(
            operation_id=self.operation.operation_id,
            clock=self.clock,
            until_ms=self.clock.now_ms() + (DEFAULT_LEASE_MS if left_ms is None else left_ms),
            call_timeout_ms=STORE_TIMEOUT_MS,
        )
        if self.effects is not Effects.RECORDED:
            return self.operation, run
        return bind_effects(self.operation, run, self.store, self.clock), run

    def apply(self, run: BareRun) -> None:
        """Apply what the run has collected; see `BareRun.apply` for what it raises."""
        run.use.is_over = True
        if run.collected:
            drive(run.apply(), store=self.store(), clock=self.clock)

    async def apply_async(self, run: BareRun) -> None:
        """The same; the event loop is free while the store is called."""
        run.use.is_over = True
        if run.collected:
            await drive_async(
                run.apply(),
                store=self.store(),
                clock=self.clock,
                invocation=never_async,
                has_begun=True,
            )
