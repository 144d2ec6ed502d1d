"""Carries out the steps and commits that a handler asks the operation object for."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oncekey.effects.handlers import (
    is_awaitable,
    is_coroutine_function,
    is_generator_function,
    never_awaited,
)
from oncekey.effects.raised import final_in
from oncekey.effects.step_results import final_text
from oncekey.encoding.results import decode, encode
from oncekey.errors import EffectMisused, InProgress
from oncekey.problem import is_our_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.effects.outbox import Outbox
    from oncekey.effects.step_results import Found
    from oncekey.effects.transaction import Collected, Transaction
    from oncekey.effects.usage_guard import UsageGuard
    from oncekey.errors import Final
    from oncekey.flow.commands import Flow


R = TypeVar("R")
# The least status of a refusal.
_REFUSED = 400


class Run(Protocol):
    """The flows of a run. It is a `Journal`, or a `BareRun` if there is no record."""

    def begin(self, name: str, *, is_idempotent: bool) -> Flow[Found | None]:
        """See `oncekey.effects.journal.Journal.begin`."""
        ...

    def finish(self, name: str, text: str | None, *, is_final: bool = False) -> Flow[None]:
        """See `oncekey.effects.journal.Journal.finish`."""
        ...

    def fail(self, name: str, error: BaseException) -> Flow[None]:
        """See `oncekey.effects.journal.Journal.fail`."""
        ...

    def take_back(self, name: str) -> Flow[None]:
        """See `oncekey.effects.journal.Journal.take_back`."""
        ...

    def commit(self, name: str) -> Flow[None]:
        """See `oncekey.effects.journal.Journal.commit`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWork:
    """The steps and commits of one run. `drive` and `drive_async` carry out its flows.

    A cancellation does not interrupt `drive_async`, which raises it once the flow has ended.
    """

    run: Run
    use: UsageGuard
    transaction: Transaction
    outbox: Outbox
    collected: Collected
    drive: Callable[[Flow[Any]], Any] = field(repr=False)
    drive_async: Callable[[Flow[Any]], Awaitable[Any]] = field(repr=False)

    def step(self, name: str, function: Callable[[], R], *, is_idempotent: bool) -> R:
        """See `oncekey.effects.operation.Operation.step`."""
        _check(name, function, is_idempotent)
        if is_coroutine_function(function):
            raise EffectMisused(
                f"op.step({name!r}) was given a coroutine function: use `await op.step_async(...)`"
            )
        self.use.open(name, f"op.step({name!r})")
        is_done = False
        try:
            result: R = self._step(name, function, is_idempotent=is_idempotent)
            is_done = True
            self.use.tell()
            return result  # noqa: TRY300 -- an exception here must be caught, too
        except BaseException:
            self.use.leave(name if is_done else None)
            raise

    async def step_async(
        self, name: str, function: Callable[[], Awaitable[R]], *, is_idempotent: bool
    ) -> R:
        """See `oncekey.effects.operation.Operation.step_async`."""
        _check(name, function, is_idempotent)
        self.use.open(name, f"op.step_async({name!r})")
        is_done = False
        try:
            result: R = await self._step_async(name, function, is_idempotent=is_idempotent)
            is_done = True
            self.use.tell()
            return result  # noqa: TRY300 -- an exception here must be caught, too
        except BaseException:
            self.use.leave(name if is_done else None)
            raise

    def commit(self, name: str) -> None:
        """See `oncekey.effects.operation.Operation.commit`."""
        self.use.open(name, f"op.commit({name!r})")
        is_done = False
        try:
            self.drive(self.run.commit(name))
            is_done = True
            self.use.tell()
        except BaseException:
            self.use.leave(name if is_done else None)
            raise

    async def commit_async(self, name: str) -> None:
        """See `oncekey.effects.operation.Operation.commit_async`."""
        self.use.open(name, f"op.commit_async({name!r})")
        is_done = False
        try:
            await self.drive_async(self.run.commit(name))
            is_done = True
            self.use.tell()
        except BaseException:
            self.use.leave(name if is_done else None)
            raise

    def discard(self) -> None:
        """See `oncekey.effects.operation.Operation.discard`."""
        self.use.check_outside_step("op.discard")
        self.collected.take()

    def _step(self, name: str, function: Callable[[], Any], *, is_idempotent: bool) -> Any:
        found: Found | None = self.drive(self.run.begin(name, is_idempotent=is_idempotent))
        if found is not None:
            return self._given(found)
        try:
            # This block has no other call. So every exception caught here came from the function,
            # or interrupted it.
            value = function()
        except BaseException as error:
            final = final_in(error)
            self.drive(self._failed(name, error, final))
            if final is not None and final is not error:
                self.use.untold = None
                # A resuming attempt raises the same.
                raise final from error
            self.use.untold = None
            raise
        if is_awaitable(value):
            never_awaited(value)
            misused = EffectMisused(
                f"the function of the step {name!r} returned an awaitable, which nobody awaits: use"
                " `await op.step_async(...)`"
            )
            self.drive(self.run.fail(name, misused))
            raise misused
        if _is_refused(value):
            self.drive(self._refused_below(name))
            return value
        stored = _stored_form(name, value)
        self.drive(self.run.finish(name, stored.text))
        return self._first_answer(stored)

    async def _step_async(
        self, name: str, function: Callable[[], Awaitable[Any]], *, is_idempotent: bool
    ) -> Any:
        import asyncio

        try:
            begins = self.run.begin(name, is_idempotent=is_idempotent)
            found: Found | None = await self.drive_async(begins)
        except asyncio.CancelledError:
            # The step may be marked, but its function was not called. So the mark can be removed.
            await self.drive_async(self.run.take_back(name))
            raise
        if found is not None:
            return self._given(found)
        try:
            value = await _awaitable(name, function)
        except GeneratorExit:
            # The coroutine is closed and can await nothing more. The step stays open.
            raise
        except BaseException as error:
            final = final_in(error)
            await self.drive_async(self._failed(name, error, final))
            if final is not None and final is not error:
                self.use.untold = None
                raise final from error
            self.use.untold = None
            raise
        if _is_refused(value):
            await self.drive_async(self._refused_below(name))
            return value
        stored = _stored_form(name, value)
        await self.drive_async(self.run.finish(name, stored.text))
        return self._first_answer(stored)

    def _refused_below(self, name: str) -> Flow[None]:
        """Note that the step got the "not now" of another operation, and so has not ended.

        On record as done, it would be the last word on what the other operation goes on with.
        """
        return self.run.fail(name, InProgress(operation=name))

    def _failed(self, name: str, error: BaseException, final: Final | None) -> Flow[None]:
        if final is None:
            return self.run.fail(name, error)
        try:
            text: str | None = final_text(final)
        except Exception:  # noqa: BLE001 -- its body may raise anything; its author is told when it is answered
            text = None
        return self.run.finish(name, text, is_final=True)

    def _given(self, found: Found) -> Any:
        if found.final is not None:
            self.use.untold = None
        return found.given()

    def _first_answer(self, stored: _Stored) -> Any:
        if stored.mistake is not None:
            if stored.is_known:
                self.use.untold = None
            raise stored.mistake
        return stored.value


@dataclass(frozen=True, slots=True)
class _Stored:
    """The result of a step: its stored text and the value of that text, or why it has no text.

    `is_known` is True if the author can know that this mistake means that the step was done. Any
    other mistake leaves the step untold, so that no answer of the handler is accepted.
    """

    text: str | None = field(repr=False)
    value: Any = field(default=None, repr=False)
    mistake: TypeError | None = None
    is_known: bool = True


def _check(name: str, function: Any, is_idempotent: object) -> None:
    if not callable(function):
        raise EffectMisused(
            f"the step {name!r} was given {type(function).__name__}, which is no function: write"
            " `lambda: ...`, so that it is called only if the step has not finished"
        )
    if is_generator_function(function):
        raise EffectMisused(
            f"the step {name!r} was given a generator, which a call only makes and nobody runs:"
            " return a list of what it yields"
        )
    if not isinstance(is_idempotent, bool):
        raise EffectMisused(
            f"the step {name!r} has idempotent={is_idempotent!r}: True or False is needed"
        )


def _is_refused(value: Any) -> bool:
    """Whether a step returned the "not now" of another protected operation.

    A 202 is none: the other operation has been accepted, which is what the step was for.
    """
    return is_our_refusal(value) and value["statusCode"] >= _REFUSED


def _stored_form(name: str, value: Any) -> _Stored:
    try:
        text = encode(value)
        # The first run gets the same value that a resumed run would get.
        return _Stored(text, decode(text))
    except TypeError as mistake:
        # An error with a cause was raised by an object's own code, or by a signal handler.
        return _Stored(None, mistake=mistake, is_known=mistake.__cause__ is None)
    except Exception as error:  # noqa: BLE001 -- the step is done, whatever its encoding raises
        told = TypeError(
            f"oncekey: the result of the step {name!r} was not stored, because of"
            f" {type(error).__name__}. The step is on record as done, and no attempt can resume"
            " after it"
        )
        told.__cause__ = error
        return _Stored(None, mistake=told, is_known=False)


def _awaitable(name: str, function: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
    made: object = function()
    if not inspect.isawaitable(made):
        raise EffectMisused(
            f"the function of the step {name!r} returned no awaitable: use `op.step(...)`"
        )
    return made
