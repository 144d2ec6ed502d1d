"""Crash points: processes that are killed before or after a call of the store, by its name."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from oncekey import Operation, StoreError, idempotent
from oncekey.record.transitions import Transition
from oncekey.testing import CrashingStore, Killed, MemoryStore, use_store
from oncekey.testing.crash_points import CALLS
from tests.support.mistaken_handlers import TENANT, Provider, charged, created, order_event


class Orders:
    """A handler with one step, and a store that can kill it."""

    def __init__(self) -> None:
        self.provider = Provider()
        self.memory = MemoryStore()
        self.store = CrashingStore(self.memory)

        @idempotent(operation="POST /orders", tenant=TENANT, effects="recorded")
        def handler(_event: dict[str, Any], _context: object, op: Operation) -> dict[str, Any]:
            return created(charge=charged(op, self.provider))

        self._handler = handler

    def send(self) -> dict[str, Any]:
        """The same request each time."""
        with use_store(self.store):
            return self._handler(order_event(), None)

    @property
    def status(self) -> str:
        """The state of the only record."""
        (record,) = self.memory.records.values()
        return record.status.value


def test_a_crash_before_a_call_does_not_carry_it_out() -> None:
    """The call that the process dies before is not made, and none after it."""
    orders = Orders()
    with orders.store.crash("before complete"):
        orders.send()
    assert (orders.status, len(orders.provider.done)) == ("IN_PROGRESS", 1)


def test_a_crash_after_a_call_carries_it_out() -> None:
    """The call that the process dies after is durable. A retry gets its answer."""
    orders = Orders()
    with orders.store.crash("after complete"):
        orders.send()
    assert orders.status == "COMPLETED"
    assert orders.send()["headers"]["Idempotent-Replayed"] == "true"


def test_points_name_steps_and_numbers() -> None:
    """A step's call has the step's name. A number names a later call of the same name."""
    orders = Orders()
    with orders.store.crash("before finish step charge"):
        orders.send()
    assert (orders.status, orders.provider.done) == ("IN_PROGRESS", ["ch_0"])
    with orders.store.crash("after reserve (2)"):
        for _ in range(2):
            orders.send()
    assert orders.status == "IN_PROGRESS"


def test_a_dead_process_does_nothing_more_to_the_store() -> None:
    """Whoever catches the kill is killed again at its next call."""
    orders = Orders()
    with orders.store.crash("before finish step charge"):
        with pytest.raises(Killed):
            orders.send()
        with pytest.raises(Killed):
            orders.send()
    assert (orders.status, len(orders.memory.records)) == ("IN_PROGRESS", 1)


def test_a_point_that_is_not_reached_fails_the_test() -> None:
    """The message lists the calls that there were."""
    orders = Orders()
    calls = "reserve, finish step charge, complete"
    with (
        pytest.raises(AssertionError, match=f"did not come to 'after release'.*: {calls}"),
        orders.store.crash("after release"),
    ):
        orders.send()


@pytest.mark.parametrize("text", ["complete", "during complete", "after lunch", "after read (0)"])
def test_a_name_that_is_no_point_is_refused(text: str) -> None:
    """The message lists the calls that exist."""
    with (
        pytest.raises(ValueError, match="no crash point.*reserve.*finish step.*fetch"),
        CrashingStore(MemoryStore()).crash(text),
    ):
        pass


def test_other_exceptions_leave_the_block() -> None:
    """A crash point hides no other error."""
    orders = Orders()
    with pytest.raises(StoreError), orders.store.crash("after complete"):
        raise StoreError("down", transient=True)


def test_every_write_of_the_store_has_a_name() -> None:
    """No transition is without a name for its crash points."""
    assert {*typing.get_args(Transition)} <= {*CALLS}
    assert len({*CALLS.values()}) == len(CALLS)


@pytest.mark.parametrize("store", [None, MemoryStore, "payments"])
def test_what_is_no_store_is_refused_when_it_is_given(store: Any) -> None:
    """A class in place of its instance is said to be one, before a handler runs.

    Red when it is noticed at the handler's first call.
    """
    with pytest.raises(TypeError, match="CrashingStore: store is"):
        CrashingStore(store)
