"""Until when a request is worked on, and that its answer is still given in time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncekey import idempotent, idempotent_function, single_tenant
from oncekey.errors import StoreError
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.events import load, with_key
from tests.support.protected import Protected, fails, problem_of

POST = load("apigw_http_v2_post")
DEFAULT_MS, MARGIN_MS = 60_000, 5_000


class Stalled(MemoryStore):
    """A store whose writes of some kinds run into their time-out, by the clock of the test."""

    def __init__(self, *kinds: str, call_timeout_ms: int, failures: int = 1_000) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.tries = 0
        self.call_timeout_ms = call_timeout_ms
        self._kinds = kinds
        self._failures = failures

    def write(self, transition: Any) -> Any:
        """Take all the time that a call may take, and fail; or write."""
        if type(transition).__name__ in self._kinds:
            self.tries += 1
            if self.tries <= self._failures:
                self.clock.advance(self.call_timeout_ms)
                raise StoreError("stalled", transient=True)
        return super().write(transition)


def sent(
    store: Stalled, timeout_ms: int, then: Any = None, effects: str = "unrecorded"
) -> tuple[Any, int]:
    """The answer to a request with so much time, and how much of that was left."""
    service = Protected(store=store, timeout_ms=timeout_ms, effects=effects)
    service.clock.advance(store.clock.now_ms() - service.clock.now_ms())
    store.clock = service.clock
    service.then = then
    until_ms = service.clock.now_ms() + timeout_ms
    answer = service.send(POST)
    return answer, until_ms - service.clock.now_ms()


@pytest.mark.parametrize("call_timeout_ms", [100, 300, 600, 800, 900])
@pytest.mark.parametrize("kind", ["Reserve", "Complete"])
def test_whatever_the_store_does_the_answer_has_a_quarter_of_a_second(
    kind: str, call_timeout_ms: int
) -> None:
    """A store that stalls is tried again, but not into the last 250 ms of the invocation: whoever
    is refused, or has been served, still hears of it.

    Red when tries go on until the invocation is killed.
    """
    answer, left_ms = sent(Stalled(kind, call_timeout_ms=call_timeout_ms), 2_000)

    assert answer["statusCode"] == (503 if kind == "Reserve" else 201)
    assert left_ms >= 250


@pytest.mark.parametrize("call_timeout_ms", [100, 300, 600, 800, 900])
def test_a_stopped_attempt_is_answered_in_time_though_it_cannot_be_released(
    call_timeout_ms: int,
) -> None:
    """After a step whose result could not be recorded, the release is left out if it might end
    within the last 250 ms of the invocation.

    Red when it is sent because the time is not over yet.
    """
    store = Stalled("FinishStep", "Release", call_timeout_ms=call_timeout_ms)

    answer, left_ms = sent(store, 2_000, lambda _event, op: op.step("charge", str), "recorded")

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert left_ms >= 250


@pytest.mark.parametrize(("timeout_ms", "tries"), [(286, 1), (287, 2)])
def test_a_second_try_is_made_if_its_pause_fits_before_the_answers_time(
    timeout_ms: int, tries: int
) -> None:
    """The first pause is 37 ms here, and 250 ms are the answer's: one millisecond less is too few.

    Red when more or less is kept for the answer, or a call in memory counts as long.
    """
    store = Stalled("Reserve", call_timeout_ms=MemoryStore().call_timeout_ms, failures=1)

    answer, _ = sent(store, timeout_ms)

    assert store.tries == tries
    assert answer["statusCode"] == {1: 503, 2: 201}[tries]


def _lease_after(store: MemoryStore, clock: ManualClock) -> int | None:
    """How long the lease is of a call that no handler encloses."""
    leases: list[int | None] = []

    @idempotent_function(
        operation="alone", key="id", tenant=single_tenant(), store=store, clock=clock
    )
    def function(_record: dict[str, str]) -> None:
        leases.extend(
            record.lease_until_ms for record in store.records.values() if record.key == "a"
        )

    function({"id": "a"})
    (lease_until_ms,) = leases
    return None if lease_until_ms is None else lease_until_ms - clock.now_ms()


@pytest.mark.parametrize(
    "then",
    [None, fails(ValueError()), fails(KeyboardInterrupt())],
    ids=["answered", "failed", "interrupted"],
)
def test_a_call_after_a_handler_has_time_of_its_own(then: Any) -> None:
    """A handler that has ended, however it did, encloses nothing any more.

    Red when its deadline stays behind: the next call in the sandbox would have none of its time.
    """
    service = Protected(timeout_ms=7_000)
    service.then = then
    try:
        service.send(POST)
    except (ValueError, KeyboardInterrupt):
        service.clock.advance(7_001)

    assert _lease_after(service.store, service.clock) == DEFAULT_MS + MARGIN_MS


def test_a_call_after_an_inner_operation_has_the_outer_ones_time() -> None:
    """Of two handlers, one within the other, the outer one's deadline counts again after the inner.

    Red when the inner deadline stays behind, or takes the outer one with it.
    """
    outer = Protected(operation="POST /outer", timeout_ms=9_000)
    inner = Protected(operation="POST /inner", timeout_ms=2_000)
    leases: list[int | None] = []

    def handler(_event: object, _op: object) -> dict[str, Any]:
        inner.send(with_key(POST, "a-key-of-the-inner-one"))
        leases.append(_lease_after(outer.store, outer.clock))
        return {"statusCode": 200, "body": ""}

    outer.then = handler
    outer.send(POST)

    assert leases == [9_000 + MARGIN_MS]


@pytest.mark.parametrize("error", [None, ValueError()], ids=["answered", "failed"])
def test_after_a_coroutine_handler_too(error: Exception | None) -> None:
    """On an event loop the same task goes on: its next call has its own time.

    Red when a coroutine's deadline stays behind in its task.
    """
    store, clock = MemoryStore(), ManualClock()

    class Context:
        @staticmethod
        def get_remaining_time_in_millis() -> int:
            return 7_000

    @idempotent(operation="POST /payments", tenant=single_tenant(), store=store, clock=clock)
    async def handler(_event: dict[str, Any], _context: object) -> dict[str, Any]:
        if error is not None:
            raise error
        return {"statusCode": 200, "body": ""}

    async def task() -> int | None:
        try:
            await handler(POST, Context())
        except ValueError:
            clock.advance(1)
        return _lease_after(store, clock)

    assert asyncio.run(task()) == DEFAULT_MS + MARGIN_MS
