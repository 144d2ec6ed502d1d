"""The state that one sandbox keeps for a store, and for an operation in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oncekey.settings import STORE_TIMEOUT_MS
from oncekey.store.breaker import Breaker
from oncekey.value import Value, field, replace

if TYPE_CHECKING:
    from oncekey.engine.operation_options import OperationOptions
    from oncekey.quotas.memory import QuotaMemory
    from oncekey.store.store import Store


class Sandbox:
    """The state that all operations of a sandbox share if they use the same store.

    One call of the store takes at most `call_timeout_ms` milliseconds.
    """

    __slots__ = ("_quota_memory", "breaker", "call_timeout_ms", "has_bucket")

    def __init__(
        self, *, call_timeout_ms: int = STORE_TIMEOUT_MS, has_bucket: bool = False
    ) -> None:
        self.call_timeout_ms = call_timeout_ms
        self.has_bucket = has_bucket
        self.breaker = Breaker()
        self._quota_memory: QuotaMemory | None = None

    @property
    def quota_memory(self) -> QuotaMemory:
        """The memory of the tenants' quotas. It is made when it is first used: few have a quota."""
        if self._quota_memory is None:
            from oncekey.quotas.memory import QuotaMemory

            # Two threads may each make one at the same time. A few look-ups are then not counted.
            self._quota_memory = QuotaMemory()
        return self._quota_memory


_sandboxes: WeakKeyDictionary[object, Sandbox] = WeakKeyDictionary()


def sandbox_of(store: Store) -> Sandbox:
    """The state that this sandbox keeps for `store`."""
    known = _sandboxes.get(store)
    if known is None:
        known = _sandboxes.setdefault(
            store, Sandbox(call_timeout_ms=store.call_timeout_ms, has_bucket=store.has_bucket)
        )
    return known


class Deployed(Value):
    """An operation in its environment: the options, store and sandbox that its requests share."""

    options: OperationOptions
    store: Store
    sandbox: Sandbox = field(init=False, repr=False)
    # An accepted request was counted when it was accepted.
    options_of_workers: OperationOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find the sandbox's state for the store."""
        object.__setattr__(self, "sandbox", sandbox_of(self.store))
        uncounted = (
            self.options if self.options.quota is None else replace(self.options, quota=None)
        )
        object.__setattr__(self, "options_of_workers", uncounted)
