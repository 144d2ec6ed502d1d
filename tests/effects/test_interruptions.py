"""Attempts of recorded effects that are cancelled, or whose record is taken away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import idempotent, single_tenant
from oncekey.record.record import Status
from oncekey.testing.memory import ManualClock
from tests.support.protected import Context, problem_of
from tests.support.steps import POST, FaultyStore, Steps, step

if TYPE_CHECKING:
    from oncekey import Operation


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_work_whose_record_is_gone_is_not_said_to_be_undone(is_idempotent: bool) -> None:
    """A step has run and the record is not there any more: nobody can say what came of it."""
    service = Steps()

    answer = service.sends(
        step(
            "charge",
            is_idempotent=is_idempotent,
            then=lambda of: of.store.records.clear(),
        )
    )

    assert service.ran == ["charge"]
    assert problem_of(answer)[:2] == (409, "outcome-unknown")


def test_a_cancellation_is_passed_on_though_the_mark_was_never_confirmed() -> None:
    """A task that is cancelled while its store does not answer ends as cancelled, and its step has
    not run; what is known of it is recorded first.
    """
    store, clock = FaultyStore(), ManualClock()
    ran: list[str] = []

    async def charge() -> None:
        ran.append("charge")

    @idempotent(
        operation="POST /payments",
        tenant=single_tenant(),
        effects="recorded",
        store=store,
        clock=clock,
    )
    async def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
        await op.step_async("charge", charge)
        return {"statusCode": 201}

    async def scenario() -> bool:
        task = asyncio.ensure_future(handler(dict(POST), Context(clock, clock.now_ms() + 10_000)))
        store.refuse("StartStep", count=1000)
        cancelling = store.write

        def write(transition: Any) -> Any:
            if type(transition).__name__ == "StartStep":
                task.get_loop().call_soon_threadsafe(task.cancel)
            return cancelling(transition)

        store.write = write  # type: ignore[method-assign]
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(scenario())
    assert ran == []
    (record,) = store.records.values()
    assert record.status is Status.FAILED_RETRYABLE
