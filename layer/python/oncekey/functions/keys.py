"""The key of a call of an idempotent function, as its `key=` finds it in the call's arguments.

`key=` is either a callable, which is called with the arguments of the call, defaults included; or a
JMESPath expression. An expression for a function with one parameter is applied to that argument:
`key="messageId"` for `def work(record)`. For a function with several it is applied to all of them
by name: `key="order_id"`, `key="event.detail.id"` or `key="[order_id, line]"`. Which of the two
holds is settled by the signature, and a name that is no parameter is refused when the function is
decorated, so a function that gains its second parameter is not silently keyed by something else.
An expression sees a dataclass or a pydantic model as the mapping of its fields.

A text is the key as it is. Any other value is one as `json:` and its one spelling, so that no text
is the key of a number or a list; see `oncekey.encoding.key_values`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from oncekey.encoding.key_values import NotAKeyValue, fields_of, json_value, searchable, spelled
from oncekey.errors import ConfigurationError, KeyMissing

MAX_KEY_LENGTH = 1_024

_JSON, _TEXT = "json:", "text:"

KeySource = str | Callable[..., Any]
# Gives the key of one call from its positional and keyword arguments.
FunctionKey = Callable[[tuple[Any, ...], Mapping[str, Any]], str]

# Of these only the first part is applied to what the whole expression is; the others to what the
# first one found.
_FIRST_PART_ONLY = {
    "subexpression",
    "projection",
    "value_projection",
    "filter_projection",
    "pipe",
}


def function_key(key: KeySource, signature: inspect.Signature, *, operation: str) -> FunctionKey:
    """What finds the key of each call of a function with `signature`.

    `signature` has the parameters that callers give, without `self` and what is injected.

    What is returned raises `KeyMissing` if there is no key or it is blank, holds nothing but nulls,
    or is longer than `MAX_KEY_LENGTH` characters; `ConfigurationError` if `key` gives what no key
    can be made of; and `TypeError` if the arguments do not fit the signature.

    Raises:
        ConfigurationError: `key` is neither a callable nor a JMESPath expression that can be
            applied to these parameters.
    """
    find = _finder(key, signature, operation)

    def key_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        bound = signature.bind(*args, **kwargs)
        # Leaving a default out and giving it are the same call.
        bound.apply_defaults()
        try:
            found = find(bound)
        except LookupError:
            raise _missing(operation, "an argument lacks what `key=` looks up") from None
        return _key_text(found, operation)

    return key_of


def _finder(
    key: Any, signature: inspect.Signature, operation: str
) -> Callable[[inspect.BoundArguments], Any]:
    if isinstance(key, str):
        look_up = _expression(key, list(signature.parameters), operation)
        return lambda bound: _whole(look_up(bound), operation)
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise _misconfigured(
            operation,
            f"key= is of the type {type(key).__name__}: give a JMESPath expression or a function"
            " (not async) of the call's arguments",
        )
    return lambda bound: key(*bound.args, **bound.kwargs)


def _whole(found: Any, operation: str) -> Any:
    # Calls that lack the same part of a composite key are different calls.
    parts = found.values() if isinstance(found, Mapping) else found
    is_composite = isinstance(found, Mapping | list) and not _is_nothing(found)
    if is_composite and any(map(_is_nothing, parts)):
        raise _missing(operation, "a part of what `key=` looks up is missing")
    return found


def _expression(
    text: str, parameters: list[str], operation: str
) -> Callable[[inspect.BoundArguments], Any]:
    # Comes with boto3; only an expression needs it.
    import jmespath  # type: ignore[import-untyped]

    try:
        expression = jmespath.compile(text)
    except ValueError as error:
        # The parser draws a marker on further lines.
        reason = " ".join(str(error).split())
        raise _misconfigured(
            operation, f"key={text!r} is no JMESPath expression: {reason}"
        ) from None
    faults = _function_faults(expression.parsed)
    if not parameters:
        faults.append("the function has no parameters that could hold a key")
    if len(parameters) > 1:
        faults += [
            f"{name!r} is none of the parameters {', '.join(parameters)}"
            for name in _root_names(expression.parsed)
            if name not in parameters
        ]
    if faults:
        raise _misconfigured(operation, *(f"key={text!r}: {fault}" for fault in faults))

    def find(bound: inspect.BoundArguments) -> Any:
        arguments = {name: searchable(value) for name, value in bound.arguments.items()}
        try:
            return expression.search(arguments if len(parameters) > 1 else arguments[parameters[0]])
        except ValueError:
            # A function met a null or another type; the message would quote the argument.
            raise _missing(operation, "`key=` does not fit what the arguments hold") from None

    return find


def _root_names(tree: Mapping[str, Any]) -> list[str]:
    """The names that an expression looks up in the whole of what it is applied to."""
    if tree["type"] == "field":
        return [tree["value"]]
    if tree["type"] == "expref":
        return []
    parts = tree["children"][:1] if tree["type"] in _FIRST_PART_ONLY else tree["children"]
    return [name for part in parts for name in _root_names(part)]


def _function_faults(tree: Mapping[str, Any]) -> list[str]:
    # jmespath itself looks at functions only when it calls them.
    from jmespath.functions import Functions  # type: ignore[import-untyped]

    faults = [fault for part in tree["children"] for fault in _function_faults(part)]
    if tree["type"] != "function_expression":
        return faults
    name, given = tree["value"], len(tree["children"])
    known = Functions.FUNCTION_TABLE.get(name)
    if known is None:
        return [*faults, f"JMESPath has no function {name}()"]
    taken = known["signature"]
    is_variadic = bool(taken) and taken[-1].get("variadic", False)
    if given != len(taken) and not (is_variadic and given > len(taken)):
        faults.append(f"{name}() takes {len(taken)} argument(s), not {given}")
    return faults


def _key_text(found: Any, operation: str) -> str:
    if _is_nothing(found):
        raise _missing(operation, "`key=` found nothing but blanks and nulls")
    # A subclass, such as an enum's member, may print itself as something else.
    text = _own(str.__str__(found)) if isinstance(found, str) else _json_text(found, operation)
    if len(text) > MAX_KEY_LENGTH:
        raise _missing(operation, f"it has {len(text)} characters, at most {MAX_KEY_LENGTH}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _missing(operation, "it is not valid Unicode text") from None
    return text


def _own(text: str) -> str:
    # A text that begins like the spelling of another value is set apart from it.
    return f"{_TEXT}{text}" if text.startswith((_JSON, _TEXT)) else text


def _is_nothing(found: Any) -> bool:
    if found is None:
        return True
    if isinstance(found, str):
        return not found.strip()
    if isinstance(found, bytes | bytearray):
        return not found
    if isinstance(found, list | tuple | set | frozenset):
        return all(map(_is_nothing, found))
    members = found if isinstance(found, Mapping) else fields_of(found)
    return members is not None and all(map(_is_nothing, members.values()))


def _json_text(found: Any, operation: str) -> str:
    try:
        return _JSON + spelled(json_value(found))
    except NotAKeyValue as reason:
        raise _misconfigured(
            operation, f"key= gave a value that no key is made of: {reason}: give str(...) of it"
        ) from None
    except ValueError:
        raise _missing(operation, "it has a number that is too long") from None


def _missing(operation: str, detail: str) -> KeyMissing:
    return KeyMissing(operation=operation, detail=detail)


def _misconfigured(operation: str, *faults: str) -> ConfigurationError:
    return ConfigurationError(f"@idempotent_function(operation={operation!r})", list(faults))
