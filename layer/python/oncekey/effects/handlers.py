"""Checks the signatures of handlers and functions, and finds the arguments that they take."""

from __future__ import annotations

import inspect
import re
import types
from typing import TYPE_CHECKING, Any

from oncekey.effects.operation import Operation
from oncekey.misuse import function_faults

if TYPE_CHECKING:
    from collections.abc import Callable

# Event and context.
_GIVEN = 2
# Event, context and operation.
_WITH_OPERATION = 3
_GENERATORS = (types.GeneratorType, types.AsyncGeneratorType)


def takes_operation(handler: Callable[..., Any]) -> bool:
    """Whether `handler` requires a third argument, which is the operation."""
    return len(needed_arguments(handler)) == _WITH_OPERATION


def operation_keyword(handler: Callable[..., Any]) -> str | None:
    """The name by which a wrapper passes the operation on, if it takes no third one by place.

    Powertools' decorators (`event_parser`, `event_source`) are such wrappers: they take event and
    context, and pass on keyword arguments.
    """
    own = inspect.signature(handler, follow_wrapped=False).parameters.values()
    kinds = [parameter.kind for parameter in own]
    if inspect.Parameter.VAR_KEYWORD not in kinds or inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    by_place = [kind for kind in kinds if kind in _KINDS_BY_PLACE]
    return needed_arguments(handler)[-1] if len(by_place) == _GIVEN else None


def is_coroutine_function(handler: Callable[..., Any]) -> bool:
    """Whether `handler` is a coroutine function, or an object with an async `__call__`."""
    called = getattr(handler, "__call__", None)  # noqa: B004 -- it is inspected, not called
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def is_awaitable(value: object) -> bool:
    """Whether `value` is awaitable. It is not if inspecting it raises."""
    try:
        return inspect.isawaitable(value)
    except Exception:  # noqa: BLE001 -- the author's object may raise anything
        return False


def is_generator_function(handler: Callable[..., Any]) -> bool:
    """Whether calling `handler` only makes a generator, sync or async, and runs nothing."""
    called = getattr(handler, "__call__", None)  # noqa: B004 -- it is inspected, not called
    kinds = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_one(each) for is_one in kinds for each in (handler, called))


def has_not_run(made: object) -> bool:
    """Whether a function that returned `made` has work left: an awaitable or a generator."""
    # `type()` is used because `__class__` may be the author's code.
    return issubclass(type(made), _GENERATORS) or is_awaitable(made)


def never_awaited(made: Any) -> TypeError:
    """The error for a plain function that returned a coroutine. It closes the coroutine."""
    if inspect.iscoroutine(made):
        made.close()
    return TypeError(
        "oncekey: a plain function returned an awaitable, which nobody awaits:"
        " decorate the coroutine function itself"
    )


def handler_faults(handler: Callable[..., object]) -> list[str]:
    """The faults of a handler of HTTP events, as sentences; empty if there are none."""
    faults = function_faults(handler)
    if faults:
        return faults
    if is_generator_function(handler):
        return ["a generator has no answer to store: return one"]
    if next(iter(inspect.signature(handler).parameters), "") in {"self", "cls"}:
        return ["a method is decorated where it is bound: idempotent(...)(instance.method)"]
    needed = needed_arguments(handler)
    if len(needed) not in (_GIVEN, _WITH_OPERATION):
        taken = f" (this one needs {', '.join(needed)})" if needed else ""
        return [f"a handler takes event and context, and op as a third if it wants it{taken}"]
    operation = operation_parameter(_counted_signature(handler))
    if operation is not None and operation.name not in needed[_GIVEN:]:
        # It would get the event, the context or its default.
        return [f"{operation.name} takes the operation: make it the third, without a default"]
    return []


_KINDS_BY_PLACE = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_NAMES_OPERATION = re.compile(r"(^|[^\w.]|\boncekey\.)Operation\b")


def operation_parameter(signature: inspect.Signature) -> inspect.Parameter | None:
    """The parameter of a function that takes the operation, if it has one.

    It is annotated as `Operation`, or is named `op` and has neither annotation nor default.
    """
    return next(iter(_operation_parameters(signature)), None)


def operation_faults(signature: inspect.Signature) -> list[str]:
    """The faults of the parameter that takes the operation; empty if there are none."""
    taken = _operation_parameters(signature)
    if not taken:
        return []
    names = " and ".join(parameter.name for parameter in taken)
    if len(taken) > 1:
        return [f"{names} both take the operation: one is enough"]
    parameters = list(signature.parameters.values())
    by_place = [parameter for parameter in parameters if parameter.kind in _KINDS_BY_PLACE]
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    if taken[0].kind in _KINDS_BY_PLACE and (takes_any or by_place[-1] is not taken[0]):
        place = (
            f"{names} takes the operation, which callers do not give: put it last, or behind a *"
        )
        return [f"{place}; annotate it otherwise if it is an argument of your own"]
    return []


def _operation_parameters(signature: inspect.Signature) -> list[inspect.Parameter]:
    return [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and _takes_operation(parameter)
    ]


def _takes_operation(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return parameter.name == "op" and parameter.default is parameter.empty
    if isinstance(annotation, str):
        return _NAMES_OPERATION.search(annotation) is not None
    return annotation is Operation or Operation in getattr(annotation, "__args__", ())


def needed_arguments(handler: Callable[..., object]) -> list[str]:
    """The names of the arguments that `handler` is called with.

    They are the first two, and further ones without a default. A handler with `*args` is called
    with event and context.
    """
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = list(_counted_signature(handler).parameters.values())
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


def _counted_signature(handler: Callable[..., object]) -> inspect.Signature:
    """The signature of a wrapper itself, unless it accepts and passes on any arguments."""
    own = inspect.signature(handler, follow_wrapped=False).parameters.values()
    any_ = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    passes_on = any_ & {parameter.kind for parameter in own}
    return inspect.signature(handler, follow_wrapped=bool(passes_on))
