"""Carries out a flow's commands one after the other in the calling thread."""

from __future__ import annotations

from inspect import CORO_CLOSED, getcoroutinestate
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from oncekey.flow.commands import (
    Command,
    Fetch,
    Flow,
    Invoke,
    Outside,
    Pause,
    Read,
    ReadCounter,
    ReadPauses,
    Save,
    Transact,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.flow.commands import Result
    from oncekey.store.store import Store

R = TypeVar("R")


def never(command: Invoke) -> Result:
    """The `invocation` for flows that run no handler."""
    raise AssertionError(f"Bug: {command.operation.name} is run by a flow that runs no handler")


class _NoStore:
    def __getattr__(self, verb: str) -> NoReturn:
        raise AssertionError(f"Bug: {verb} is asked of a flow that has no store")


# The `store` for flows that ask for nothing but calls outside.
NO_STORE = cast("Store", _NoStore())


def drive(
    flow: Flow[R],
    *,
    store: Store,
    clock: Clock,
    invocation: Callable[[Invoke], Result] = never,
) -> R:
    """Run `flow` to its end and return its result, or raise the flow's exception.

    Any exception of a command is thrown into the flow, including an exit or the exception of a
    signal handler, because only the flow knows what it has begun and must take back.
    """
    reply: object = None
    thrown: BaseException | None = None
    while True:
        try:
            command = flow.send(reply) if thrown is None else flow.throw(thrown)
            thrown = None
            reply = perform(command, store, clock, invocation)
        except StopIteration as end:
            result: R = end.value
            return result
        except BaseException as error:
            if getcoroutinestate(flow) == CORO_CLOSED:
                raise
            thrown = error


def perform(
    command: Command,
    store: Store,
    clock: Clock,
    invocation: Callable[[Invoke], Result],
) -> object:
    """Carry out one command, and return its reply."""
    match command:
        case Write():
            return store.write(command.transition)
        case Transact():
            return store.commit(command.commit)
        case Read():
            return store.read(command.pk)
        case ReadCounter():
            return store.counter(command.name)
        case ReadPauses():
            return store.pauses()
        case Save():
            store.save(command.blob)
            return None
        case Fetch():
            return store.fetch(command.at)
        case Pause():
            clock.pause(command.duration_ms)
            return None
        case Invoke():
            return invocation(command)
        case Outside():
            return command.carry_out()
