"""The environment variables, as an object that stays the same while no variable changes.

Values computed from the environment are kept, and computed again only after a variable has changed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


# Lambda's runtime sets it anew for each invocation. No setting depends on it.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
_OF_ONE_INVOCATION = "_X_AMZN_TRACE_ID"


class Environment:
    """The variables at one time, without those of one invocation.

    Two of them are equal only if they are the same object.
    """

    __slots__ = ("_lasting", "_raw", "variables")

    def __init__(self, raw: Mapping[Any, Any]) -> None:
        # A copy, because another thread may change the variables meanwhile.
        self._raw = dict(raw)
        self._lasting = _lasting(self._raw)
        self.variables: dict[str, str] = {
            os.fsdecode(name): os.fsdecode(value) for name, value in self._lasting.items()
        }

    def is_current(self, raw: Mapping[Any, Any]) -> bool:
        """Whether `raw` has the same variables as this object."""
        if self._raw == raw:
            return True
        copied = dict(raw)
        if self._lasting != _lasting(copied):
            return False
        # The next comparisons within this invocation are quick again.
        self._raw = copied
        return True


def _lasting(raw: Mapping[Any, Any]) -> dict[Any, Any]:
    lasting = dict(raw)
    lasting.pop(_OF_ONE_INVOCATION, None)
    lasting.pop(_OF_ONE_INVOCATION.encode(), None)
    return lasting


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


def renew() -> None:
    """Make `environment()` return another object, so that all values kept for it are made again."""
    global _known  # noqa: PLW0603 -- one process has one environment
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
