"""Many requests with one key, over real HTTP, in several sandboxes that really run side by side."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import running
from tests.support.payments_client import Payments, code_of, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from tests.support.dev_service import Answer

KEYS = 50
REQUESTS = 32
SANDBOXES = 6


@pytest.fixture(scope="module")
def conflicting() -> Iterator[Payments]:
    """The reference service, as it is deployed."""
    with running("infra.service:SERVICE", sandboxes=SANDBOXES) as dev:
        yield Payments(dev)


@pytest.fixture(scope="module")
def waiting() -> Iterator[Payments]:
    """The reference service with `in_progress="wait"`, from the environment."""
    env = {"ONCEKEY_IN_PROGRESS": "wait"}
    with running("infra.service:SERVICE", sandboxes=SANDBOXES, env=env) as dev:
        yield Payments(dev)


def ended(requests: list[Future[Answer]], count: int) -> list[Answer]:
    """The answers of the first `count` requests to end, while the others still run."""
    pending = set(requests)
    done: set[Future[Answer]] = set()
    while len(done) < count:
        finished, pending = wait(pending, timeout=60, return_when=FIRST_COMPLETED)
        assert finished, "no request ends"
        done |= finished
    return [request.result() for request in done]


@pytest.mark.requirement("A7")
@pytest.mark.requirement("A11")
@pytest.mark.case(6)
@pytest.mark.case(43)
def test_of_32_requests_with_one_key_one_charges_and_31_are_told_to_wait(
    conflicting: Payments,
) -> None:
    """While the provider holds the charge, 31 of 32 requests get 409 with Retry-After; then one
    charge is made, and every later call is its replay. Over 50 keys.

    Red when two requests can hold one key, or a repeat gets a 200 before there is one.
    """
    conflicting.provider.reset()
    for number in range(1, KEYS + 1):
        key = new_key()
        conflicting.provider.arm(hold=True)
        requests = [conflicting.start(key) for _ in range(REQUESTS)]
        conflicting.provider.wait_held(1)
        refused = ended(requests, REQUESTS - 1)
        conflicting.provider.arm(hold=False)
        (first,) = [request.result() for request in requests if request.result() not in refused]

        assert {(answer.status, code_of(answer)) for answer in refused} == {
            (409, "request-in-progress")
        }
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert first.status == 201
        replays = [conflicting.pay(key) for _ in range(2)]
        assert {replay.body for replay in replays} == {first.body}
        assert {replay.headers["idempotent-replayed"] for replay in replays} == {"true"}
        assert conflicting.provider.counts()["charges"] == number


@pytest.mark.requirement("A11")
@pytest.mark.case(7)
def test_of_32_waiting_requests_with_one_key_all_get_the_one_answer(waiting: Payments) -> None:
    """With `wait`, 32 requests with one key get 32 equal answers, of one charge. Over 50 keys.

    Red when a waiter charges, or is refused though the first ends in time.
    """
    waiting.provider.reset()
    for number in range(1, KEYS + 1):
        key = new_key()
        waiting.provider.arm(hold=True)
        requests = [waiting.start(key) for _ in range(REQUESTS)]
        waiting.provider.wait_held(1)
        # Every other sandbox now waits for the one whose charge is held.
        while len(waiting.dev.busy("payments")) < SANDBOXES:
            assert not any(request.done() for request in requests)
        waiting.provider.arm(hold=False)
        answers = [request.result() for request in requests]

        assert {answer.status for answer in answers} == {201}
        assert len({answer.body for answer in answers}) == 1
        replays = [answer for answer in answers if "idempotent-replayed" in answer.headers]
        assert len(replays) == REQUESTS - 1
        assert waiting.provider.counts()["charges"] == number


def test_two_keys_do_not_wait_for_each_other(conflicting: Payments) -> None:
    """A request under another key is charged while the first is still held."""
    conflicting.provider.reset()
    conflicting.provider.arm(hold=True)
    requests = [conflicting.start(new_key()) for _ in range(2)]
    conflicting.provider.wait_held(2)
    conflicting.provider.arm(hold=False)

    assert [request.result().status for request in requests] == [201, 201]
    assert conflicting.provider.counts()["charges"] == 2
