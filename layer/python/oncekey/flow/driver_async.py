"""Carries out a flow's commands for a coroutine: calls of the store leave the event loop free."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from inspect import CORO_CLOSED, getcoroutinestate
from typing import TYPE_CHECKING, NoReturn, TypeVar

from oncekey.flow.commands import Command, Flow, Invoke, Pause
from oncekey.flow.driver import never, perform

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.clock import Clock
    from oncekey.flow.commands import Result
    from oncekey.store.store import Store

R = TypeVar("R")


async def drive_async(
    flow: Flow[R],
    *,
    store: Store,
    clock: Clock,
    invocation: Callable[[Invoke], Awaitable[Result]],
    has_begun: bool = False,
) -> R:
    """Run `flow` to its end and return its result. What the flow raises is raised.

    A call of the store is not interrupted: a cancellation waits until it has ended. Before the
    handler has begun it is then thrown into the flow, which takes back what it has reserved.
    Cancelled in the handler, the flow first records that, like any other interruption, and while it
    records, a cancellation waits until the record is written. `has_begun`: the handler is running
    already, and this flow is a part of it.
    """
    cancelled: asyncio.CancelledError | None = None
    go_on: Callable[[], Command] = partial(flow.send, None)
    try:
        while True:
            try:
                command = go_on()
                if isinstance(command, Invoke):
                    has_begun = True
                    reply: object = await invocation(command)
                elif isinstance(command, Pause) and not has_begun:
                    reply = await _sent(command, store, clock)
                else:
                    call = _sent(command, store, clock)
                    came = await _uninterrupted(call)
                    cancelled = came or cancelled
                    # Cancelled before the handler has begun, the flow is told in place of the
                    # reply.
                    reply = call.result() if came is None or has_begun else _raise(came)
                go_on = partial(flow.send, reply)
            except StopIteration as end:
                if cancelled is not None:
                    raise cancelled from None
                result: R = end.value
                return result
            except GeneratorExit:
                # The coroutine is closed: nothing can be awaited any more, and the lease runs out.
                raise
            except BaseException as error:
                if getcoroutinestate(flow) == CORO_CLOSED:
                    if cancelled is not None and error is not cancelled:
                        # What the flow had to say of it is recorded; the cancellation is its
                        # caller's.
                        raise cancelled from error
                    raise
                if isinstance(error, asyncio.CancelledError):
                    # What the flow still asks for is to record that.
                    has_begun = True
                go_on = partial(flow.throw, error)
    finally:
        flow.close()


def _raise(cancelled: asyncio.CancelledError) -> NoReturn:
    raise cancelled


async def _uninterrupted(call: asyncio.Future[object]) -> asyncio.CancelledError | None:
    """Wait for `call` to end; the cancellation that came meanwhile, if any."""
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _sent(command: Command, store: Store, clock: Clock) -> asyncio.Future[object]:
    # No task: whoever cancels all tasks of a loop must not give up a call that goes on.
    loop = asyncio.get_running_loop()
    context = copy_context()

    def carry_out() -> object:
        return context.run(perform, command, store, clock, never)

    try:
        return loop.run_in_executor(None, carry_out)
    except RuntimeError:
        # The loop's threads are gone because it is closing: what is to be recorded still is.
        done: asyncio.Future[object] = loop.create_future()
        done.set_result(carry_out())
        return done
