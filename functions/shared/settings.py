"""What a function is told by its environment."""

from __future__ import annotations

import os

from oncekey import NotExecuted


class NotConfigured(NotExecuted):
    """The function lacks an environment variable; found before anything was sent."""


def seconds(name: str, *, default: int) -> int:
    """The environment variable `name`, a whole number of seconds, or `default` where it is not set.

    Raises:
        NotConfigured: it is something else.
    """
    value = os.environ.get(name)
    if not value:
        return default
    if not (value.isascii() and value.isdecimal()):
        raise NotConfigured(
            f"the environment variable {name} must be a whole number of seconds, 0 or more"
        )
    return int(value)


def setting(name: str) -> str:
    """The environment variable `name`.

    Raises:
        NotConfigured: it is not set, or empty.
    """
    value = os.environ.get(name)
    if not value:
        raise NotConfigured(f"the environment variable {name} is not set: set it for the function")
    return value
