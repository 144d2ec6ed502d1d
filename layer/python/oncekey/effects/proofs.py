"""Which operation a `NotExecuted` covers: the one that raised it, and not the calling operations.

The exception itself is not marked, because an author may raise the same object repeatedly. Instead,
each attempt remembers the exceptions that came from idempotent functions below it.
"""

from __future__ import annotations

import threading
import weakref
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey.effects.raised import leaves
from oncekey.errors import NotExecuted

if TYPE_CHECKING:
    from contextvars import Token


@dataclass(eq=False, slots=True)
class Attempting:
    """A running attempt, and the exceptions that came from idempotent functions below it."""

    thread: int = field(default_factory=threading.get_ident)
    # By identity. A deleted exception cannot be raised again, so its entry may go.
    _heard: dict[int, weakref.ref[BaseException]] = field(default_factory=dict, repr=False)

    def hear(self, error: BaseException) -> None:
        """Note that an idempotent function, which this attempt may have called, raised `error`."""
        number, heard = id(error), self._heard
        heard[number] = weakref.ref(error, lambda _gone: heard.pop(number, None))

    def is_spent(self, error: BaseException) -> bool:
        """Whether `error` came from a function below, so that it proves nothing here."""
        heard = self._heard.get(id(error))
        return heard is not None and heard() is error


_around: ContextVar[tuple[Attempting, ...]] = ContextVar("oncekey_attempts", default=())
_under_way: set[Attempting] = set()


def begin() -> tuple[Attempting, Token[tuple[Attempting, ...]]]:
    """An attempt begins here."""
    attempt = Attempting()
    token = _around.set((*_around.get(), attempt))
    _under_way.add(attempt)
    return attempt, token


def end(attempt: Attempting, token: Token[tuple[Attempting, ...]]) -> None:
    """It has ended."""
    _under_way.discard(attempt)
    _around.reset(token)


def leaves_function(error: BaseException) -> None:
    """Note that `error` leaves an idempotent function. It is no proof for the calling attempts.

    In a thread that an attempt started, the attempt is not known. So an error that leaves a
    function there is noted for every attempt in another thread.
    """
    around: tuple[Attempting, ...] = _around.get()
    if not around:
        here = threading.get_ident()
        around = tuple(attempt for attempt in tuple(_under_way) if attempt.thread != here)
    for each in leaves(error):
        if isinstance(each, NotExecuted):
            for attempt in around:
                attempt.hear(each)


def is_spent(error: BaseException) -> bool:
    """Whether `error` came from a function below the current attempt."""
    around = _around.get()
    return bool(around) and around[-1].is_spent(error)
