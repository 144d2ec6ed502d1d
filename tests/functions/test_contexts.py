"""The Lambda context of a function's call: behind a proxy, by keyword, a mock of it, or none."""

from __future__ import annotations

import logging
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, Mock

import pytest

from oncekey import idempotent_function, single_tenant
from oncekey.testing.memory import ManualClock, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

LEFT_MS = 900_000
MARGIN_MS = 5_000
DEFAULT_MS = 60_000


class Context:
    """A Lambda context."""

    def get_remaining_time_in_millis(self) -> int:
        """As in Lambda."""
        return LEFT_MS


class Proxy:
    """Passes every attribute on, and has none of its own."""

    def __init__(self, target: object) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


class Slotted:
    """A context whose method is an attribute of the object, not of its class."""

    __slots__ = ("get_remaining_time_in_millis",)

    def __init__(self) -> None:
        self.get_remaining_time_in_millis = lambda: LEFT_MS


class Broken:
    """An argument that raises something of its own for what it does not have."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


_CONTEXT = Context()
CONTEXTS: dict[str, object] = {
    "itself": _CONTEXT,
    "a proxy": Proxy(_CONTEXT),
    "a proxy of a proxy": Proxy(Proxy(_CONTEXT)),
    "a weak reference": weakref.proxy(_CONTEXT),
    "a namespace": SimpleNamespace(get_remaining_time_in_millis=lambda: LEFT_MS),
    "an object's own attribute": Slotted(),
    "a mock that was told the time": MagicMock(
        get_remaining_time_in_millis=MagicMock(return_value=LEFT_MS)
    ),
    "a time with a fraction": SimpleNamespace(get_remaining_time_in_millis=lambda: LEFT_MS + 0.5),
}
NONE_OF_IT: dict[str, object] = {
    "none": None,
    "a mock that says nothing": MagicMock(),
    "a plain mock": Mock(),
    "no number": SimpleNamespace(get_remaining_time_in_millis=lambda: "900000"),
    "not a number": SimpleNamespace(get_remaining_time_in_millis=lambda: float("nan")),
    "an argument that raises": Broken(),
    "an attribute": SimpleNamespace(get_remaining_time_in_millis=LEFT_MS),
}


def lease_ms(call: Callable[[Any], None]) -> int:
    """How long the lease is of the call that `call` makes of the protected function."""
    store, clock = MemoryStore(), ManualClock()
    leases: list[int] = []

    @idempotent_function(
        operation="with a context",
        key=lambda record, context=None: record,
        tenant=single_tenant(),
        store=store,
        clock=clock,
    )
    def function(record: str, context: object = None) -> None:
        leases.extend(record.lease_until_ms or 0 for record in store.records.values())

    call(function)
    (until_ms,) = leases
    return until_ms - clock.now_ms()


@pytest.mark.fault("K11.3")
@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("by", ["position", "keyword"])
def test_a_context_is_recognised_by_what_it_answers(name: str, by: str) -> None:
    """The lease ends with the invocation, whatever stands for the context in the arguments.

    Red when the method is looked for on the class, or without asking the object itself.
    """
    context = CONTEXTS[name]

    if by == "position":
        assert lease_ms(lambda function: function("a", context)) == LEFT_MS + MARGIN_MS
    else:
        assert lease_ms(lambda function: function("a", context=context)) == LEFT_MS + MARGIN_MS


@pytest.mark.fault("K11.3")
@pytest.mark.parametrize("name", NONE_OF_IT)
def test_what_answers_no_time_is_no_context(name: str) -> None:
    """A mock of everything, and an argument that fails at the question, leave the default lease.

    Red when a mock's answer is turned into a number, which is a lease of 1 ms.
    """
    argument = NONE_OF_IT[name]

    assert lease_ms(lambda function: function("a", argument)) == DEFAULT_MS + MARGIN_MS


@pytest.mark.fault("K11.3")
def test_a_lease_without_a_context_is_said_once_in_lambda(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In Lambda a call without a context has a lease that may end before the invocation does: the
    log says so, once, and what to do.

    Red when the default lease is taken without a word.
    """
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "billing")

    @idempotent_function(
        operation="without a context", key="@", tenant=single_tenant(), store=MemoryStore()
    )
    def function(record: str) -> None:
        """Does nothing."""

    with caplog.at_level(logging.WARNING, logger="oncekey"):
        function("a")
        function("b")

    (said,) = caplog.records
    assert "without a context" in said.getMessage()
    assert "ONCEKEY_DEFAULT_LEASE_MS" in said.getMessage()
