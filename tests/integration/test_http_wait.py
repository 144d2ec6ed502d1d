"""Waiting for the first answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey.record import Record, Status
from oncekey.store import Refused, Written
from oncekey.testing import MemoryStore
from oncekey.transitions import Complete, Transition
from tests.support.events import (
    load,
)
from tests.support.protected import (
    Protected,
    headers_of,
    problem_of,
    while_running,
)

POST = load("apigw_http_v2_post")


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
    """With `in_progress="wait"` five repeats of a running request all get its answer; one run.

    Red when a waiter runs the handler, or is given another answer.
    """
    store = LateCompletion(reads=3)
    service = Protected(store=store, in_progress="wait")
    first = service.send(POST)
    assert store.only().status is Status.IN_PROGRESS

    answers = [service.send(POST) for _ in range(5)]

    assert {answer["body"] for answer in answers} == {first["body"]}
    assert all(headers_of(answer)["idempotent-replayed"] == "true" for answer in answers)
    assert len(service.runs) == 1


class LateCompletion(MemoryStore):
    """A store in which a completion is seen only at a later read, as if its request still ran."""

    def __init__(self, reads: int) -> None:
        super().__init__()
        self._reads_left = reads
        self._held: Complete | None = None

    def only(self) -> Record:
        """The one record."""
        (record,) = self.records.values()
        return record

    def write(self, transition: Transition) -> Written | Refused:
        """Hold completions back."""
        if isinstance(transition, Complete):
            self._held = transition
            return Written()
        return super().write(transition)

    def read(self, pk: str) -> Record | None:
        """Let the completion land when its time has come."""
        self._reads_left -= 1
        if self._reads_left == 0 and self._held is not None:
            super().write(self._held)
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
