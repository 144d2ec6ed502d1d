"""Coroutines that are cancelled or closed at any point of a step: charged once, never denied."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import RunStopped, current_operation, idempotent, single_tenant
from oncekey.record.record import Effects, Status
from oncekey.testing.memory import ManualClock
from tests.support.protected import problem_of
from tests.support.steps import LEASE_MS, POST, FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

ENDINGS = ("it passes", "402", "it commits that it failed")


class AtOnce(ThreadPoolExecutor):
    """Calls are carried out in the thread that asks, so that every run takes the same turns."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call it."""
        done: Future[Any] = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 -- it is the future's
            done.set_exception(error)
        return done


class Charges:
    """A coroutine handler that charges in one step, and denies it if that raised."""

    def __init__(self, ending: str, *, is_idempotent: bool) -> None:
        self.store, self.clock = FaultyStore(), ManualClock()
        self.charged: list[str] = []
        self.answers: list[Any] = []
        self._ending = ending
        self._is_idempotent = is_idempotent
        decorated = idempotent(
            operation="POST /payments",
            tenant=single_tenant(),
            effects="recorded",
            store=self.store,
            clock=self.clock,
        )
        self._handler: Any = decorated(self._handle)

    async def send(self) -> None:
        """One request."""
        answer = await self._handler(dict(POST), None)
        told = answer["body"] if answer["statusCode"] < 409 else problem_of(answer)[1]
        self.answers.append((answer["statusCode"], told))

    async def comes_back(self) -> None:
        """The client sends its request until the lease is long over."""
        await self.send()
        self.clock.advance(100 * LEASE_MS)
        await self.send()
        await self.send()

    def faults(self) -> list[str]:
        """What is wrong about these charges and answers."""
        charges = len(set(self.charged) if self._is_idempotent else self.charged)
        finals = {told for status, told in self.answers if status < 409}
        found = ["charged twice"] if charges > 1 else []
        found += ["denied though charged"] if charges and finals - {"charged"} else []
        found += ["said though not charged"] if not charges and "charged" in finals else []
        return found

    async def _handle(self, _event: Any, _context: Any) -> Any:
        op = current_operation()

        async def charge() -> str:
            self.charged.append(op.downstream_key("charge"))
            await asyncio.sleep(0)
            return "c-1"

        try:
            await op.step_async("charge", charge, idempotent=self._is_idempotent)
        except (RunStopped, GeneratorExit):
            raise
        except BaseException:
            if self._ending == "it passes":
                raise
            if self._ending == "402":
                return {"statusCode": 402, "body": "not charged"}
            await op.commit_async("failed")
            return {"statusCode": 201, "body": "failed"}
        return {"statusCode": 201, "body": "charged"}


def _cancel_it(task: asyncio.Task[Any]) -> None:
    task.cancel()


def _cancel_all(_task: asyncio.Task[Any]) -> None:
    for each in asyncio.all_tasks():
        if each is not asyncio.current_task():
            each.cancel()


CANCELS: dict[str, Callable[[asyncio.Task[Any]], None]] = {
    "the task": _cancel_it,
    "every task": _cancel_all,
}


async def _run(charges: Charges, turn: int, cancels: Callable[[Any], None], times: int) -> bool:
    """One request, cancelled after so many turns of the loop; whether it was still running."""
    asyncio.get_running_loop().set_default_executor(AtOnce())
    task = asyncio.ensure_future(charges.send())
    for _ in range(turn):
        await asyncio.sleep(0)
    was_running = not task.done()
    for _ in range(times):
        cancels(task)
        await asyncio.sleep(0)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await charges.comes_back()
    return was_running


@pytest.mark.fault("K2.2")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("cancels", CANCELS)
@pytest.mark.parametrize("is_idempotent", [False, True], ids=["marked", "idempotent"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_cancelled_in_any_turn_of_the_loop_it_charges_once_and_denies_nothing(
    ending: str, is_idempotent: bool, cancels: str, times: int
) -> None:
    """Whenever a task, or every task of the loop, is cancelled, and whatever the handler makes of
    it: the provider is charged once at most, and no final answer denies a charge.

    Red when a call of the store is a task that is cancelled with the others, or when a
    cancellation is taken for something that the journal was told of.
    """
    turn, was_running = 0, True
    found: dict[int, Any] = {}

    while was_running:
        charges = Charges(ending, is_idempotent=is_idempotent)
        was_running = asyncio.run(_run(charges, turn, CANCELS[cancels], times))
        if charges.faults():
            found[turn] = (charges.faults(), charges.answers)
        turn += 1

    assert turn > 10
    assert found == {}


@pytest.mark.fault("K2.2")
@pytest.mark.parametrize("is_idempotent", [False, True], ids=["marked", "idempotent"])
def test_closed_at_any_point_a_coroutine_charges_once(is_idempotent: bool) -> None:
    """A coroutine that is closed where it waits records nothing more, raises nothing, and leaves
    its step in doubt if it may have run.

    Red when a closed coroutine awaits, or when its step is not in doubt.
    """

    async def closed(charges: Charges, waits: int) -> bool:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        coroutine: Any = charges.send()
        for _ in range(waits):
            try:
                waiting = coroutine.send(None)
            except StopIteration:
                return False
            if waiting is not None:
                waiting._asyncio_future_blocking = False
                while not waiting.done():  # noqa: ASYNC110 -- a turn of the loop is what is waited for
                    await asyncio.sleep(0)
        coroutine.close()
        await charges.comes_back()
        return True

    waits, was_running = 0, True
    found: dict[int, Any] = {}
    while was_running:
        waits += 1
        charges = Charges("it passes", is_idempotent=is_idempotent)
        was_running = asyncio.run(closed(charges, waits))
        if charges.faults():
            found[waits] = (charges.faults(), charges.answers)

    assert waits > 3
    assert found == {}


@pytest.mark.fault("K11.5")
@pytest.mark.parametrize("effects", Effects)
@pytest.mark.parametrize("is_known_before", [False, True], ids=["a new key", "a key that failed"])
def test_cancelled_before_its_handler_a_request_leaves_its_key_open(
    effects: Effects, is_known_before: bool
) -> None:
    """In whatever turn of the loop a request is cancelled before its handler has begun, the same
    request runs at once afterwards.

    Red when a cancelled reserve is left to its lease.
    """
    ran: list[int] = []

    async def scenario(turn: int) -> tuple[bool, bool, Any]:
        asyncio.get_running_loop().set_default_executor(AtOnce())
        store, clock, runs = FaultyStore(), ManualClock(), ran
        runs.clear()

        @idempotent(
            operation="POST /payments",
            tenant=single_tenant(),
            effects=effects.value,
            not_executed=ValueError,
            store=store,
            clock=clock,
        )
        async def handler(_event: Any, _context: Any) -> Any:
            runs.append(1)
            if len(runs) == 1 and is_known_before:
                raise ValueError
            await asyncio.sleep(0)
            return {"statusCode": 201}

        if is_known_before:
            assert (await handler(dict(POST), None))["statusCode"] == 503
        before = len(runs)
        task = asyncio.ensure_future(handler(dict(POST), None))
        for _ in range(turn):
            await asyncio.sleep(0)
        has_begun = len(runs) > before
        task.cancel()
        await asyncio.wait({task})
        was_cancelled = task.cancelled() and len(runs) == before
        return has_begun, was_cancelled, await handler(dict(POST), None)

    turn, cancelled = 0, 0
    while True:
        has_begun, was_cancelled, answer = asyncio.run(scenario(turn))
        if has_begun:
            break
        if was_cancelled:
            cancelled += 1
            assert answer["statusCode"] == 201
        turn += 1

    assert cancelled > 1


@pytest.mark.fault("K11.5")
def test_a_reserve_that_lands_late_is_given_back() -> None:
    """A cancellation waits for the reserve that is on its way, gives it back and is raised then;
    cancelled again meanwhile, it does so all the same.

    Red when the call of the store is left to itself, or a second cancellation stops the release.
    """

    async def scenario() -> FaultyStore:
        from tests.support.async_steps import Gate  # its event belongs to the running loop

        store = Gate("Reserve")

        @idempotent(
            operation="POST /payments", tenant=single_tenant(), store=store, clock=ManualClock()
        )
        async def handler(_event: Any, _context: Any) -> Any:
            raise AssertionError("it ran")

        task = asyncio.ensure_future(handler(dict(POST), None))
        await store.entered.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        store.opened.set()
        await asyncio.wait({task})
        assert task.cancelled()
        return store

    store = asyncio.run(scenario())

    assert store.asked == ["Reserve", "read", "Release"]
    (record,) = store.records.values()
    assert (record.status, record.last_error) == (Status.FAILED_RETRYABLE, "CancelledError")
