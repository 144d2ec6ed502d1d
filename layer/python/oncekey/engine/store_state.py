"""What one sandbox keeps for a store, and for an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oncekey.settings import STORE_TIMEOUT_MS
from oncekey.store.breaker import Breaker
from oncekey.telemetry import watching
from oncekey.value import Value, field, replace

if TYPE_CHECKING:
    from oncekey.engine.operation_options import OperationOptions
    from oncekey.engine.pausing import PauseMemory
    from oncekey.quotas.memory import QuotaMemory
    from oncekey.store.store import Store


class StoreState:
    """The state that all operations of a sandbox share if they use the same store.

    One call of the store takes at most `call_timeout_ms` milliseconds.
    """

    __slots__ = ("_pause_memory", "_quota_memory", "breaker", "call_timeout_ms", "has_bucket")

    def __init__(
        self, *, call_timeout_ms: int = STORE_TIMEOUT_MS, has_bucket: bool = False
    ) -> None:
        self.call_timeout_ms = call_timeout_ms
        self.has_bucket = has_bucket
        self.breaker = Breaker()
        self._quota_memory: QuotaMemory | None = None
        self._pause_memory: PauseMemory | None = None

    @property
    def quota_memory(self) -> QuotaMemory:
        """The memory of the tenants' quotas. It is made when it is first used: few have a quota."""
        if self._quota_memory is None:
            from oncekey.quotas.memory import QuotaMemory

            # Two threads may each make one at the same time. A few look-ups are then not counted.
            self._quota_memory = QuotaMemory()
        return self._quota_memory

    @property
    def pause_memory(self) -> PauseMemory:
        """What this sandbox knows of the pauses. It is made when it is first used."""
        if self._pause_memory is None:
            from oncekey.engine.pausing import PauseMemory

            # Two threads may each make one at the same time. The pauses are then read once more.
            self._pause_memory = PauseMemory()
        return self._pause_memory


_states: WeakKeyDictionary[object, StoreState] = WeakKeyDictionary()


def state_of(store: Store) -> StoreState:
    """The state that this sandbox keeps for `store`."""
    known = _states.get(store)
    if known is None:
        known = _states.setdefault(
            store, StoreState(call_timeout_ms=store.call_timeout_ms, has_bucket=store.has_bucket)
        )
    return known


class OperationContext(Value):
    """What the requests of one operation share: its options, its store and the store's state."""

    options: OperationOptions
    store: Store
    store_state: StoreState = field(init=False, repr=False)
    # An accepted request was counted when it was accepted.
    options_of_workers: OperationOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the state of the store, and what watches its operations."""
        watching.look_again()
        object.__setattr__(self, "store_state", state_of(self.store))
        uncounted = (
            self.options if self.options.quota is None else replace(self.options, quota=None)
        )
        object.__setattr__(self, "options_of_workers", uncounted)
