"""Carries out a flow's commands for a coroutine: calls of the store leave the event loop free."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from oncekey.commands import Command, Flow, Invoke
from oncekey.driver import never, perform
from oncekey.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.clock import Clock
    from oncekey.commands import Result
    from oncekey.store import Store

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

    Cancelled while the store is called before the handler has begun, it ends at once, and what was
    sent may be applied: the lease then runs out. Cancelled in the handler, the flow first records
    that, like any other interruption. While it records, it is not interrupted: a cancellation waits
    until the record is written. `has_begun`: the handler is running already, and this flow is a
    part of it.
    """
    cancelled: asyncio.CancelledError | None = None
    try:
        command = next(flow)
        while True:
            try:
                if isinstance(command, Invoke):
                    has_begun = True
                    reply: object = await invocation(command)
                elif has_begun:
                    call = asyncio.ensure_future(_perform(command, store, clock))
                    cancelled = await _uninterrupted(call) or cancelled
                    reply = call.result()
                else:
                    reply = await _perform(command, store, clock)
            except StoreError as error:
                command = flow.throw(error)
            else:
                command = flow.send(reply)
    except StopIteration as end:
        if cancelled is not None:
            raise cancelled from None
        result: R = end.value
        return result
    except BaseException as error:
        if cancelled is not None:
            # What the flow had to say of it is recorded; the cancellation is its caller's.
            raise cancelled from error
        raise
    finally:
        flow.close()


async def _uninterrupted(call: asyncio.Future[object]) -> asyncio.CancelledError | None:
    """Wait for `call` to end; the cancellation that came meanwhile, if any."""
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait({call})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


async def _perform(command: Command, store: Store, clock: Clock) -> object:
    try:
        return await asyncio.to_thread(perform, command, store, clock, never)
    except RuntimeError:
        # The loop's threads are gone because it is closing: what is to be recorded still is.
        return perform(command, store, clock, never)
