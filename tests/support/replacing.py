"""A copy with some fields changed, of the library's values and of dataclasses alike."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from oncekey.value import Value

T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:
    """A copy of `value` with these fields changed."""
    if isinstance(value, Value):
        return value.__replace__(**changes)
    changed: T = dataclasses.replace(value, **changes)  # type: ignore[type-var]  # it is a dataclass
    return changed
