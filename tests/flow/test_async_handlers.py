"""Coroutine handlers: awaited, replayed, and cancelled at every point where they wait."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Final, NotExecuted, current_operation, idempotent, single_tenant
from oncekey.errors import StoreError
from oncekey.flow.commands import Read
from oncekey.flow.driver_async import drive_async
from oncekey.record.record import Status
from oncekey.record.transitions import Complete, MarkUnknown, Reserve
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.events import load, with_key
from tests.support.protected import headers_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey import Operation

POST = load("apigw_http_v2_post")
OPTIONS: dict[str, Any] = {"operation": "POST /payments", "tenant": single_tenant()}


class GatedStore(MemoryStore):
    """A store in which writes of one kind wait, in their thread, until the gate is opened."""

    def __init__(self, gated: type) -> None:
        super().__init__()
        self._gated = gated
        self._loop = asyncio.get_running_loop()
        self.entered = asyncio.Event()
        self.gate = threading.Event()

    def write(self, transition: Any) -> Any:
        """Wait at the gate, and write."""
        if isinstance(transition, self._gated):
            self._loop.call_soon_threadsafe(self.entered.set)
            assert self.gate.wait(timeout=30)
        return super().write(transition)

    def status(self) -> Status:
        """The status of the one record."""
        (record,) = self.records.values()
        return record.status


def handler_on(
    store: MemoryStore, body: Callable[[], Awaitable[Any]], **options: Any
) -> Callable[[dict[str, Any], None], Awaitable[Any]]:
    """A protected coroutine handler that does `body`."""

    @idempotent(**OPTIONS, **options, store=store)
    async def handler(_event: dict[str, Any], _context: None, op: Operation) -> Any:
        assert current_operation() is op
        return await body()

    return handler


async def answers() -> dict[str, Any]:
    """Answer after a wait."""
    await asyncio.sleep(0)
    return {"statusCode": 201, "body": "made"}


def test_a_coroutine_handler_is_awaited_once_and_replayed() -> None:
    """A coroutine function stays one; its answer is stored and replayed."""
    runs = []

    async def body() -> dict[str, Any]:
        runs.append(1)
        return await answers()

    handler = handler_on(MemoryStore(), body)
    assert inspect.iscoroutinefunction(handler)

    async def twice() -> list[Any]:
        return [await handler(POST, None), await handler(POST, None)]

    first, replay = asyncio.run(twice())

    assert first["body"] == replay["body"] == "made"
    assert headers_of(replay)["idempotent-replayed"] == "true"
    assert len(runs) == 1


def test_five_at_once_on_one_event_loop_run_once() -> None:
    """Coroutines with one key on one loop: one runs, the others are told to wait; with `wait` all
    get the one answer.
    """
    release: list[asyncio.Event] = []

    async def body() -> dict[str, Any]:
        await release[0].wait()
        return await answers()

    async def race(in_progress: str, store: MemoryStore) -> list[Any]:
        release[:] = [asyncio.Event()]
        handler = handler_on(store, body, in_progress=in_progress)
        tasks = [asyncio.ensure_future(handler(POST, None)) for _ in range(5)]
        if in_progress == "conflict":
            done: set[Any] = set()
            while len(done) < 4:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        release[0].set()
        return list(await asyncio.gather(*tasks))

    conflicting = asyncio.run(race("conflict", MemoryStore()))
    assert sorted(answer["statusCode"] for answer in conflicting) == [201, 409, 409, 409, 409]
    waiting = asyncio.run(race("wait", MemoryStore()))
    assert {answer["body"] for answer in waiting} == {"made"}


@pytest.mark.parametrize(
    ("error", "status"),
    [(Final(402, "no"), 402), (NotExecuted(), 503)],
    ids=["Final", "NotExecuted"],
)
def test_endings_work_as_in_plain_handlers(error: Exception, status: int) -> None:
    """`Final` and `NotExecuted` end a coroutine handler as they end any other."""

    async def body() -> None:
        await asyncio.sleep(0)
        raise error

    answer = asyncio.run(run(handler_on(MemoryStore(), body)))

    assert answer["statusCode"] == status


async def run(handler: Callable[[dict[str, Any], None], Awaitable[Any]]) -> Any:
    """One call."""
    return await handler(POST, None)


def test_cancelled_while_it_reserves_it_never_runs() -> None:
    """The reserve that was sent lands, and is given back: nobody has run under it."""

    async def scenario() -> tuple[list[int], MemoryStore]:
        runs: list[int] = []

        async def body() -> dict[str, Any]:
            runs.append(1)
            return await answers()

        store = GatedStore(Reserve)
        task = asyncio.ensure_future(handler_on(store, body)(POST, None))
        await store.entered.wait()
        task.cancel()
        await asyncio.sleep(0)
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return runs, store

    runs, store = asyncio.run(scenario())

    assert runs == []
    assert [record.status for record in store.records.values()] == [Status.FAILED_RETRYABLE]


def test_cancelled_before_the_handler_has_begun_the_flow_is_over() -> None:
    """What the flow would do on its way out is done when the cancellation is raised, and not when
    some day nobody holds the flow any more.

    Red when a flow that is given up is left suspended.
    """
    ended: list[str] = []

    async def reading() -> None:
        try:
            await Read("pk")
        finally:
            ended.append("closed")

    async def scenario() -> None:
        loop, entered, gate = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        class Gated(MemoryStore):
            def read(self, pk: str) -> None:
                loop.call_soon_threadsafe(entered.set)
                assert gate.wait(timeout=30)

        driving = drive_async(
            flow, store=Gated(), clock=ManualClock(), invocation=lambda _operation: never()
        )
        task = asyncio.ensure_future(driving)
        await entered.wait()
        task.cancel()
        await asyncio.sleep(0)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def never() -> Any:
        raise AssertionError

    flow = reading()
    asyncio.run(scenario())

    assert ended == ["closed"]
    assert inspect.getcoroutinestate(flow) == inspect.CORO_CLOSED


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_cancelled_in_the_handler_it_records_that_first(effects: str) -> None:
    """A cancellation in the handler is an interruption like any other: recorded, then raised."""

    async def scenario() -> Status:
        started = asyncio.Event()

        async def body() -> None:
            started.set()
            await asyncio.Event().wait()

        store = MemoryStore()
        task = asyncio.ensure_future(handler_on(store, body, effects=effects)(POST, None))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (record,) = store.records.values()
        return record.status

    expected = {"unrecorded": Status.UNKNOWN, "repeatable": Status.FAILED_RETRYABLE}

    assert asyncio.run(scenario()) is expected[effects]


@pytest.mark.parametrize("times", [1, 3])
def test_cancelled_while_it_completes_the_answer_is_recorded(times: int) -> None:
    """The work is done: its completion is waited for, however often the task is cancelled, and then
    the cancellation is raised. A repeat gets the answer.
    """

    async def scenario() -> Any:
        store = GatedStore(Complete)
        handler = handler_on(store, answers)
        task = asyncio.ensure_future(handler(POST, None))
        await store.entered.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert store.status() is Status.COMPLETED
        return await handler(POST, None)

    replay = asyncio.run(scenario())

    assert replay["body"] == "made"
    assert headers_of(replay)["idempotent-replayed"] == "true"


def test_cancelled_again_while_it_records_the_cancellation_it_still_does() -> None:
    """A second cancellation does not stop the first one from being recorded."""

    async def scenario() -> Status:
        started = asyncio.Event()

        async def body() -> None:
            started.set()
            await asyncio.Event().wait()

        store = GatedStore(MarkUnknown)
        task = asyncio.ensure_future(handler_on(store, body)(POST, None))
        await started.wait()
        task.cancel()
        await store.entered.wait()
        task.cancel()
        await asyncio.sleep(0)
        store.gate.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return store.status()

    assert asyncio.run(scenario()) is Status.UNKNOWN


def test_a_handler_that_swallows_its_cancellation_has_its_answer_stored() -> None:
    """Who catches the cancellation and answers has answered."""

    async def scenario() -> Any:
        started = asyncio.Event()

        async def body() -> dict[str, Any]:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return await answers()
            raise AssertionError

        task = asyncio.ensure_future(handler_on(MemoryStore(), body)(POST, None))
        await started.wait()
        task.cancel()
        return await task

    assert asyncio.run(scenario())["body"] == "made"


def test_a_store_that_fails_is_answered_as_in_plain_handlers() -> None:
    """Store down: 503, and the coroutine is never awaited."""

    class Down(MemoryStore):
        def write(self, transition: Any) -> Any:
            raise StoreError("down", transient=False)

    answer = asyncio.run(run(handler_on(Down(), answers)))

    assert problem_of(answer) == (503, "store-unavailable", True)


def test_switched_off_it_is_awaited_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED=1 a coroutine handler runs each time."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    store = MemoryStore()

    async def once(_event: dict[str, Any], _context: None) -> Any:
        return await answers()

    handler = idempotent(**OPTIONS, store=store)(once)

    async def call() -> Any:
        return await handler(with_key(POST), None)

    assert asyncio.run(call()) == {"statusCode": 201, "body": "made"}
    assert store.records == {}
