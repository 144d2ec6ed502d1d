"""What the body of a request gives: each member is read as the type that it must have.

A wrong type is the sender's mistake. It is never taken for another value, or for none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def text(given: Mapping[str, Any], name: str) -> str:
    """A text that may be left out, be null or be empty.

    Raises:
        ValueError: it is something else.
    """
    value = given.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text")  # noqa: TRY004 -- of the sender's, not of ours
    return value


def named(given: Mapping[str, Any], name: str) -> str:
    """A text that must be there.

    Raises:
        ValueError: it is not.
    """
    value = text(given, name)
    if not value.strip():
        raise ValueError(f"{name} must be a text")
    return value


def whole(given: Mapping[str, Any], name: str) -> int:
    """A whole number.

    Raises:
        ValueError: it is none. `true` and 1.0 are none either.
    """
    value = given.get(name)
    if type(value) is not int:
        raise ValueError(f"{name} must be a whole number")
    return value
