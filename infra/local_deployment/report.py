"""Prints each step and its time, as soon as it is done."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Report:
    """Lines for a person who waits.

    Args:
        say: Takes each line as soon as it is known.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._begun_s = time.monotonic()

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Tell of the block, once it has ended without an exception."""
        begun_s = time.monotonic()
        yield
        self._say(f"  {time.monotonic() - begun_s:6.1f} s  {what}")

    def total(self, what: str) -> None:
        """Tell how long everything so far has taken."""
        self._say(f"  {time.monotonic() - self._begun_s:6.1f} s  {what}")
