"""A coroutine handler of recorded effects, on a store whose calls wait until they may go on."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import current_operation, idempotent, single_tenant
from oncekey.testing.memory import ManualClock
from tests.support.steps import CREATED, POST, FaultyStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from oncekey import Operation
    from oncekey.record.record import Record


class Gate(FaultyStore):
    """A store in which calls of one kind wait, in their thread, until the gate is opened."""

    def __init__(self, gated: str = "") -> None:
        super().__init__()
        self.gated = gated
        self.entered = asyncio.Event()
        self.opened = threading.Event()
        self._loop = asyncio.get_running_loop()

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        if call == self.gated:
            self._loop.call_soon_threadsafe(self.entered.set)
            assert self.opened.wait(timeout=30)
        return super()._asked(call, function, argument)

    @property
    def record(self) -> Record:
        """The only record."""
        (record,) = self.records.values()
        return record


class Service:
    """A coroutine handler of recorded effects; `ran` names the functions of steps that ran."""

    def __init__(self, gated: str = "", **options: Any) -> None:
        self.store = Gate(gated)
        self._options = options
        self.ran: list[str] = []
        self.given: list[Any] = []
        self.clock = ManualClock()

    async def sends(self, *actions: Callable[[Service], Awaitable[Any]]) -> Any:
        """One request, whose handler does these."""

        @idempotent(
            operation="POST /payments",
            tenant=single_tenant(),
            effects="recorded",
            store=self.store,
            clock=self.clock,
            **self._options,
        )
        async def handler(_event: Any, _context: Any, op: Operation) -> Any:
            assert current_operation() is op
            for action in actions:
                self.given.append(await action(self))
            return dict(CREATED)

        return await handler(POST, None)

    async def until_the_gate(self, task: asyncio.Future[Any]) -> None:
        """Wait until the gated call is under way; a task that ends before fails here."""
        entered = asyncio.ensure_future(self.store.entered.wait())
        await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
        assert entered.done()

    async def cancelled_at_the_gate(
        self, *actions: Callable[[Service], Awaitable[Any]], times: int = 1
    ) -> Record:
        """A request that is cancelled while the gated call is under way; what it leaves."""
        task = asyncio.ensure_future(self.sends(*actions))
        await self.until_the_gate(task)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        self.store.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        self.store.gated = ""
        return self.store.record


def step(
    name: str,
    gives: Any = None,
    *,
    raises: BaseException | None = None,
    is_idempotent: bool = False,
) -> Callable[[Service], Awaitable[Any]]:
    """Do a step whose coroutine waits once and ends so."""

    async def action(service: Service) -> Any:
        async def function() -> Any:
            service.ran.append(name)
            await asyncio.sleep(0)
            if raises is not None:
                raise raises
            return gives

        return await current_operation().step_async(name, function, idempotent=is_idempotent)

    return action


def commit(name: str) -> Callable[[Service], Awaitable[Any]]:
    """Commit one business write."""

    async def action(_service: Service) -> None:
        op = current_operation()
        op.transaction.put("rides", {"id": name})
        await op.commit_async(name)

    return action


async def fails(_service: Service) -> None:
    """The handler fails here."""
    raise ValueError("it failed")
