"""Arguments of constructs that do not fit, told with what to write.

Python's own errors name neither the construct nor the remedy: `timeout=60` ends in an attribute
that an int does not have, and a misspelt argument in an "unexpected keyword argument".
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.misuse import nearest

from .faults import duration_fault, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from constructs import Construct

T = TypeVar("T")
_OURS = ("IdempotencyTable", "Outbox", "ResponseBucket", "Reconciler", "IdempotentFunction")


def explained(kind: type[T]) -> type[T]:
    """Make a construct refuse wrong arguments before it reads them. Type checkers see no change.

    It looks at the arguments' names, at those that are missing, and at those that are declared as a
    `Duration` or a construct of this package. The CDK checks the rest.
    """
    construct: Any = kind
    initialise = construct.__init__
    known = dict([*inspect.signature(initialise).parameters.items()][3:])

    @functools.wraps(initialise)
    def checked(self: Any, scope: Construct, construct_id: str, **given: Any) -> None:
        faults = [*_name_faults(known, given), *_kind_faults(known, given)]
        name = type(self).__name__
        refuse(faults, scope=scope, construct_id=construct_id, kind=name)
        initialise(self, scope, construct_id, **given)

    construct.__init__ = checked
    return kind


def _name_faults(
    known: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> Iterator[str]:
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        for name in given:
            if name not in known:
                yield f"{name} is no argument{nearest(name, [*known])}"
    for name, parameter in known.items():
        is_needed = (
            parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
        )
        if is_needed and name not in given:
            yield f"{name} is missing"


def _kind_faults(
    known: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> Iterator[str]:
    for name, value in given.items():
        annotation = str(known[name].annotation) if name in known else ""
        fault = duration_fault(name, value, annotation)
        if fault:
            yield fault
        wanted = annotation.removesuffix(" | None")
        if wanted in _OURS and value is not None and not _is_a(value, wanted):
            made = f"give the {wanted} itself, which is made before"
            yield f"{name} is a {type(value).__name__}, not a construct: {made}"


def _is_a(value: object, wanted: str) -> bool:
    return wanted in {each.__name__ for each in type(value).__mro__}
