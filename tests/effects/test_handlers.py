"""What is read of a handler's signature and of what it returns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, Operation, idempotent_function, single_tenant
from oncekey.effects.handlers import (
    handler_faults,
    has_not_run,
    is_generator_function,
    needed_arguments,
)
from oncekey.webhooks import StripeSignature, webhook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def plain(event: object, context: object) -> int:
    """A handler."""
    return 1


def generator(event: object, context: object) -> Iterator[int]:
    """Runs nothing until it is asked."""
    yield 1


async def async_generator(event: object, context: object) -> AsyncIterator[int]:
    """Runs nothing either."""
    yield 1


async def coroutine(event: object, context: object) -> int:
    """Runs once it is awaited."""
    return 1


class Yields:
    """A callable object that is a generator function."""

    def __call__(self, event: object, context: object) -> Iterator[int]:
        """Runs nothing."""
        yield 1


class YieldsLater:
    """The same, async."""

    async def __call__(self, event: object, context: object) -> AsyncIterator[int]:
        """Runs nothing."""
        yield 1


@pytest.mark.parametrize("function", [generator, async_generator, Yields(), YieldsLater()])
def test_a_generator_has_not_run_and_has_no_answer(function: Callable[..., Any]) -> None:
    """Calling it only makes a generator, sync or async, also where an object is called."""
    assert is_generator_function(function)
    assert has_not_run(function(None, None))


class Opaque:
    """An author's object that nobody can look into."""

    def __getattribute__(self, name: str) -> Any:
        raise LookupError(name)


def test_what_nobody_can_look_into_has_run() -> None:
    """The question raises nothing: what a handler returned is recorded, whatever it is."""
    assert not has_not_run(Opaque())


def test_a_coroutine_has_not_run_before_it_is_awaited() -> None:
    """It is no generator, and what it returns is an answer."""
    made: Any = coroutine(None, None)

    assert not is_generator_function(coroutine)
    assert has_not_run(made)
    assert not has_not_run(asyncio.run(made))


@pytest.mark.parametrize("handler", [generator, async_generator, Yields(), YieldsLater()])
def test_a_generator_is_refused_as_a_handler(handler: Callable[..., Any]) -> None:
    """It is told so when it is decorated."""
    assert handler_faults(handler) == ["a generator has no answer to store: return one"]


def test_a_handler_without_a_fault_has_none() -> None:
    """The list is empty, for plain handlers and coroutine functions."""
    assert handler_faults(plain) == handler_faults(coroutine) == []


@pytest.mark.parametrize("function", [generator, async_generator, Yields(), YieldsLater()])
def test_a_generator_is_refused_as_a_function_and_by_a_webhook(function: Any) -> None:
    """A call would only make it, and its work would be on record as done."""
    protect = idempotent_function(operation="made", key="@", tenant=single_tenant())
    with pytest.raises(ConfigurationError, match="a generator has no result"):
        protect(function)
    accept = webhook(operation="POST /made", scheme=StripeSignature(), tenant=single_tenant())
    with pytest.raises(ConfigurationError, match="only decides: write it as a plain def"):
        accept(function)


def annotated(event: object, operation: Operation) -> int:
    """Would get the context in place of the operation."""
    return 1


def with_default(event: object, context: object, op: Operation | None = None) -> int:
    """Would never get the operation."""
    return 1


@pytest.mark.parametrize("handler", [lambda event, op: 1, annotated, with_default])
def test_an_operation_in_another_place_is_refused(handler: Callable[..., Any]) -> None:
    """A handler that asks for the operation gets nothing else, and is told so before a request."""
    (fault,) = handler_faults(handler)
    assert fault.endswith("takes the operation: make it the third, without a default")


def test_a_method_is_decorated_where_it_is_bound() -> None:
    """A first argument by the name of `self` or `cls` is an object's, and none of Lambda's."""

    def method(self: object, event: object) -> int:
        return 1

    def of_class(cls: object, event: object) -> int:
        return 1

    for each in (method, of_class):
        (fault,) = handler_faults(each)
        assert fault.startswith("a method is decorated where it is bound")


def test_an_argument_by_name_only_is_needed_unless_it_has_a_default() -> None:
    """Lambda gives no argument by name, so that a handler that needs one cannot be called."""

    def optional(event: object, context: object, *, flag: bool = False) -> int:
        return 1

    def needed(event: object, context: object, *, flag: bool) -> int:
        return 1

    assert needed_arguments(optional) == ["event", "context"]
    assert needed_arguments(needed) == []
    assert handler_faults(optional) == []
    assert handler_faults(needed) != []


def test_event_and_context_are_given_also_where_they_have_defaults() -> None:
    """A handler that its author also calls without them is called with both, as any other."""

    def handler(event: object = None, context: object = None) -> int:
        return 1

    assert needed_arguments(handler) == ["event", "context"]
    assert handler_faults(handler) == []
