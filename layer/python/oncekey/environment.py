"""The environment variables, as an object that stays the same while no variable changes.

Values computed from the environment are kept, and computed again only after a variable has changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class Environment:
    """The variables at one time. Two of them are equal only if they are the same object."""

    __slots__ = ("_raw", "variables")

    def __init__(self, raw: Mapping[str | bytes, str | bytes]) -> None:
        self._raw = dict(raw)
        self.variables: dict[str, str] = {
            os.fsdecode(name): os.fsdecode(value) for name, value in raw.items()
        }

    def is_current(self, raw: object) -> bool:
        """Whether `raw` has the variables from which this object was made."""
        return self._raw == raw


class OncePerEnvironment(Generic[T]):
    """What `make` returns: made at first use, and again after the environment has changed."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[Environment, T] | None = None

    def __call__(self) -> T:
        """The value for the environment as it is now. What `make` raises is raised."""
        now, made = environment(), self._made
        if made is None or made[0] is not now:
            made = self._made = (now, self._make())
        return made[1]


_known = Environment({})


def environment() -> Environment:
    """The environment as it is now."""
    global _known  # noqa: PLW0603 -- one process has one environment
    # `os.environ` decodes a variable at each access. CPython keeps the undecoded ones in a plain
    # dictionary; to compare that one takes a microsecond.
    raw: Any = getattr(os.environ, "_data", None)
    if raw is None:
        raw = dict(os.environ)
    known = _known
    if not known.is_current(raw):
        known = _known = Environment(raw)
    return known
