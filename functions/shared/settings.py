"""What a function is told by its environment."""

from __future__ import annotations

import os

from oncekey import NotExecuted


class NotConfigured(NotExecuted):
    """The function lacks an environment variable; found before anything was sent."""


def setting(name: str) -> str:
    """The environment variable `name`.

    Raises:
        NotConfigured: it is not set, or empty.
    """
    value = os.environ.get(name)
    if not value:
        raise NotConfigured(f"the environment variable {name} is not set: set it for the function")
    return value
