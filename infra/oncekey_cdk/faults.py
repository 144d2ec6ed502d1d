"""Refuses wrong arguments of a construct: all faults in one message that says what to do."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, Token

from oncekey.misuse import nearest
from oncekey_local.description.functions import METHODS, template_faults

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from constructs import Construct

Props = dict[str, Any]


def refuse(faults: Iterable[str], *, scope: Construct, construct_id: str, kind: str) -> None:
    """Raise if there are `faults`.

    Call it before anything is created, so that a refused construct leaves nothing in the tree.

    Raises:
        ValueError: There are faults. The message names the construct and lists all of them.
    """
    found = [*faults]
    if found:
        path = "/".join(part for part in (scope.node.path, construct_id) if part)
        raise ValueError(f"{kind} {path!r} is wrong: " + "; ".join(found))


def override_faults(
    given: Mapping[str, object] | None, *, name: str, of: type, fixed: Mapping[str, str]
) -> list[str]:
    """The faults of properties that are passed on to a construct of the CDK.

    Args:
        given: The properties, by the CDK's own names.
        name: The argument that they came in.
        of: The CDK's class that takes them.
        fixed: The properties that cannot be overridden, with the reason.
    """
    # The signature of the class is that of jsii's metaclass, which takes anything.
    known = inspect.signature(vars(of)["__init__"]).parameters
    faults = []
    for key, value in sorted((given or {}).items()):
        if key in fixed:
            faults.append(f"{name}[{key!r}] cannot be overridden: {fixed[key]}")
        elif key not in known:
            meant = nearest(key, [*known])
            faults.append(f"{name}[{key!r}] is no property of {of.__name__}{meant}")
        elif fault := duration_fault(f"{name}[{key!r}]", value, known[key].annotation):
            faults.append(fault)
    return faults


def duration_fault(name: str, value: object, annotation: object) -> str | None:
    """The fault of a value that is no `Duration` where `annotation` asks for one."""
    if "Duration" not in str(annotation) or value is None or isinstance(value, Duration):
        return None
    if Token.is_unresolved(value):
        return None
    example = f"Duration.seconds({value})" if isinstance(value, int | float) else "a Duration"
    return f"{name} is {value!r}, without a unit: write {example} (aws_cdk.Duration)"


def overridden(defaults: Mapping[str, Any], given: Mapping[str, object] | None) -> Props:
    """The properties for a construct of the CDK: our defaults, and the caller's overrides.

    None keeps our default, because the CDK's own may be less safe.
    """
    return {**defaults, **without_none(given)}


def without_none(given: Mapping[str, object] | None) -> Props:
    """The properties that are not None."""
    return {name: value for name, value in (given or {}).items() if value is not None}


def refuse_route(
    api: Construct, method: str, path: str, *, preflights: Collection[str] = ()
) -> None:
    """Raise if `api` cannot have this route.

    Args:
        api: The API.
        method: Such as `POST`.
        path: A template.
        preflights: The methods of a route that would take the preflights of an API with CORS, and
            ask for a token that they do not have.

    Raises:
        ValueError: There is no such method or path. The message names the API and the route.
    """
    faults: list[str] = []
    if method not in METHODS:
        faults.append(f"method {method!r}: use one of {', '.join(METHODS)}")
    if method in preflights:
        faults.append("with cors=, the API answers OPTIONS itself: a preflight has no token")
    if not path.startswith("/"):
        faults.append(f"path {path!r} must begin with a slash")
    faults += [f"path {path!r}: {fault}" for fault in template_faults(path)]
    refuse(faults, scope=api, construct_id=f"{method} {path}", kind=type(api).__name__)
