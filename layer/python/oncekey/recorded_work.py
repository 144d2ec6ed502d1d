"""What the operation object of a recorded operation can do, carried out at once."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.errors import Final, NotExecuted
from oncekey.handlers import is_awaitable, is_coroutine_function, never_awaited
from oncekey.recorded_errors import EffectMisused
from oncekey.results import decode, encode
from oncekey.step_results import final_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.commands import Flow
    from oncekey.effect_use import Use
    from oncekey.outbox import Outbox
    from oncekey.step_results import Found
    from oncekey.transaction import Collected, Transaction


class Run(Protocol):
    """The flows of a run: a `Journal`, or a `BareRun` outside any record."""

    def begin(self, name: str, *, is_idempotent: bool) -> Flow[Found | None]:
        """See `oncekey.journal.Journal.begin`."""
        ...

    def finish(self, name: str, text: str | None, *, is_final: bool = False) -> Flow[None]:
        """See `oncekey.journal.Journal.finish`."""
        ...

    def fail(self, name: str, error: BaseException) -> Flow[None]:
        """See `oncekey.journal.Journal.fail`."""
        ...

    def commit(self, name: str) -> Flow[None]:
        """See `oncekey.journal.Journal.commit`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWork:
    """Steps and commits of one run, whose flows `drive` and `drive_async` carry out.

    `drive_async` is not interrupted: a cancellation is raised once the flow has ended.
    """

    run: Run
    use: Use
    transaction: Transaction
    outbox: Outbox
    collected: Collected
    drive: Callable[[Flow[Any]], Any] = field(repr=False)
    drive_async: Callable[[Flow[Any]], Awaitable[Any]] = field(repr=False)

    def step(self, name: str, function: Callable[[], Any], *, is_idempotent: bool) -> Any:
        """See `oncekey.operation.Operation.step`."""
        self.use.check_outside_step(f"op.step({name!r})")
        _check_function(name, function)
        if is_coroutine_function(function):
            raise EffectMisused(
                f"op.step({name!r}) was given a coroutine function: use `await op.step_async(...)`"
            )
        with self.use.inside(name):
            found: Found | None = self.drive(self.run.begin(name, is_idempotent=is_idempotent))
            if found is not None:
                return found.given()
            try:
                value = _called(name, function)
            except BaseException as error:
                self.drive(self._failed(name, error))
                raise
            text, mistake = _stored_form(value)
            self.drive(self.run.finish(name, text))
        return _first_answer(text, mistake)

    async def step_async(
        self, name: str, function: Callable[[], Awaitable[Any]], *, is_idempotent: bool
    ) -> Any:
        """See `oncekey.operation.Operation.step_async`."""
        self.use.check_outside_step(f"op.step_async({name!r})")
        _check_function(name, function)
        with self.use.inside(name):
            found: Found | None = await self._begun(name, is_idempotent=is_idempotent)
            if found is not None:
                return found.given()
            try:
                value = await _awaitable(name, function)
            except BaseException as error:
                await self.drive_async(self._failed(name, error))
                raise
            text, mistake = _stored_form(value)
            await self.drive_async(self.run.finish(name, text))
        return _first_answer(text, mistake)

    def commit(self, name: str) -> None:
        """See `oncekey.operation.Operation.commit`."""
        self.use.check_outside_step(f"op.commit({name!r})")
        with self.use.inside(name):
            self.drive(self.run.commit(name))

    async def commit_async(self, name: str) -> None:
        """See `oncekey.operation.Operation.commit_async`."""
        self.use.check_outside_step(f"op.commit_async({name!r})")
        with self.use.inside(name):
            await self.drive_async(self.run.commit(name))

    def discard(self) -> None:
        """See `oncekey.operation.Operation.discard`."""
        self.use.check_outside_step("op.discard")
        self.collected.take()

    async def _begun(self, name: str, *, is_idempotent: bool) -> Found | None:
        try:
            found: Found | None = await self.drive_async(
                self.run.begin(name, is_idempotent=is_idempotent)
            )
        except asyncio.CancelledError:
            # It is marked and was never called: that is known.
            await self.drive_async(self.run.fail(name, NotExecuted("never called")))
            raise
        return found

    def _failed(self, name: str, error: BaseException) -> Flow[None]:
        if not isinstance(error, Final):
            return self.run.fail(name, error)
        try:
            return self.run.finish(name, final_text(error), is_final=True)
        except TypeError:
            return self.run.finish(name, None, is_final=True)


def _check_function(name: str, function: object) -> None:
    if not callable(function):
        raise EffectMisused(
            f"the step {name!r} was given {type(function).__name__}, which is no function: write"
            " `lambda: ...`, so that it is called only if the step has not finished"
        )


def _stored_form(value: Any) -> tuple[str | None, TypeError | None]:
    try:
        return encode(value), None
    except TypeError as mistake:
        return None, mistake


def _first_answer(text: str | None, mistake: TypeError | None) -> Any:
    # The first run gets what a resumed one would get.
    if text is None:
        assert mistake is not None
        raise mistake
    return decode(text)


def _called(name: str, function: Callable[[], Any]) -> Any:
    value = function()
    if is_awaitable(value):
        never_awaited(value)
        raise EffectMisused(
            f"the function of the step {name!r} returned an awaitable, which nobody awaits: use"
            " `await op.step_async(...)`"
        )
    return value


def _awaitable(name: str, function: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
    made: object = function()
    if not inspect.isawaitable(made):
        raise EffectMisused(
            f"the function of the step {name!r} returned no awaitable: use `op.step(...)`"
        )
    return made
