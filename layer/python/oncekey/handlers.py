"""What a handler of HTTP events can be called with, as far as it says."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

# Event and context.
_GIVEN = 2
# Event, context and operation.
_WITH_OPERATION = 3


def takes_operation(handler: Callable[..., Any]) -> bool:
    """Whether `handler` cannot be called without a third argument: the operation is that."""
    return len(needed_arguments(handler)) == _WITH_OPERATION


def is_coroutine_function(handler: Callable[..., Any]) -> bool:
    """Whether `handler` is one; an object with an async `__call__` is, too."""
    called = getattr(handler, "__call__", None)  # noqa: B004 -- it is looked at, not called
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def never_awaited(made: Any) -> TypeError:
    """The mistake of a plain function that returned a coroutine, which is closed unrun."""
    if inspect.iscoroutine(made):
        made.close()
    return TypeError(
        "oncekey: a plain function returned an awaitable, which nobody awaits:"
        " decorate the coroutine function itself"
    )


def handler_faults(handler: Callable[..., object]) -> list[str]:
    """What is wrong with a handler of HTTP events."""
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        return ["a generator has no answer to store: return one"]
    if next(iter(inspect.signature(handler).parameters), "") in {"self", "cls"}:
        return ["a method is decorated where it is bound: idempotent(...)(instance.method)"]
    if len(needed_arguments(handler)) not in (2, 3):
        return ["a handler takes event and context, and the operation as a third if it wants it"]
    return []


def needed_arguments(handler: Callable[..., object]) -> list[str]:
    """The arguments that `handler` cannot be called without, as far as it says.

    One that takes any number of them is called with event and context.
    """
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    # A wrapper is called with what it takes itself, unless it takes anything and passes it on.
    own = inspect.signature(handler, follow_wrapped=False).parameters.values()
    passes_on = {parameter.kind for parameter in own} & set(kinds)
    signature = inspect.signature(handler, follow_wrapped=bool(passes_on))
    parameters = list(signature.parameters.values())
    needed = [
        parameter.name
        for number, parameter in enumerate(parameters)
        if parameter.kind not in kinds and (number < _GIVEN or parameter.default is parameter.empty)
    ]
    takes_any = any(parameter.kind is kinds[0] for parameter in parameters)
    named_only = any(
        parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        for parameter in parameters
    )
    if named_only:
        return []
    return needed if len(needed) >= _GIVEN or not takes_any else ["event", "context"]
