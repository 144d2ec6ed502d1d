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
    from collections.abc import Iterator, Mapping, Sequence

    from constructs import Construct

T = TypeVar("T")
_OURS = {
    "AuditTable",
    "IdempotencyTable",
    "IdempotentFunction",
    "IdempotentHttpApi",
    "IdempotentRestApi",
    "Outbox",
    "Reconciler",
    "ResponseBucket",
    "Service",
    "ServiceResources",
}


def explained(kind: type[T]) -> type[T]:
    """Make a construct refuse wrong arguments before it reads them. Type checkers see no change.

    It looks at the arguments' names, at those that are missing, and at those that are declared as a
    `Duration`, a `Service` or a construct of this package. The CDK checks the rest.
    """
    construct: Any = kind
    initialise = construct.__init__
    known = dict([*inspect.signature(initialise).parameters.items()][3:])

    by_place = [each.name for each in known.values() if each.kind is each.POSITIONAL_OR_KEYWORD]

    @functools.wraps(initialise)
    def checked(self: Any, scope: Construct, construct_id: str, *places: Any, **given: Any) -> None:
        placed = dict(zip(by_place, places, strict=False))
        faults = [
            *_place_faults(by_place, places, given),
            *_name_faults(known, {**placed, **given}),
            *_kind_faults(known, {**placed, **given}),
        ]
        name = type(self).__name__
        refuse(faults, scope=scope, construct_id=construct_id, kind=name)
        initialise(self, scope, construct_id, *places, **given)

    construct.__init__ = checked
    return kind


def _place_faults(
    by_place: Sequence[str], places: Sequence[object], given: Mapping[str, object]
) -> Iterator[str]:
    if len(places) > len(by_place):
        what = f"only {' and '.join(by_place)} may be" if by_place else "none may be"
        yield f"{len(places)} arguments have no name, and {what}: write name=value"
    for name in by_place[: len(places)]:
        if name in given:
            yield f"{name} is given twice"


def _name_faults(
    known: Mapping[str, inspect.Parameter], given: Mapping[str, object]
) -> Iterator[str]:
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        for name in given:
            if name not in known:
                yield f"{name} is no argument{nearest(name, [*known])}"
    for name, parameter in known.items():
        is_needed = parameter.default is parameter.empty and parameter.kind in (
            parameter.KEYWORD_ONLY,
            parameter.POSITIONAL_OR_KEYWORD,
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
        wanted = {*annotation.split(" | ")} - {"None"}
        if value is not None and wanted and wanted <= _OURS and not _is_a(value, wanted):
            made = f"give the {' or '.join(sorted(wanted))} itself, which is made before"
            yield f"{name} is a {type(value).__name__}: {made}"


def _is_a(value: object, wanted: set[str]) -> bool:
    return bool(wanted & {each.__name__ for each in type(value).__mro__})
