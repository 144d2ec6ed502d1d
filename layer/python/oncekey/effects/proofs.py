"""Whose proof a `NotExecuted` is: it speaks of the operation that it left, not of those around it.

Nothing is written on the exception: an author may raise one object again and again. Each attempt
remembers which ones have come to it out of an idempotent function below.
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
    """An attempt under way, and the proofs that functions below it have given of themselves."""

    thread: int = field(default_factory=threading.get_ident)
    # By identity. What is gone cannot be raised again.
    _heard: dict[int, weakref.ref[BaseException]] = field(default_factory=dict, repr=False)

    def hear(self, error: BaseException) -> None:
        """`error` has left an idempotent function that this attempt may have called."""
        number, heard = id(error), self._heard
        heard[number] = weakref.ref(error, lambda _gone: heard.pop(number, None))

    def is_spent(self, error: BaseException) -> bool:
        """Whether `error` speaks of a function below."""
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
    """`error` is raised to the caller of an idempotent function: it is no proof of theirs.

    A thread that the caller began may know nothing of it. So what leaves a function there may come
    to any attempt in another thread.
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
    """Whether `error` speaks of a function below the attempt at hand."""
    around = _around.get()
    return bool(around) and around[-1].is_spent(error)
