"""Whether new work is paused: what a sandbox knows of the pauses, and when it looks again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.flow import retry
from oncekey.record.outcome import RETRY_AFTER_PAUSED_MS, Reason, Refusal
from oncekey.record.pause import pause_of
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.engine.request import Request
    from oncekey.engine.store_state import StoreState
    from oncekey.flow.commands import Flow
    from oncekey.flow.retry import Budget
    from oncekey.record.pause import Pause
    from oncekey.record.record import Record
    from oncekey.settings import Settings


class PauseMemory:
    """The pauses as this sandbox last read them. Threads may share it."""

    def __init__(self) -> None:
        self._known: tuple[tuple[Pause, ...], int] | None = None

    def learn(self, pauses: tuple[Pause, ...], read_at_ms: int) -> None:
        """`pauses` were read by a call that began at `read_at_ms`."""
        self._known = (pauses, read_at_ms)

    def pauses(self, now_ms: int, believed_ms: int) -> tuple[Pause, ...] | None:
        """The pauses, if they were read less than `believed_ms` ago; otherwise None."""
        if self._known is None:
            return None
        pauses, read_at_ms = self._known
        # A clock that was set back must not prolong the belief.
        return pauses if 0 <= now_ms - read_at_ms < believed_ms else None


def paused(request: Request, budget: Budget, clock: Clock) -> Flow[Pause | None]:
    """The pause that stops the new work of `request`, or None. See `paused_for`."""
    identity, settings = request.identity, request.options.settings
    return paused_for(
        identity.operation, identity.tenant, settings, request.store_state, budget, clock
    )


async def paused_for(
    operation: str,
    tenant: str,
    settings: Settings,
    store_state: StoreState,
    budget: Budget,
    clock: Clock,
) -> Pause | None:
    """The pause that stops new work of this operation for this tenant, or None.

    It asks the store at most once in `settings.pause_check_s`.

    Raises:
        StoreError: the store did not answer within `budget`.
    """
    now_ms, memory = clock.now_ms(), store_state.pause_memory
    pauses = memory.pauses(now_ms, 1000 * settings.pause_check_s)
    if pauses is None:
        pauses = await retry.read_pauses(budget, clock)
        memory.learn(pauses, now_ms)
    return pause_of(pauses, operation, tenant)


def refusal_of(pause: Pause, operation: str, record: Record | None = None) -> Refusal:
    """The refusal of new work that `pause` stops. `record` is the one that has its key, if any."""
    telemetry.paused(operation, pause.scope)
    return Refusal(
        reason=Reason.PAUSED,
        record=record,
        retry_after_ms=RETRY_AFTER_PAUSED_MS,
        detail=f"New work is paused: {pause.reason}",
    )
