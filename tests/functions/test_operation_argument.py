"""A function that takes the operation is given it, and its callers need not know."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    ConfigurationError,
    Operation,
    current_operation,
    idempotent_function,
    single_tenant,
)
from oncekey.testing.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable


def protect(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`function`, keyed by its first argument."""
    decorator = idempotent_function(
        operation=function.__qualname__,
        key=lambda *given, **named: [*given, *named.values()][0],
        tenant=single_tenant(),
        store=MemoryStore(),
        **options,
    )
    return decorator(function)


def annotated(record: str, op: Operation) -> str:
    """Annotated as the operation."""
    assert op is current_operation()
    return f"{record} {op.operation_id}"


def bare(record, op):  # type: ignore[no-untyped-def]
    """Named op."""
    return annotated(record, op)


def behind_a_star(record: str, *, op: Operation) -> str:
    """Named only."""
    return annotated(record, op)


def of_another_name(record: str, operation: Operation) -> str:
    """Called as the author likes."""
    return annotated(record, operation)


def quoted(record: str, op: oncekey.Operation) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Annotated by a text."""
    return annotated(record, op)


def optional(record: str, op: Operation | None = None) -> str:
    """With a default, for type checkers."""
    assert op is not None
    return annotated(record, op)


def by_place(record: str, line: int = 1, op: Operation | None = None, /) -> str:
    """By its place alone."""
    assert op is not None
    assert line == 1
    return annotated(record, op)


def with_the_rest(record: str, *rest: int, op: Operation, **named: int) -> str:
    """Behind whatever comes."""
    assert (rest, named) == ((), {})
    return annotated(record, op)


def with_a_default(record: str, line: int = 1, *, op: Operation) -> str:
    """Behind a default."""
    assert line == 1
    return annotated(record, op)


class Service:
    """A method takes it as a function does."""

    def method(self, record: str, op: Operation) -> str:
        """A method."""
        assert isinstance(self, Service)
        return annotated(record, op)


TAKES = [
    annotated,
    bare,
    behind_a_star,
    of_another_name,
    quoted,
    optional,
    by_place,
    with_the_rest,
    with_a_default,
]


@pytest.mark.fault("K11.4")
@pytest.mark.parametrize("function", TAKES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("disabled", ["0", "1"])
def test_a_function_is_given_the_operation_that_it_takes(
    function: Callable[..., Any], disabled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it takes the operation, it is given the current one, protected or not, and its
    callers give the other arguments.

    Red when the call lacks an argument.
    """
    monkeypatch.setenv("ONCEKEY_DISABLED", disabled)
    protected = protect(function)

    first = protected("a")

    assert first.startswith("a ")
    assert (protected("a") == first) == (disabled == "0")


@pytest.mark.fault("K11.4")
def test_a_coroutine_function_is_given_it_and_a_method_too() -> None:
    """An `async def` function and a method are given the operation in the same way.

    Red when only plain functions are.
    """

    async def later(record: str, op: Operation) -> str:
        return annotated(record, op)

    protected = protect(later)

    async def twice() -> list[str]:
        return [await protected("a"), await protected("a")]

    first, second = asyncio.run(twice())
    assert first == second

    method = idempotent_function(
        operation="a method", key="@", tenant=single_tenant(), store=MemoryStore()
    )(Service.method)
    untyped: Callable[..., Any] = method
    assert untyped(Service(), "a") == untyped(Service(), "a")


@pytest.mark.fault("K11.4")
@pytest.mark.parametrize(
    ("annotation", "callers_give"),
    [
        (Operation, ["record"]),
        (Operation | None, ["record"]),
        (str, ["record", "other"]),
        (str | None, ["record", "other"]),
        (dict[str, int], ["record", "other"]),
    ],
    ids=str,
)
def test_an_annotation_may_be_a_type_and_no_text(annotation: Any, callers_give: list[str]) -> None:
    """In a module without `from __future__ import annotations`, the same parameter is found.

    Red when only annotations that are texts are read, or any type counts as the operation.
    """

    def function(record: object, other: object) -> None:
        """Annotated below."""

    function.__annotations__ = {"record": str, "other": annotation}

    assert list(inspect.signature(protect(function)).parameters) == callers_give


@pytest.mark.fault("K11.4")
def test_the_operation_is_no_argument_of_the_call() -> None:
    """Signature, key and fingerprint see what callers give, and an expression is applied to the
    only one that is left.

    Red when the operation counts as an argument.
    """
    seen: list[Any] = []
    decorator: Any = idempotent_function(
        operation="by an expression",
        key="id",
        tenant=lambda record: "acme",
        fingerprint=lambda *given, **named: seen.append((given, named)),
        store=MemoryStore(),
    )
    protected = decorator(lambda record, op: op.tenant)

    assert protected({"id": "a"}) == "acme"
    assert seen == [(({"id": "a"},), {})]
    assert list(inspect.signature(protected).parameters) == ["record"]


def first_of_two(op: Operation, record: str) -> None:
    """Not the last."""


def before_any(record: str, op: Operation, *rest: str) -> None:
    """In the way of the rest."""


def two_of_them(record: str, op: Operation, *, operation: Operation) -> None:
    """One too many."""


@pytest.mark.fault("K11.4")
@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (first_of_two, "op takes the operation, which callers do not give: put it last"),
        (lambda op, record: None, "op takes the operation, .* annotate it otherwise"),
        (before_any, r"put it last, or behind a \*"),
        (two_of_them, "op and operation both take the operation"),
    ],
    ids=["first", "first and bare", "before the rest", "two"],
)
def test_an_operation_in_the_wrong_place_is_refused_when_decorated(
    function: Callable[..., Any], fault: str
) -> None:
    """Where the operation would stand in the way of the caller's arguments, it is told where to.

    Red when a call puts it in another argument's place.
    """
    with pytest.raises(ConfigurationError, match=fault):
        protect(function)


@pytest.mark.fault("K11.4")
def test_an_op_of_the_authors_own_is_an_argument() -> None:
    """A parameter `op` that is annotated as something else, or has a default, is the caller's.

    Red when its value is replaced.
    """

    def compute(op: str, left: int) -> str:
        return f"{op}{left}"

    def computed(left: int, op="+"):  # type: ignore[no-untyped-def]
        return f"{op}{left}"

    assert protect(compute)("-", 1) == "-1"
    assert protect(computed)(1) == "+1"
