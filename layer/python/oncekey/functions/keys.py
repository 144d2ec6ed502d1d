"""Finds the key of a call of an idempotent function in the call's arguments, as `key=` says.

`key=` is a callable or a JMESPath expression. A callable is called with the arguments of the call,
including defaults. If the function has one parameter, the expression is applied to that argument:
`key="messageId"` for `def work(record)`. If it has several, the expression is applied to all of
them by name: `key="order_id"`, `key="event.detail.id"` or `key="[order_id, line]"`. The signature
alone decides between the two. With several parameters, a name that is not a parameter is refused
when the function is decorated. So a function that gets a second parameter does not silently change
its keys. An expression sees a dataclass or a pydantic model as the mapping of its fields.

Text is used as the key unchanged, unless it begins with `json:` or `text:`. Any other value becomes
`json:` and its only JSON spelling. So the key of a number or a list is never the key of a text; see
`oncekey.encoding.key_values`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from oncekey.encoding.key_values import NotAKeyValue, fields_of, json_value, searchable, spelled
from oncekey.errors import ConfigurationError, KeyMissing
from oncekey.misuse import A_REQUEST, event_kind, nearest

MAX_KEY_LENGTH = 1_024

_JSON, _TEXT = "json:", "text:"

KeySource = str | Callable[..., Any]
# Returns the key of one call from its positional and keyword arguments.
FunctionKey = Callable[[tuple[Any, ...], Mapping[str, Any]], str]

# In these kinds of expressions, only the first part is applied to the arguments. The other parts
# are applied to the result of the first one.
_FIRST_PART_ONLY = {
    "subexpression",
    "projection",
    "value_projection",
    "filter_projection",
    "pipe",
}


def function_key(key: KeySource, signature: inspect.Signature, *, operation: str) -> FunctionKey:
    """A callable that finds the key of each call of a function with `signature`.

    `signature` has the parameters that callers pass, without `self` and the operation.

    The returned callable raises `KeyMissing` if there is no key, or if the key is blank, has only
    nulls, or is longer than `MAX_KEY_LENGTH` characters. It raises `ConfigurationError` if `key`
    finds a value that cannot be a key, and `TypeError` if the arguments do not fit the signature.

    Raises:
        ConfigurationError: `key` is neither a callable nor a JMESPath expression that can be
            applied to these parameters.
    """
    find = _finder(key, signature, operation)

    def key_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        bound = signature.bind(*args, **kwargs)
        # Passing a default explicitly is the same call as leaving it out.
        bound.apply_defaults()
        try:
            found = find(bound)
        except (LookupError, StopIteration):
            raise _missing(operation, "an argument lacks what `key=` looks up") from None
        return _key_text(found, operation)

    return key_of


def _finder(
    key: Any, signature: inspect.Signature, operation: str
) -> Callable[[inspect.BoundArguments], Any]:
    if isinstance(key, str):
        look_up = _expression(key, list(signature.parameters), operation)

        def find(bound: inspect.BoundArguments) -> Any:
            found = _whole(look_up(bound), operation)
            if _is_nothing(found):
                raise _missing(operation, _why_nothing(key, bound))
            return found

        return find
    if not callable(key) or inspect.iscoroutinefunction(key):
        raise _misconfigured(
            operation,
            f"key= is of the type {type(key).__name__}: give a JMESPath expression or a function"
            " (not async) of the call's arguments",
        )
    return lambda bound: key(*bound.args, **bound.kwargs)


def _why_nothing(key: str, bound: inspect.BoundArguments) -> str:
    """Why an expression finds nothing, by the argument's sort and its class, never by a value."""
    nothing = f"key={key!r} found nothing but blanks and nulls"
    if len(bound.arguments) != 1:
        return nothing
    (argument,) = bound.arguments.values()
    kind, fields, name = event_kind(argument), fields_of(argument), type(argument).__name__
    if kind == A_REQUEST:
        return f"{nothing} in an HTTP request: protect its handler by @idempotent"
    if kind.startswith("a batch"):
        return f"{nothing} in {kind}: call the function for each of them, with that one alone"
    if fields is not None:
        listed, meant = ", ".join(fields) or "none", nearest(key, list(fields))
        return f"{nothing}; the fields of {name} are {listed}{meant}"
    if isinstance(argument, str | int | float):
        return f"{nothing} in a {name}: to take the argument itself as the key, write key='@'"
    if not isinstance(argument, Mapping | list | None):
        return f"{nothing}: no expression looks into a {name}, so pass key=lambda it: it.id"
    return nothing


def _whole(found: Any, operation: str) -> Any:
    # Two calls that both lack the same part of a composite key may be different calls. So they must
    # not get the same key.
    parts = found.values() if isinstance(found, Mapping) else found
    is_composite = isinstance(found, Mapping | list) and not _is_nothing(found)
    if is_composite and any(map(_is_nothing, parts)):
        raise _missing(operation, "a part of what `key=` looks up is missing")
    return found


def _expression(
    text: str, parameters: list[str], operation: str
) -> Callable[[inspect.BoundArguments], Any]:
    # jmespath is installed with boto3. It is imported here because only an expression needs it.
    from jmespath.functions import Functions  # type: ignore[import-untyped]

    try:
        expression, faults = compiled(text, Functions)
    except ValueError as error:
        raise _misconfigured(operation, f"key={text!r} {error}") from None
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
            # A JMESPath function got a null or a wrong type. Its message would quote the argument,
            # which may be personal data.
            raise _missing(operation, "`key=` does not fit what the arguments hold") from None

    return find


def _root_names(tree: Mapping[str, Any]) -> list[str]:
    """The names that an expression looks up at the top level of the arguments."""
    if tree["type"] == "field":
        return [tree["value"]]
    if tree["type"] == "expref":
        return []
    parts = tree["children"][:1] if tree["type"] in _FIRST_PART_ONLY else tree["children"]
    return [name for part in parts for name in _root_names(part)]


def compiled(text: str, functions: Any) -> tuple[Any, list[str]]:
    """The JMESPath expression in `text`, and what is wrong with its calls of `functions`.

    Raises:
        ValueError: it is not an expression.
    """
    import jmespath  # type: ignore[import-untyped]

    try:
        expression = jmespath.compile(text)
    except ValueError as error:
        # The parser's message has more lines, with a marker.
        reason = " ".join(str(error).split())
        raise ValueError(f"is no JMESPath expression: {reason}") from None
    return expression, _call_faults(expression.parsed, functions)


def _call_faults(tree: Mapping[str, Any], functions: Any) -> list[str]:
    # jmespath itself checks functions only when it calls them.
    faults = [fault for part in tree["children"] for fault in _call_faults(part, functions)]
    if tree["type"] != "function_expression":
        return faults
    name, given = tree["value"], len(tree["children"])
    known = functions.FUNCTION_TABLE.get(name)
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
    # The `str()` of a subclass, such as an enum, may differ from its text.
    text = _own(str.__str__(found)) if isinstance(found, str) else _json_text(found, operation)
    if len(text) > MAX_KEY_LENGTH:
        raise _missing(operation, f"it has {len(text)} characters, at most {MAX_KEY_LENGTH}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _missing(operation, "it is not valid Unicode text") from None
    return text


def _own(text: str) -> str:
    # A text that begins with one of the prefixes gets a prefix itself. Otherwise it could equal the
    # key of another value.
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
            operation,
            f"key= gave a value that no key is made of: {reason}: give"
            " str(...) of its id, which is the same in a repeat",
        ) from None
    except ValueError:
        raise _missing(operation, "it has a number that is too long") from None


def _missing(operation: str, detail: str) -> KeyMissing:
    return KeyMissing(operation=operation, detail=detail)


def _misconfigured(operation: str, *faults: str) -> ConfigurationError:
    return ConfigurationError(f"@idempotent_function(operation={operation!r})", list(faults))
