"""Waits until something is there, by looking for it again and again, with pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Minutes in all, far longer than anything takes. After so many the test fails.
_LOOKS = 3_000
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 4, 100


def looks() -> Iterator[None]:
    """One item for each look, with a longer pause after each, up to a tenth of a second.

    A look at a running service is a request. Looks without a pause would keep front, function and
    store busy with nothing else.
    """
    clock, pause_ms = SystemClock(), _FIRST_PAUSE_MS
    for _ in range(_LOOKS):
        yield
        clock.pause(pause_ms)
        pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)


def until(holds: Callable[[], bool], otherwise: str = "it never came to hold") -> None:
    """Returns when it holds; raises `AssertionError` that says what is wrong `otherwise`."""
    for _ in looks():
        if holds():
            return
    raise AssertionError(otherwise)
