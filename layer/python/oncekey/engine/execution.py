"""Carrying out a call: its flow, and the one place where a handler is called or awaited.

`run` and `run_async` are all that differs between a function and a coroutine function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.raised import passed_on
from oncekey.flow.driver import drive
from oncekey.record.outcome import Failed
from oncekey.store.late import LateStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.flow.commands import Flow, Invoke, Result
    from oncekey.store.store import Store


def run(
    flow: Flow[Any], handler: Callable[[Operation], Any], store: Callable[[], Store], clock: Clock
) -> Any:
    """What `flow` comes to, whose handler is `handler`; the exception of a `Failed` is raised.

    `store` makes the store when something is first asked of it.
    """
    late: Any = LateStore(store)

    def invocation(command: Invoke) -> Result:
        operation = _operation(command, late.made, clock)
        with command.running:
            try:
                value = handler(operation)
            except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
                return command.raised(error)
            return command.returned(value, operation)

    return _given(drive(flow, store=late, clock=clock, invocation=invocation))


async def run_async(
    flow: Flow[Any],
    handler: Callable[[Operation], Awaitable[Any]],
    store: Callable[[], Store],
    clock: Clock,
) -> Any:
    """The same for a coroutine function; calls of the store leave the event loop free."""
    # Only coroutines need asyncio, which takes a fifth of all imports.
    from oncekey.flow.driver_async import drive_async

    late: Any = LateStore(store)

    async def invocation(command: Invoke) -> Result:
        operation = _operation(command, late.made, clock)
        with command.running:
            try:
                value = await handler(operation)
            except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
                return command.raised(error)
            return command.returned(value, operation)

    return _given(await drive_async(flow, store=late, clock=clock, invocation=invocation))


def _operation(command: Invoke, store: Callable[[], Store], clock: Clock) -> Operation:
    operation: Operation = command.operation
    if command.journal is None:
        return operation
    from oncekey.effects.binding import bind_effects

    operation = bind_effects(operation, command.journal, store, clock)
    command.running.operation = operation
    return operation


def _given(outcome: Any) -> Any:
    # It is raised out here because a coroutine cannot raise `StopIteration`.
    if isinstance(outcome, Failed):
        raise passed_on(outcome.error)
    return outcome
