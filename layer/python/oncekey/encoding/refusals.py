"""The error texts for a value that cannot be stored as a result, or cannot be read back.

They never contain the value: results are payloads, and these texts are logged.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

# A subclass of one of these may add behaviour, which a stored copy would lose.
_PLAIN = (dict, list, tuple, set, frozenset, str, bytes, bytearray, int, float)


class Unstorable(Exception):  # noqa: N818 -- a property of a value; becomes a TypeError with a path
    """A value cannot be stored. `what` is a noun with its article; `advice` is for the author."""

    def __init__(self, what: str, advice: str) -> None:
        self.what = what
        self.advice = advice
        super().__init__(what, advice)


class Unreadable(ValueError):  # noqa: N818 -- a property of a text
    """A stored result cannot be read. The message needs no more context."""


def refusal(value: object) -> Unstorable:
    """The error for `value`, whose type cannot be stored. The text depends on the type."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    if isinstance(value, FunctionType | BuiltinFunctionType | MethodType):
        return Unstorable("a function", "return what it computes")
    if isinstance(value, type):
        return Unstorable("a class", "return an instance, or the name of the class")
    if isinstance(value, ModuleType):
        return Unstorable("a module", "return data")
    if inspect.isawaitable(value):
        return Unstorable("an awaitable", "await it, and return what it gives")
    if isinstance(value, io.IOBase):
        return Unstorable("an open file", "return its content, or where it is stored")
    if isinstance(value, Iterator):
        return Unstorable(f"an iterator ({name})", "return a list of what it yields")
    for plain in _PLAIN:
        if issubclass(kind, plain):
            return Unstorable(
                f"a subclass of {plain.__name__} ({name})", f"return a plain {plain.__name__}"
            )
    return Unstorable(
        f"an object ({name})", "return plain values, a dataclass or a pydantic model instead"
    )


def step_of_key(key: Any) -> str:
    """A dictionary's `key` as a part of a path.

    Only names and numbers are shown, because a key can be a payload, such as an address.
    """
    if type(key) is int and abs(key) < 1_000_000:
        return f"[{key}]"
    if type(key) is str and len(key) <= _LONGEST_NAME and key.isascii() and key.isidentifier():
        return f"[{key!r}]"
    return f"[<{type(key).__name__}>]"


_LONGEST_NAME = 40
