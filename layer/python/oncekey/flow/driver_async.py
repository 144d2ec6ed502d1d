"""Carries out a flow's commands for a coroutine. Calls of the store do not block the event loop."""

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
    """Run `flow` to its end and return its result, or raise the flow's exception.

    A cancellation does not interrupt a call of the store, but waits until the call has ended. What
    happens then depends on the handler. Before the handler has begun, the cancellation is thrown
    into the flow, which gives back its reservation. In the handler, the cancellation is an
    exception of the handler, and the flow records it like any other. After the handler, the
    cancellation is raised once the flow has recorded the end. `has_begun` is True if this flow is a
    part of a running handler. A cancellation is then raised once the flow has ended.
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
                    # Before the handler has begun, the flow gets the cancellation instead of the
                    # reply.
                    reply = call.result() if came is None or has_begun else _raise(came)
                go_on = partial(flow.send, reply)
            except StopIteration as end:
                if cancelled is not None:
                    raise cancelled from None
                result: R = end.value
                return result
            except GeneratorExit:
                # The coroutine is closed and can await nothing more. The lease runs out.
                raise
            except BaseException as error:
                if getcoroutinestate(flow) == CORO_CLOSED:
                    if cancelled is not None and error is not cancelled:
                        # The flow has recorded the end. Its caller must see the cancellation.
                        raise cancelled from error
                    raise
                if isinstance(error, asyncio.CancelledError):
                    # The flow's remaining commands record the cancellation. None is interrupted.
                    has_begun = True
                go_on = partial(flow.throw, error)
    finally:
        flow.close()


def _raise(cancelled: asyncio.CancelledError) -> NoReturn:
    raise cancelled


async def _uninterrupted(call: asyncio.Future[object]) -> asyncio.CancelledError | None:
    """Wait until `call` has ended. Returns the last cancellation that came meanwhile, or None."""
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


def _sent(command: Command, store: Store, clock: Clock) -> asyncio.Future[object]:
    # This is a future and not a task. Code that cancels all tasks of the loop must not cancel it,
    # because the call continues in its thread.
    loop = asyncio.get_running_loop()
    context = copy_context()

    def carry_out() -> object:
        return context.run(perform, command, store, clock, never)

    try:
        return loop.run_in_executor(None, carry_out)
    except RuntimeError:
        # The loop is closing and its threads are gone. The call is still made, in this thread, so
        # that the end is recorded.
        done: asyncio.Future[object] = loop.create_future()
        done.set_result(carry_out())
        return done
