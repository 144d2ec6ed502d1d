"""The attempts whose handlers are running, with their operations and deadlines.

A `NotExecuted` covers the operation that raised it, and not the calling operations. The exception
itself is not marked, because an author may raise the same object repeatedly. Instead, each attempt
remembers the exceptions that came from idempotent functions below it.
"""

from __future__ import annotations

import threading
import weakref
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from oncekey.effects.raised import leaves
from oncekey.errors import NotExecuted
from oncekey.flow.commands import Raised

if TYPE_CHECKING:
    from oncekey.effects.operation import Operation
    from oncekey.flow.commands import Invoke, Result


class RunningAttempt:
    """One attempt. Inside its `with` block, the handler runs and this is the current attempt.

    `deadline_ms` is when its invocation ends (epoch milliseconds), and with it everything that the
    handler calls. `is_handed_out` is True once the handler may have begun. `ran_ms` is when the
    handler began and ended, if metrics are on.
    """

    __slots__ = (
        *("__weakref__", "_heard", "_token", "deadline_ms", "is_handed_out", "operation"),
        *("ran_ms", "thread"),
    )

    def __init__(self, operation: Operation, deadline_ms: int) -> None:
        self.operation = operation
        self.deadline_ms = deadline_ms
        self.is_handed_out = False
        self.ran_ms: tuple[int, int] | None = None
        self.thread = 0
        self._token: Token[tuple[RunningAttempt, ...]] | None = None
        # By identity. A deleted exception cannot be raised again, so its entry may go.
        self._heard: dict[int, weakref.ref[BaseException]] = {}

    def __enter__(self) -> None:
        """The handler begins, in this thread and this context."""
        self.thread = threading.get_ident()
        self._token = _around.set((*_around.get(), self))
        _under_way.add(self)

    def __exit__(self, *_: object) -> None:
        """The handler has ended."""
        _under_way.discard(self)
        if self._token is not None:
            try:  # noqa: SIM105 -- every request passes here, and `suppress` is slower
                _around.reset(self._token)
            except ValueError:
                # A coroutine that the garbage collector closes ends in another context.
                pass
            self._token = None

    def hear(self, error: BaseException) -> None:
        """Note that an idempotent function, which this attempt may have called, raised `error`."""
        number, heard = id(error), self._heard
        heard[number] = weakref.ref(error, lambda _gone: heard.pop(number, None))

    def is_spent(self, error: BaseException) -> bool:
        """Whether `error` came from an idempotent function below, and so proves nothing here."""
        heard = self._heard.get(id(error))
        return heard is not None and heard() is error


_around: ContextVar[tuple[RunningAttempt, ...]] = ContextVar("oncekey_attempts", default=())
_under_way: set[RunningAttempt] = set()


def current_operation() -> Operation:
    """The running operation, from anywhere below its handler.

    Raises:
        LookupError: no decorated handler is running.
    """
    around = _around.get()
    if not around:
        raise LookupError(
            "no oncekey operation is running here:"
            " call this below a handler decorated with @idempotent"
        )
    return around[-1].operation


def enclosing_deadline_ms() -> int | None:
    """When the invocation of the running handler ends; None if no handler is running here."""
    around = _around.get()
    return around[-1].deadline_ms if around else None


def leaves_function(error: BaseException) -> None:
    """Note that `error` leaves an idempotent function. It is no proof for the calling attempts.

    In a thread that an attempt started, the attempt is not known. So an error that leaves a
    function there is noted for every attempt in another thread.
    """
    around: tuple[RunningAttempt, ...] = _around.get()
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


async def run_handler(invoke: Invoke) -> Result:
    """Run the handler and return its result. Then its operation object can no longer be used."""
    invoke.running.is_handed_out = True
    try:
        result = await invoke
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 -- it is recorded first, and then raised
        # The error was raised outside the handler, which may have ended or not. So it proves
        # nothing.
        result = Raised(error, has_returned=True)
    if invoke.journal is not None:
        invoke.journal.close()
    return result
