"""What one sandbox knows of a store, and of an operation in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oncekey.settings import STORE_TIMEOUT_MS
from oncekey.store.breaker import Breaker
from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.engine.operation_options import OperationOptions
    from oncekey.quotas.memory import QuotaMemory
    from oncekey.store.store import Store


class Sandbox:
    """All operations of a sandbox that use one store share this object.

    `call_timeout_ms` is the longest that one call of the store takes.
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
        """What is remembered of the tenants' quotas. Few operations have one."""
        if self._quota_memory is None:
            from oncekey.quotas.memory import QuotaMemory

            # Two threads that come first may each make one, and a few look-ups are not counted.
            self._quota_memory = QuotaMemory()
        return self._quota_memory


_sandboxes: WeakKeyDictionary[object, Sandbox] = WeakKeyDictionary()


def sandbox_of(store: Store) -> Sandbox:
    """What this sandbox knows of `store`."""
    known = _sandboxes.get(store)
    if known is None:
        known = _sandboxes.setdefault(
            store, Sandbox(call_timeout_ms=store.call_timeout_ms, has_bucket=store.has_bucket)
        )
    return known


class Deployed(Value):
    """An operation in its environment: what its requests need beside themselves."""

    options: OperationOptions
    store: Store
    sandbox: Sandbox = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find what this sandbox knows of the store."""
        object.__setattr__(self, "sandbox", sandbox_of(self.store))
