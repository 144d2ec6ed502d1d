"""What one sandbox knows of a store, and of an operation in its environment."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from oncekey.quotas.memory import QuotaMemory
from oncekey.settings import STORE_TIMEOUT_MS
from oncekey.store.breaker import Breaker
from oncekey.value import Value, field

if TYPE_CHECKING:
    from oncekey.engine.operation_options import OperationOptions
    from oncekey.store.store import Store


class Sandbox(Value, kw_only=True):
    """All operations of a sandbox that use one store share this object.

    `call_timeout_ms` is the longest that one call of the store takes.
    """

    call_timeout_ms: int = STORE_TIMEOUT_MS
    has_bucket: bool = False
    breaker: Breaker = field(default_factory=Breaker)
    quota_memory: QuotaMemory = field(default_factory=QuotaMemory)


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
