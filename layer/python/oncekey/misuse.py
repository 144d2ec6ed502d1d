"""Decorators that say what to write, where they are written wrongly.

Python's own errors (an unexpected keyword, a missing argument) name neither the mistake nor the
remedy: a decorator without its brackets fails at the function that is decorated.
"""

from __future__ import annotations

import functools
import types
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class WronglyWritten(ConfigurationError, TypeError):  # noqa: N818 -- says what is wrong, as Python would
    """What Python itself would raise a `TypeError` for, told with what to write."""


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
    """Have a dataclass of options raise `WronglyWritten` where it is made wrongly.

    `example` is how it is written. The types of the class are what they were.
    """

    def decorate(kind: type[T]) -> type[T]:
        initialise: Any = kind.__init__

        @functools.wraps(initialise)
        def checked(self: Any, *given: Any, **options: Any) -> None:
            # A subclass has options of its own, and has been asked already.
            faults = _faults(type(self), given, options, example)
            if faults:
                raise WronglyWritten(example.partition("(")[0], faults)
            initialise(self, *given, **options)

        setattr(kind, "__init__", checked)  # noqa: B010 -- a type checker keeps the dataclass's own
        return kind

    return decorate


def function_faults(function: object) -> list[str]:
    """What is wrong with what a decorator of functions is given."""
    if isinstance(function, staticmethod | classmethod | property):
        name = type(function).__name__
        return [f"@{name} stands above this decorator, not below it: swap the two lines"]
    if isinstance(function, type):
        return ["a class is decorated: decorate the function or method that does the work"]
    if isinstance(function, types.CoroutineType | types.GeneratorType):
        function.close()
        return ["what is decorated was called already: decorate the function, not its result"]
    if not callable(function):
        return [f"a {type(function).__name__} is decorated: decorate a function"]
    return []


def nearest(name: str, known: list[str]) -> str:
    """` (did you mean ...?)`, with the known name that is most like `name`; empty if none is."""
    likely = get_close_matches(name.lower(), {each.lower(): each for each in known}, n=1)
    found = [each for each in known if likely and each.lower() == likely[0]]
    return f" (did you mean {found[0]}?)" if found else ""


def _faults(kind: Any, given: tuple[Any, ...], options: dict[str, Any], example: str) -> list[str]:
    known = [field for field in fields(kind) if field.init]
    by_place = [field.name for field in known if not field.kw_only]
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
        if field.default is MISSING and field.default_factory is MISSING and field.name not in names
    ]
    return faults
