"""Many requests with one key, over real HTTP, in several sandboxes that really run side by side."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import running
from tests.support.payments_client import Client, code_of, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from tests.support.dev_service import Answer

pytestmark = pytest.mark.proof

KEYS = 50
# Of payments, whose requests call no provider that could hold them.
ACCEPTED_KEYS = 8
REQUESTS = 32
SANDBOXES = 4


@pytest.fixture(scope="module")
def conflicting() -> Iterator[Client]:
    """The reference service, as it is deployed."""
    with running("infra.service:SERVICE", sandboxes=SANDBOXES) as dev:
        yield Client(dev)


@pytest.fixture(scope="module")
def waiting() -> Iterator[Client]:
    """The reference service with `in_progress="wait"`, from the environment."""
    env = {"ONCEKEY_IN_PROGRESS": "wait"}
    with running("infra.service:SERVICE", sandboxes=SANDBOXES, env=env) as dev:
        yield Client(dev)


def ended(requests: list[Future[Answer]], count: int) -> list[Answer]:
    """The answers of the first `count` requests to end, while the others still run."""
    pending = set(requests)
    done: set[Future[Answer]] = set()
    while len(done) < count:
        finished, pending = wait(pending, timeout=60, return_when=FIRST_COMPLETED)
        assert finished, "no request ends"
        done |= finished
    return [request.result() for request in done]


def check_told_to_wait(refused: list[Answer]) -> None:
    """All of them: 409, and when to come again."""
    assert {(answer.status, code_of(answer)) for answer in refused} <= {
        (409, "request-in-progress")
    }
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


@pytest.mark.requirement("A7")
@pytest.mark.requirement("A11")
@pytest.mark.case(6)
@pytest.mark.case(43)
def test_of_32_refunds_with_one_key_one_is_made_and_31_are_told_to_wait(
    conflicting: Client,
) -> None:
    """While the provider holds the refund, 31 of 32 requests get 409 with Retry-After; then one
    refund is made, and every later call is its replay. Over 50 keys.

    Red when two requests can hold one key, or a repeat gets a 200 before there is one.
    """
    refunds = conflicting.refunding()
    before = refunds.provider.counts()
    for number in range(1, KEYS + 1):
        key = new_key()
        refunds.provider.arm(hold=True)
        requests = [refunds.start(key) for _ in range(REQUESTS)]
        refunds.provider.wait_held(1)
        refused = ended(requests, REQUESTS - 1)
        refunds.provider.arm(hold=False)
        (first,) = [request.result() for request in requests if request.result() not in refused]

        assert len(refused) == REQUESTS - 1
        check_told_to_wait(refused)
        assert first.status == 201
        replays = [refunds.ask(key) for _ in range(2)]
        assert {replay.body for replay in replays} == {first.body}
        assert {replay.headers["idempotent-replayed"] for replay in replays} == {"true"}
        assert refunds.provider.since(before)["refunds"] == number


@pytest.mark.requirement("A7")
@pytest.mark.requirement("A11")
@pytest.mark.case(6)
def test_of_32_payments_with_one_key_one_is_accepted_and_charged(conflicting: Client) -> None:
    """Of 32 requests with one key one is accepted; each other gets its replay, or 409 with
    Retry-After while it runs. Over 8 keys: as many payments, each charged once.

    Red when two requests can hold one key, or the worker charges a message twice.
    """
    before, rows = conflicting.provider.counts(), len(conflicting.rows("payments"))
    for _ in range(ACCEPTED_KEYS):
        key = new_key()
        requests = [conflicting.start(key) for _ in range(REQUESTS)]
        answers = [request.result() for request in requests]
        accepted = [answer for answer in answers if answer.status == 202]

        check_told_to_wait([answer for answer in answers if answer.status != 202])
        assert len([each for each in accepted if "idempotent-replayed" not in each.headers]) == 1
        assert {answer.body for answer in accepted} == {conflicting.ask(key).body}

    conflicting.quiet()
    assert len(conflicting.rows("payments")) == rows + ACCEPTED_KEYS
    assert conflicting.provider.since(before)["charges"] == ACCEPTED_KEYS
    assert conflicting.provider.since(before)["calls"] == ACCEPTED_KEYS


@pytest.mark.requirement("A11")
@pytest.mark.case(7)
def test_of_32_waiting_refunds_with_one_key_all_get_the_one_answer(waiting: Client) -> None:
    """With `wait`, 32 requests with one key get 32 equal answers, of one refund. Over 50 keys.

    Red when a waiter calls the provider, or is refused though the first ends in time.
    """
    refunds = waiting.refunding()
    before = refunds.provider.counts()
    for number in range(1, KEYS + 1):
        key = new_key()
        refunds.provider.arm(hold=True)
        requests = [refunds.start(key) for _ in range(REQUESTS)]
        refunds.provider.wait_held(1)
        # Every other sandbox now waits for the one whose refund is held.
        while len(refunds.dev.busy("refunds")) < SANDBOXES:
            assert not any(request.done() for request in requests)
        refunds.provider.arm(hold=False)

        check_one_answer([request.result() for request in requests], 201)
        assert refunds.provider.since(before)["refunds"] == number


@pytest.mark.requirement("A11")
@pytest.mark.case(7)
def test_of_32_waiting_payments_with_one_key_all_get_the_one_answer(waiting: Client) -> None:
    """The same of payments: 32 equal answers, of one payment that is charged once. Over 8 keys.

    Red when a waiter is accepted as well, or is refused though the first ends in time.
    """
    before, rows = waiting.provider.counts(), len(waiting.rows("payments"))
    for _ in range(ACCEPTED_KEYS):
        key = new_key()
        requests = [waiting.start(key) for _ in range(REQUESTS)]
        check_one_answer([request.result() for request in requests], 202)

    waiting.quiet()
    assert len(waiting.rows("payments")) == rows + ACCEPTED_KEYS
    assert waiting.provider.since(before)["charges"] == ACCEPTED_KEYS


def check_one_answer(answers: list[Answer], status: int) -> None:
    """They are equal, and all but one are replays."""
    assert {answer.status for answer in answers} == {status}
    assert len({answer.body for answer in answers}) == 1
    replays = [answer for answer in answers if "idempotent-replayed" in answer.headers]
    assert len(replays) == REQUESTS - 1


def test_two_keys_do_not_wait_for_each_other(conflicting: Client) -> None:
    """A request under another key is carried out while the first is still held."""
    refunds = conflicting.refunding()
    before = refunds.provider.counts()
    refunds.provider.arm(hold=True)
    requests = [refunds.start(new_key()) for _ in range(2)]
    refunds.provider.wait_held(2)
    refunds.provider.arm(hold=False)

    assert [request.result().status for request in requests] == [201, 201]
    assert refunds.provider.since(before)["refunds"] == 2
