"""The operation object, as a handler sees it."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from oncekey import Operation, current_operation
from oncekey.effects.running import RunningAttempt
from tests.support.replacing import replace

OPERATION = Operation(
    name="POST /payments",
    operation_id="0f8fad5b-d9cb-469f-a165-70867728950e",
    attempt=1,
    tenant="tenant-1",
)


def test_a_downstream_key_is_the_same_over_every_attempt() -> None:
    """A later attempt sends the provider the very key of the first one.

    Red when the attempt or a random value enters the derivation.
    """
    later = replace(OPERATION, attempt=7)

    assert later.downstream_key("charge") == OPERATION.downstream_key("charge")
    assert OPERATION.downstream_key("charge") == "ad4572b1-13a4-5938-a1e8-739da04714df"


def test_a_downstream_key_is_a_uuid() -> None:
    """Providers that want a UUID get one."""
    key = OPERATION.downstream_key("charge")

    assert str(uuid.UUID(key)) == key


def test_downstream_keys_are_distinct_by_name_and_operation() -> None:
    """Two calls of one operation, and one call of two operations, have different keys."""
    other = replace(OPERATION, operation_id=str(uuid.UUID(int=1)))

    keys = {
        operation.downstream_key(name)
        for operation in (OPERATION, other)
        for name in ("charge", "refund", "Charge", "charge ")
    }
    assert len(keys) == 8


def test_a_downstream_key_comes_from_the_operations_id_alone() -> None:
    """Neither tenant nor name of the operation enters it: a new life of a key has new ones."""
    renamed = replace(OPERATION, name="POST /refunds", tenant="tenant-2", principal="user-1")

    assert renamed.downstream_key("charge") == OPERATION.downstream_key("charge")
    assert not hasattr(OPERATION, "key")


def test_a_downstream_key_needs_a_name() -> None:
    """Without a name two calls would share a key."""
    with pytest.raises(ValueError, match="needs a name for the call, such as 'charge'"):
        OPERATION.downstream_key("")
    for other in (None, 7, b"charge"):
        with pytest.raises(ValueError, match="needs a name for the call"):
            OPERATION.downstream_key(other)  # type: ignore[arg-type]  # as its author may write


def test_the_current_operation_is_found_from_anywhere_below() -> None:
    """Inside a handler the operation is found without being passed on, and not outside."""

    def deep_below() -> Operation:
        return current_operation()

    with RunningAttempt(OPERATION, 0):
        assert deep_below() is OPERATION

    with pytest.raises(LookupError, match="call this below a handler decorated with @idempotent"):
        current_operation()


def test_an_inner_operation_ends_with_its_block() -> None:
    """Handlers that call each other find their own operation, also after an exception."""
    inner = replace(OPERATION, attempt=2)

    with RunningAttempt(OPERATION, 0):
        with pytest.raises(RuntimeError), RunningAttempt(inner, 0):
            raise_after(inner)
        assert current_operation() is OPERATION


def raise_after(expected: Operation) -> None:
    """Raise, if `expected` is the current operation."""
    assert current_operation() is expected
    raise RuntimeError


def test_another_thread_has_no_operation() -> None:
    """An operation belongs to the flow of its handler, and leaks into no other."""
    with RunningAttempt(OPERATION, 0), ThreadPoolExecutor(1) as threads:
        found = threads.submit(current_operation)

        assert isinstance(found.exception(), LookupError)


def test_an_operation_cannot_be_changed() -> None:
    """A handler cannot move the id that everything is derived from."""
    with pytest.raises(AttributeError, match="cannot be changed"):
        OPERATION.operation_id = "another"  # type: ignore[misc]  # that is the test
