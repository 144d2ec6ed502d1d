"""Carries out a call: drives its flow, and calls or awaits the handler, which happens only here.

Functions and coroutine functions differ only in `run` and `run_async`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.raised import leaves, passed_on
from oncekey.errors import CallNotAnswered
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
    """Run `flow`, which runs `handler`, and return its outcome. A `Failed` is raised instead.

    `store` is called when the store is first used.
    """
    late: Any = LateStore(store)
    raised: list[BaseException] = []

    def invocation(command: Invoke) -> Result:
        operation = _operation(command, late.made, clock)
        with command.running:
            try:
                value = handler(operation)
            except BaseException as error:  # noqa: BLE001 -- it is recorded first, and then raised
                raised.append(error)
                _leaves_operation(error)
                return command.raised(error)
            return command.returned(value, operation)

    return _given(drive(flow, store=late, clock=clock, invocation=invocation), raised)


async def run_async(
    flow: Flow[Any],
    handler: Callable[[Operation], Awaitable[Any]],
    store: Callable[[], Store],
    clock: Clock,
) -> Any:
    """The same for a coroutine function. Calls of the store do not block the event loop."""
    # Only coroutines need asyncio, whose import takes a fifth of the time of all imports.
    from oncekey.flow.driver_async import drive_async

    late: Any = LateStore(store)
    raised: list[BaseException] = []

    async def invocation(command: Invoke) -> Result:
        operation = _operation(command, late.made, clock)
        with command.running:
            try:
                value = await handler(operation)
            except BaseException as error:  # noqa: BLE001 -- it is recorded first, and then raised
                raised.append(error)
                _leaves_operation(error)
                return command.raised(error)
            return command.returned(value, operation)

    done = await drive_async(flow, store=late, clock=clock, invocation=invocation)
    return _given(done, raised)


def _operation(command: Invoke, store: Callable[[], Store], clock: Clock) -> Operation:
    operation: Operation = command.operation
    if command.journal is None:
        return operation
    from oncekey.effects.binding import bind_effects

    operation = bind_effects(operation, command.journal, store, clock)
    command.running.operation = operation
    return operation


def _leaves_operation(error: BaseException) -> None:
    # A call that was a part of this operation may have been completed. This operation was not.
    for each in leaves(error):
        if isinstance(each, CallNotAnswered) and each.completed:
            vars(each)["completed"] = False


def _given(outcome: Any, raised: list[BaseException]) -> Any:
    # The error is raised outside the flow, because a coroutine cannot raise `StopIteration`.
    if isinstance(outcome, Failed):
        raise passed_on(outcome.error)
    # What was raised is answered. Its author may raise the same object for each request, and Python
    # would add the frames of each, with their events, to those of the requests before.
    for error in raised:
        for each in leaves(error):
            each.__traceback__ = None
    return outcome
