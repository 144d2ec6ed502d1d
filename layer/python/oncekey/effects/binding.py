"""Binds an operation object to the run that carries out its steps and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.outbox import Outbox, Source
from oncekey.effects.recorded_work import RecordedWork
from oncekey.effects.transaction import Transaction
from oncekey.flow.driver import drive, never
from oncekey.store.late import LateStore
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.effects.bare_run import BareRun
    from oncekey.effects.journal import Journal
    from oncekey.effects.operation import Operation
    from oncekey.flow.commands import Flow, Invoke, Result
    from oncekey.store.store import Store


def bind_effects(
    operation: Operation, run: Journal | BareRun, store: Callable[[], Store], clock: Clock
) -> Operation:
    """`operation` with the steps, transaction and outbox of `run`.

    `store` is called when the store is first used.
    """
    late: Any = LateStore(store)

    def driven(flow: Flow[Any]) -> Any:
        return drive(flow, store=late, clock=clock)

    async def driven_async(flow: Flow[Any]) -> Any:
        # Only coroutines need asyncio, whose import is slow.
        from oncekey.flow.driver_async import drive_async

        return await drive_async(
            flow, store=late, clock=clock, invocation=never_async, has_begun=True
        )

    record = getattr(run, "record", None)
    source = Source(
        operation_id=operation.operation_id,
        operation=operation.name,
        tenant=operation.tenant,
        owner=record.owner if record is not None else "bare",
        now_ms=clock.now_ms,
        position=lambda: run.commits_passed,
        has_outbox=lambda: store().has_outbox,
        has_bucket=lambda: store().has_bucket,
        traceparent=record.traceparent if record is not None else "",
    )
    check = run.use.check_outside_step
    work = RecordedWork(
        run=run,
        use=run.use,
        transaction=Transaction(run.collected, check),
        outbox=Outbox(run.collected, check, source),
        collected=run.collected,
        drive=driven,
        drive_async=driven_async,
    )
    return replace(operation, _work=work)


async def never_async(command: Invoke) -> Result:
    """Is never called, because no command of a running handler runs a handler."""
    return never(command)
