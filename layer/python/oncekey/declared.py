"""The operations that this process has declared. Two functions must not share an operation name.

They would share their keys, and each would be given the other's answers. Declaring the same
function again is not a fault: a module may be reloaded, a factory called again, a test run again.

`natural` declares the opposite: a function that needs no key.
"""

from __future__ import annotations

import gc
import inspect
import logging
import os
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.errors import ConfigurationError
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger("oncekey")

# An attribute of the protected function. Other decorators copy it to their wrappers.
_MARK = "_oncekey_operation"
# The same for a function that is declared to need no protection.
_NATURAL = "_oncekey_natural"

F = TypeVar("F", bound="Callable[..., Any]")


class _Declared(Value):
    """One protected function, for as long as it is alive."""

    protected: weakref.ReferenceType[Any] = field(repr=False)
    module: str
    name: str
    line: int
    # None is the default store. The function keeps any other store alive, so the id stays unique.
    store_id: int | None

    @property
    def scope(self) -> tuple[str, str]:
        """Where it is declared: a module, or a function in one."""
        return self.module, self.name.rpartition("<locals>")[0]

    @property
    def place(self) -> str:
        """Where the function is written, for the error text."""
        return f"{self.module}.{self.name} (line {self.line})"

    def is_same_as(self, other: _Declared) -> bool:
        """Whether it is the same function, declared again."""
        is_named_alike = (self.module, self.name) == (other.module, other.name)
        return is_named_alike and (self.line == other.line or not self.name.endswith("<lambda>"))


_declared: dict[str, list[_Declared]] = {}


def second_operation(
    operation: str, function: Callable[..., Any], protected: object, store: object
) -> list[str]:
    """Declare `protected`, which runs `function`. Returns a fault if another function has the name.

    A second use of a name is a fault within one module, within one function, and anywhere in a
    Lambda, where one process serves all loaded handlers. Elsewhere, for example in tests that load
    the handlers of many functions, a second module's use of the name is only logged.
    """
    if getattr(function, _MARK, None) == operation:
        return ["it is decorated twice: its key would be in use whenever it is asked for"]
    setattr(protected, _MARK, operation)
    # Below our decorator there may be others, whose wrappers have the lines of their own modules.
    code = getattr(inspect.unwrap(function), "__code__", None)
    new = _Declared(
        weakref.ref(protected),
        str(getattr(function, "__module__", "")),
        str(getattr(function, "__qualname__", type(function).__qualname__)),
        getattr(code, "co_firstlineno", 0),
        None if store is None else id(store),
    )
    others = _others(operation, new)
    if others and gc.collect():
        # An unused function may still be alive in a reference cycle.
        others = _others(operation, new)
    refused = [other for other in others if _serve_together(other, new)]
    if refused:
        taken = f"{new.place} has the operation {operation!r} of {refused[0].place}"
        return [f"{taken}: each would be given the other's answers, so name one of them otherwise"]
    for other in others:
        _warn_of_two(operation, other.place, new.place)
    alive = [each for each in _declared.get(operation, []) if each.protected() is not None]
    _declared[operation] = [*alive, new]
    return []


def _warn_of_two(operation: str, first: str, second: str) -> None:
    """Two handlers have one operation name.

    To do: rename one.
    """
    _logger.warning(
        "oncekey: %s and %s both have the operation %r: where one process serves both, each is"
        " given the other's answers",
        first,
        second,
        operation,
        extra={"oncekey_event": "operation-declared-twice", "operation": operation},
    )


def operation_of(function: object) -> str | None:
    """The operation that `function` was declared with; None if it is not protected."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, str) else None


def _others(operation: str, new: _Declared) -> list[_Declared]:
    return [
        other
        for other in _declared.get(operation, [])
        if other.protected() is not None
        and other.store_id == new.store_id
        and not other.is_same_as(new)
        and ("<locals>" in other.name) == ("<locals>" in new.name)
        and ("<locals>" not in new.name or other.scope == new.scope)
    ]


def _serve_together(other: _Declared, new: _Declared) -> bool:
    return other.scope == new.scope or "AWS_LAMBDA_FUNCTION_NAME" in os.environ


class Natural(Value, kw_only=True):
    """Why a function needs no protection. `operation` is empty if it stands for all its events."""

    reason: str
    operation: str = ""


def natural(reason: str, *, operation: str = "") -> Callable[[F], F]:
    """Declare for `oncekey audit` that a repeat of this function changes nothing more.

        @natural("sets the address to what the request says", operation="PUT /address")
        def set_address(event, context): ...

    It changes nothing at run time. Put it on a Lambda handler, on the handler of a topic, or on a
    route of a framework.

    Args:
        reason: why, for whoever reviews it.
        operation: the route, if a handler dispatches several: `PUT /address`.

    Raises:
        ConfigurationError: there is no reason.
    """
    given: object = reason
    if not isinstance(given, str) or not given.strip():
        fault = "say why a repeat changes nothing: @natural('sets the address to what is sent')"
        raise ConfigurationError("@natural", [fault])

    def mark(function: F) -> F:
        setattr(function, _NATURAL, Natural(reason=reason.strip(), operation=operation))
        return function

    return mark


def natural_of(function: object) -> Natural | None:
    """What `function` was declared with; None if it was not."""
    found = getattr(function, _NATURAL, None)
    return found if isinstance(found, Natural) else None
