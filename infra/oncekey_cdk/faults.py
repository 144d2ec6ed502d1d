"""What was asked of a construct wrongly: everything at once, and what to do about it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from constructs import Construct

Props = dict[str, Any]
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")


def refuse(faults: Iterable[str], *, scope: Construct, construct_id: str, kind: str) -> None:
    """Return if there are no `faults`.

    Call it before anything is created, so that a refused construct leaves nothing in the tree.

    Raises:
        ValueError: There are faults; names the construct and all of them.
    """
    found = [*faults]
    if found:
        path = "/".join(part for part in (scope.node.path, construct_id) if part)
        raise ValueError(f"{kind} {path!r} is wrong: " + "; ".join(found))


def override_faults(
    given: Mapping[str, object] | None, *, name: str, of: type, fixed: Mapping[str, str]
) -> list[str]:
    """What is wrong with properties that are passed through to a construct of the CDK.

    Args:
        given: What the caller overrides, by the CDK's own names.
        name: The argument that they came in.
        of: The class of the CDK that takes them.
        fixed: What nobody may override, with the reason.
    """
    # The class itself is called through jsii's metaclass, which takes anything.
    known = inspect.signature(vars(of)["__init__"]).parameters
    faults = []
    for key in sorted(given or {}):
        if key in fixed:
            faults.append(f"{name}[{key!r}] cannot be overridden: {fixed[key]}")
        elif key not in known:
            faults.append(f"{name}[{key!r}] is no property of {of.__name__}")
    return faults


def overridden(defaults: Mapping[str, Any], given: Mapping[str, object] | None) -> Props:
    """The properties for a construct of the CDK: our defaults, and what overrides them.

    None leaves our default as it is; the CDK's own would be a less safe one.
    """
    return {**defaults, **without_none(given)}


def without_none(given: Mapping[str, object] | None) -> Props:
    """What was given, without what says nothing."""
    return {name: value for name, value in (given or {}).items() if value is not None}


def refuse_route(api: Construct, method: str, path: str) -> None:
    """Return if `api` can have this route.

    Raises:
        ValueError: There is no such method or path; names the API and the route.
    """
    faults: list[str] = []
    if method not in METHODS:
        faults.append(f"method {method!r}: one of {', '.join(METHODS)}")
    if not path.startswith("/"):
        faults.append(f"path {path!r} must begin with a slash")
    refuse(faults, scope=api, construct_id=f"{method} {path}", kind=type(api).__name__)
