"""Errors of wrongly written decorators that say how to write them.

Python's own errors (an unexpected keyword, a missing argument) do not say what to change. For
example, a decorator without its brackets fails at the function that is decorated.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.errors import ConfigurationError
from oncekey.value import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# The attribute of a function whose decorator has to stand above ours; its value names that one.
MUST_BE_OUTSIDE = "_oncekey_must_be_outside"


class WronglyWritten(ConfigurationError, TypeError):  # noqa: N818 -- says what is wrong, as Python would
    """A `TypeError` whose text says what to write instead."""


_MISSING_FAULTS = {
    "operation": "operation is missing: name it, such as 'POST /payments'",
    "tenant": (
        "tenant is missing: say whose key it is, such as jwt_claim('tenant_id'),"
        " or single_tenant() if there is only one"
    ),
    "key": "key is missing: say what tells calls apart, such as key='id' or a callable",
    "scheme": "scheme is missing: say how the sender signs, such as StripeSignature()",
}


def explained(example: str) -> Callable[[type[T]], type[T]]:
    """Make a class of options raise `WronglyWritten` if it gets wrong arguments.

    `example` shows the correct form. Type checkers see the class unchanged.
    """

    def decorate(kind: type[T]) -> type[T]:
        initialise: Any = kind.__init__

        @functools.wraps(initialise)
        def checked(self: Any, *given: Any, **options: Any) -> None:
            # The faults of a subclass are judged by the subclass's own options.
            faults = _faults(type(self), given, options, example)
            if faults:
                raise WronglyWritten(example.partition("(")[0], faults)
            initialise(self, *given, **options)

        setattr(kind, "__init__", checked)  # noqa: B010 -- a type checker keeps the dataclass's own
        return kind

    return decorate


def function_faults(function: object) -> list[str]:
    """The faults of the object that a decorator of functions is applied to."""
    if isinstance(function, staticmethod | classmethod | property):
        name = type(function).__name__
        return [f"@{name} stands above this decorator, not below it: swap the two lines"]
    if isinstance(function, type):
        return ["a class is decorated: decorate the function or method that does the work"]
    if isinstance(function, types.CoroutineType | types.GeneratorType):
        function.close()
        return ["what is decorated was called already: decorate the function, not its result"]
    if outside := getattr(function, MUST_BE_OUTSIDE, None):
        return [f"@{outside} stands above this decorator, not below it: swap the two lines"]
    if not callable(function):
        return [f"a {type(function).__name__} is decorated: decorate a function"]
    return []


def nearest(name: str, known: list[str]) -> str:
    """` (did you mean ...?)`, with the known name that is most like `name`; empty if none is."""
    from difflib import get_close_matches

    likely = get_close_matches(name.lower(), {each.lower(): each for each in known}, n=1)
    found = [each for each in known if likely and each.lower() == likely[0]]
    return f" (did you mean {found[0]}?)" if found else ""


# The kind of an event of API Gateway, a load balancer or a Function URL.
A_REQUEST = "an HTTP request"
_SOURCES = {
    "aws:sqs": "SQS messages",
    "aws:sns": "SNS messages",
    "aws:kinesis": "Kinesis records",
    "aws:dynamodb": "DynamoDB stream records",
    "aws:s3": "S3 events",
}


def event_kind(event: object) -> str:
    """What `event` is, for the text of an error: its sort and its source, never a value in it.

    Empty if it is none of the events that Lambda's event sources send.
    """
    if not isinstance(event, dict):
        return ""
    records = event.get("Records")
    if isinstance(records, list) and records and isinstance(records[0], dict):
        source = str(records[0].get("eventSource") or records[0].get("EventSource") or "")
        return f"a batch of {_SOURCES.get(source, 'records')}"
    if isinstance(event.get("requestContext"), dict) and event.keys() & {"httpMethod", "rawPath"}:
        return A_REQUEST
    return "an event of EventBridge" if {"detail-type", "detail"} <= event.keys() else ""


def _faults(kind: Any, given: tuple[Any, ...], options: dict[str, Any], example: str) -> list[str]:
    known = [field for field in kind.fields_.values() if field.is_given]
    by_place = [field.name for field in known if not field.is_keyword]
    if len(given) > len(by_place) or (given and callable(given[0])):
        what = "it was given what it decorates" if callable(given[0]) else "options have names"
        return [f"{what}: write {example}"]
    names = {*by_place[: len(given)], *options}
    faults = [
        f"{name} is no option{nearest(name, [field.name for field in known])}"
        for name in options
        if name not in {field.name for field in known}
    ]
    faults += [
        _MISSING_FAULTS.get(field.name, f"{field.name} is missing")
        for field in known
        if field.default is MISSING and field.factory is None and field.name not in names
    ]
    return faults
