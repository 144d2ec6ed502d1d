"""Waiting for the first answer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Status
from oncekey.record.transitions import Complete
from oncekey.testing.memory import MemoryStore
from tests.support.events import load
from tests.support.protected import (
    Protected,
    headers_of,
    problem_of,
    while_running,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from oncekey.record.record import Record
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

POST = load("apigw_http_v2_post")
# For a thread that never comes: a broken wait fails and does not hang.
PATIENCE_S = 30


@pytest.mark.requirement("A4")
@pytest.mark.requirement("A2")
@pytest.mark.requirement("B5")
@pytest.mark.case(53)
def test_a_repeat_while_the_first_still_runs_is_told_to_wait() -> None:
    """A repeat in flight: 409 `request-in-progress` with Retry-After, retryable, and never a 200.

    Red when the key is reserved only after the handler has begun, or the loser is let in.
    """
    service = Protected()

    answer = while_running(service, POST, lambda: service.send(POST))

    assert problem_of(answer) == (409, "request-in-progress", True)
    assert 1 <= int(headers_of(answer)["retry-after"]) <= 5
    assert len(service.runs) == 1


@pytest.mark.requirement("A11")
@pytest.mark.requirement("A7")
@pytest.mark.case(7)
def test_waiting_repeats_get_the_first_answer() -> None:
    """With `in_progress="wait"` five repeats of a running request, side by side in threads, all
    wait until it ends and get its answer; one run.

    Red when a waiter runs the handler, does not look again, or is given another answer.
    """
    store = StoreOfWaiters(waiters=5)
    service = Protected(
        store=store, in_progress="wait", wait_up_to=timedelta(seconds=60), timeout_ms=120_000
    )
    with ThreadPoolExecutor(5) as threads:

        def handler(_event: object, _op: object) -> dict[str, Any]:
            repeats.extend(threads.submit(service.send, POST) for _ in range(5))
            store.all_wait.wait(PATIENCE_S)
            assert not any(repeat.done() for repeat in repeats)
            return {"statusCode": 201, "body": '{"the first": true}'}

        repeats: list[Future[Any]] = []
        service.then = handler
        first = service.send(POST)
        answers = [repeat.result() for repeat in repeats]

    assert store.seen_at_first == [Status.IN_PROGRESS] * 5
    assert [answer["body"] for answer in answers] == [first["body"]] * 5
    assert all(headers_of(answer)["idempotent-replayed"] == "true" for answer in answers)
    assert len(service.runs) == 1


class StoreOfWaiters(MemoryStore):
    """A store that knows when so many threads wait, and lets them look again at the completion.

    `all_wait` is a barrier for the waiters, each at its first read, and the handler they wait for.
    """

    def __init__(self, waiters: int) -> None:
        super().__init__()
        self.all_wait = threading.Barrier(waiters + 1)
        self.seen_at_first: list[Status | None] = []
        self._completed = threading.Event()
        self._thread = threading.local()

    def write(self, transition: Transition) -> Written | Refused:
        """Tell the waiters of a completion."""
        reply = super().write(transition)
        if isinstance(transition, Complete):
            self._completed.set()
        return reply

    def read(self, pk: str) -> Record | None:
        """The first time as it stands, with the handler still running; then once it has ended."""
        if not hasattr(self._thread, "has_read"):
            self._thread.has_read = True
            record = super().read(pk)
            self.seen_at_first.append(record.status if record is not None else None)
            self.all_wait.wait(PATIENCE_S)
            return record
        assert self._completed.wait(PATIENCE_S), "the first request does not end"
        return super().read(pk)


def test_a_wait_that_is_too_long_ends_in_409() -> None:
    """A waiter waits for `wait_up_to` and no longer, and is then told to come back."""
    service = Protected(in_progress="wait", wait_up_to=timedelta(seconds=2))
    began_ms = service.clock.now_ms()

    answer = while_running(service, POST, lambda: service.send(POST))

    assert problem_of(answer) == (409, "request-in-progress", True)
    assert service.clock.now_ms() - began_ms == 2_000


def test_a_waiter_keeps_time_to_answer() -> None:
    """A waiter gives up before its own invocation is killed."""
    service = Protected(in_progress="wait", wait_up_to=timedelta(seconds=60), timeout_ms=3_000)

    def wait() -> tuple[Any, int]:
        context = service.context()
        answer = service.handler(dict(POST), context)
        return answer, context.get_remaining_time_in_millis()

    answer, left_ms = while_running(service, POST, wait)

    assert problem_of(answer)[1] == "request-in-progress"
    assert left_ms == 250
