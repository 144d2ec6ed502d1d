"""Puts a test's store and clock in the place of all others."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from oncekey import environment
from oncekey.options import clock_faults, store_faults
from oncekey.store import in_use
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.clock import Clock
    from oncekey.store.store import Store

S = TypeVar("S", bound="Store")


class _Use(Value):
    store: Store
    clock: Clock | None


_uses: list[_Use] = []
_changing = threading.Lock()


@contextmanager
def use_store(store: S, *, clock: Clock | None = None) -> Iterator[S]:
    """Within the block, everything that oncekey protects keeps its records in `store`.

        with use_store(MemoryStore()) as store:
            first = handler(event, context)
            assert handler(event, context)["body"] == first["body"]

    It holds for handlers, functions, webhooks, routes, jobs, `settle`, the reconciler and the
    status of operations, whenever they were decorated, and also if they have a `store=` or `clock=`
    of their own. So production code is tested as it is. Neither a table nor ONCEKEY_TABLE is
    needed, and ONCEKEY_DISABLED does not count.

    It holds for the whole process, with all its threads and tasks. A use within another one
    replaces it until its own end. Without a `clock`, the clock of the outer use stays, or that of
    each handler.

    Raises:
        TypeError: `store` is no store, or `clock` is no clock.
        RuntimeError: at the end, if another use began meanwhile and goes on. Tests that replace the
            store run one after the other.
    """
    given: object = store
    faults = ["store is None"] if given is None else store_faults(store)
    faults = [*faults, *clock_faults(clock)]
    if faults:
        raise TypeError(f"use_store: {'; '.join(faults)}")
    use = _Use(store, clock)
    with _changing:
        _uses.append(use)
        _apply()
    try:
        yield store
    finally:
        with _changing:
            is_last = _uses[-1] is use
            _uses[:] = [each for each in _uses if each is not use]
            _apply()
    if not is_last:
        raise RuntimeError(
            "oncekey: two uses of use_store overlapped, and it replaces the store of the whole"
            " process: run such tests one after the other"
        )


def _apply() -> None:
    in_use.store = _uses[-1].store if _uses else None
    clocks = [use.clock for use in _uses if use.clock is not None]
    in_use.clock = clocks[-1] if clocks else None
    # Operations keep their store for as long as the environment is the same object.
    environment.renew()
