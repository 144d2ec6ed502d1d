"""Carrying out a call: its flow, and the one place where a handler is called or awaited.

`run` and `run_async` are all that differs between a function and a coroutine function.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oncekey.effects import proofs
from oncekey.effects.bare_run import BareRun
from oncekey.effects.binding import bind_effects
from oncekey.effects.operation import running
from oncekey.effects.raised import passed_on
from oncekey.engine.engine import attempt, run_bare
from oncekey.engine.request import remaining_ms
from oncekey.engine.reservation import reserve
from oncekey.flow.driver import drive
from oncekey.quotas.memory import memory_of
from oncekey.record.outcome import Failed, Outcome, Reason, Refusal
from oncekey.settings import DEFAULT_LEASE_MS, STORE_TIMEOUT_MS
from oncekey.store.breaker import breaker_of
from oncekey.store.late import LateStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from oncekey.clock import Clock
    from oncekey.effects.operation import Operation
    from oncekey.effects.proofs import Attempting
    from oncekey.engine.engine import Reserving
    from oncekey.engine.request import Request
    from oncekey.flow.commands import Flow, Invoke, Result
    from oncekey.record.record import Effects
    from oncekey.store.store import Store

# When the invocation ends that is being carried out: what is called below it has no more time.
enclosing_deadline_ms: ContextVar[int | None] = ContextVar("oncekey_deadline_ms", default=None)


def run(
    flow: Flow[Any], handler: Callable[[Operation], Any], store: Callable[[], Store], clock: Clock
) -> Any:
    """What `flow` comes to, whose handler is `handler`; the exception of a `Failed` is raised.

    `store` makes the store when something is first asked of it.
    """
    late: Any = LateStore(store)

    def invocation(command: Invoke) -> Result:
        operation = _operation(command, late.made, clock)
        try:
            with running(operation):
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
    from oncekey.flow.driver_async import drive_async  # noqa: PLC0415

    late: Any = LateStore(store)

    async def invocation(command: Invoke) -> Result:
        operation = _operation(command, late.made, clock)
        try:
            with running(operation):
                value = await handler(operation)
        except BaseException as error:  # noqa: BLE001 -- its record comes first; it is raised again then
            return command.raised(error)
        return command.returned(value, operation)

    return _given(await drive_async(flow, store=late, clock=clock, invocation=invocation))


async def protected(
    request: Request,
    store: Store,
    clock: Clock,
    *,
    is_not_executed: Callable[[BaseException], bool],
    returned: Callable[[Any, Operation], Result],
    raised: Callable[[BaseException], Result],
    reserving: Reserving = reserve,
) -> Outcome:
    """Carry out `request` behind the breaker; see `oncekey.engine.engine.attempt`."""
    breaker = breaker_of(store)
    refused_for_ms = breaker.refuses_for_ms(clock.now_ms())
    if refused_for_ms:
        return Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=refused_for_ms)
    if request.quota is not None:
        request = replace(request, quota_memory=memory_of(store))
    with _attempting(request.deadline_ms) as mine:
        outcome = await attempt(
            request,
            clock,
            call_timeout_ms=store.call_timeout_ms,
            is_not_executed=is_not_executed,
            is_spent=mine.is_spent,
            has_bucket=store.has_bucket,
            reserving=reserving,
            returned=returned,
            raised=raised,
        )
    if isinstance(outcome, Refusal) and outcome.is_outage:
        breaker.failed(clock.now_ms())
    else:
        breaker.succeeded()
    return outcome


async def unprotected(
    operation: Operation,
    effects: Effects,
    context: Any,
    clock: Clock,
    *,
    is_not_executed: Callable[[BaseException], bool],
    returned: Callable[[Any, Operation], Result],
    raised: Callable[[BaseException], Result],
) -> Outcome:
    """Run the handler of `operation` without a record.

    The store is asked for nothing, unless the handler has collected something to be applied.
    """
    left_ms = remaining_ms(context)
    bare = BareRun(
        operation_id=operation.operation_id,
        clock=clock,
        until_ms=clock.now_ms() + (DEFAULT_LEASE_MS if left_ms is None else left_ms),
        call_timeout_ms=STORE_TIMEOUT_MS,
        raised=raised,
    )
    with _attempting(bare.until_ms) as mine:
        return await run_bare(
            operation,
            bare,
            effects,
            is_not_executed=is_not_executed,
            returned=returned,
            raised=raised,
            is_spent=mine.is_spent,
        )


@contextmanager
def _attempting(deadline_ms: int) -> Generator[Attempting]:
    """What is called below knows the deadline, and whose proof a `NotExecuted` is."""
    token = enclosing_deadline_ms.set(deadline_ms)
    mine, around = proofs.begin()
    try:
        yield mine
    finally:
        proofs.end(mine, around)
        enclosing_deadline_ms.reset(token)


def _operation(command: Invoke, store: Callable[[], Store], clock: Clock) -> Operation:
    operation: Operation = command.operation
    if command.journal is None:
        return operation
    return bind_effects(operation, command.journal, store, clock)


def _given(outcome: Any) -> Any:
    # It is raised out here because a coroutine cannot raise `StopIteration`.
    if isinstance(outcome, Failed):
        raise passed_on(outcome.error)
    return outcome
