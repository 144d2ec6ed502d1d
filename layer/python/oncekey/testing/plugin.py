"""Fixtures for pytest. The plugin registers itself when oncekey is installed.

It loads nothing but pytest. A fixture loads what it needs when a test asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.clock import Clock
    from oncekey.store.store import Store
    from oncekey.testing import ManualClock, MemoryStore
    from oncekey.testing.moto_tables import Tables

S = TypeVar("S", bound="Store")


class UseStore(Protocol):
    """The type of the fixture `use_store`."""

    @overload
    def __call__(self, *, clock: Clock | None = None) -> MemoryStore: ...
    @overload
    def __call__(self, store: S, *, clock: Clock | None = None) -> S: ...


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until the test moves it: `clock.advance(60_000)`, milliseconds.

    The fixtures `use_store` and `dynamodb_tables` put it in the place of all others, if the test
    asks for it too.
    """
    from oncekey.testing.memory import ManualClock

    return ManualClock()


@pytest.fixture
def use_store(request: pytest.FixtureRequest) -> Iterator[UseStore]:
    """Puts a store in the place of all others until the end of the test, and returns it.

    `store = use_store()` is a new `MemoryStore`; `use_store(store)` is one of your own. It holds
    for all that oncekey protects, whenever it was decorated; see `oncekey.testing.use_store`. If
    the test asks for `clock` too, that clock is in use.
    """
    from contextlib import ExitStack

    from oncekey.testing.memory import MemoryStore
    from oncekey.testing.replacement import use_store as used

    given = _clock(request)
    with ExitStack() as stack:

        def put(store: Any = None, *, clock: Clock | None = None) -> Any:
            chosen = MemoryStore() if store is None else store
            return stack.enter_context(used(chosen, clock=clock or given))

        yield put


@pytest.fixture
def dynamodb_tables(request: pytest.FixtureRequest) -> Iterator[Tables]:
    """New tables on moto, which are in use until the end of the test.

    `dynamodb_tables.client` is boto3's client, and `dynamodb_tables.records` the name of the table
    of records; see `oncekey.testing.dynamodb_tables`. If the test asks for `clock` too, that clock
    is in use. It needs the extra `oncekey[testing]`.
    """
    from oncekey.testing.moto_tables import dynamodb_tables as made

    with made(clock=_clock(request)) as tables:
        yield tables


def _clock(request: pytest.FixtureRequest) -> Clock | None:
    """The fixture `clock`, if the test asks for it and it has `now_ms`, as a clock has."""
    from oncekey.options import clock_faults

    if "clock" not in request.fixturenames:
        return None
    value: object = request.getfixturevalue("clock")
    return None if clock_faults(value) else cast("Clock", value)
