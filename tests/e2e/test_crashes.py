"""Sandboxes killed in the middle of an effect, and a store that fails, over real HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import running, watched
from tests.support.payments_client import Client, code_of, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def effects() -> Iterator[Client]:
    """Two charges without a key of their own, with leases of about five seconds."""
    # A killed process has a successor that runs already: a retry must come before the lease ends.
    with running("tests.support.effect_service:SERVICE", warm=2) as dev:
        yield Client(dev)


@pytest.fixture
def payments(shared: Client) -> Client:
    """The reference service."""
    return shared


@pytest.fixture
def refunds(payments: Client) -> Client:
    """A client that asks for a part of its own payment back; nothing else is on its way."""
    payments.provider.reset()
    made = payments.refunding()
    made.quiet()
    return made


@pytest.mark.requirement("D4")
@pytest.mark.requirement("E3")
@pytest.mark.case(13)
@pytest.mark.case(14)
def test_a_handler_that_is_killed_leaves_the_outcome_unknown_and_is_never_repeated(
    effects: Client,
) -> None:
    """SIGKILL in the middle of a charge: a retry before the lease's end gets 409
    `request-in-progress`, one after it 409 `outcome-unknown`; the provider charges once.

    Red when an expired lease lets the retry run.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()
    first = effects.at("/unrecorded").start(key)
    effects.provider.wait_held(1)
    effects.dev.kill_busy("unrecorded")
    assert first.result().status == 500
    effects.provider.arm(hold=False)

    soon = effects.at("/unrecorded").ask(key)
    assert (soon.status, code_of(soon)) == (409, "request-in-progress")
    later = effects.at("/unrecorded").settled_code(key, "request-in-progress")
    assert (later.status, code_of(later)) == (409, "outcome-unknown")
    assert later.json()["retryable"] is True
    assert int(later.headers["retry-after"]) >= 1
    assert code_of(effects.at("/unrecorded").ask(key)) == "outcome-unknown"
    assert effects.provider.counts()["charges"] == 1


@pytest.mark.requirement("E3")
@pytest.mark.case(11)
@pytest.mark.case(13)
@pytest.mark.case(19)
def test_a_handler_that_may_be_repeated_is_taken_over_after_its_lease(effects: Client) -> None:
    """With `repeatable` the retry after the lease runs again at its first call, as attempt 2, and
    shows the provider the very downstream key that the killed attempt had shown.

    Red when a dead attempt holds its key beyond the lease, or the attempt, its owner or a random
    value enters the downstream key.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()
    first = effects.at("/repeatable").start(key)
    effects.provider.wait_held(1)
    effects.dev.kill_busy("repeatable")
    assert first.result().status == 500
    effects.provider.arm(hold=False)

    later = effects.at("/repeatable").settled_code(key, "request-in-progress")

    assert later.status == 201
    assert later.json() == {"attempt": 2}
    # The author said that this is harmless: the provider, given no key, has charged twice.
    assert effects.provider.counts()["charges"] == 2
    seen = [intent["metadata"] for intent in effects.provider.payment_intents()]
    assert {facts["attempt"] for facts in seen} == {"1", "2"}
    (shown,) = {facts["downstream_key"] for facts in seen}
    assert shown


def test_a_handler_killed_at_its_timeout_leaves_the_outcome_unknown(effects: Client) -> None:
    """A charge that outlasts the function's timeout: the platform kills the sandbox, and nothing is
    repeated.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()

    first = effects.at("/unrecorded").ask(key)
    assert first.status == 503
    assert code_of(first) is None
    later = effects.at("/unrecorded").settled_code(key, "request-in-progress")
    effects.provider.arm(hold=False)

    assert code_of(later) == "outcome-unknown"
    assert effects.provider.counts()["charges"] == 1


@pytest.mark.case(9)
def test_a_reserve_and_a_completion_whose_answers_are_lost_cost_nothing(effects: Client) -> None:
    """A store that applies each of the two writes of a request and drops its answer: one charge,
    a normal answer, and its replay.

    Red when the function takes its own reserve, or its own completion, for another's.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()
    effects.set_store_faults(lose_answers=1)
    request = effects.at("/patient").start(key)
    # Its reserve is over; the write that comes after the charge is its completion.
    effects.provider.wait_held(1)
    effects.set_store_faults(lose_answers=1)
    effects.provider.arm(hold=False)
    first = request.result()

    assert first.status == 201
    assert "idempotency-expires" in first.headers
    assert "idempotent-replayed" not in first.headers
    replay = effects.at("/patient").ask(key)
    assert (replay.body, replay.headers["idempotent-replayed"]) == (first.body, "true")
    assert effects.provider.counts()["charges"] == 1


@pytest.mark.requirement("E3")
@pytest.mark.case(13)
def test_a_refund_that_is_killed_leaves_the_outcome_unknown_and_is_never_repeated(
    refunds: Client,
) -> None:
    """SIGKILL while the provider holds the refund: it is in progress until the lease's end, then
    its outcome is unknown, and the provider gives back once.

    Red when an expired lease lets the retry run.
    """
    before = refunds.provider.counts()
    refunds.provider.arm(hold=True)
    key = new_key()
    first = refunds.start(key)
    refunds.provider.wait_held(1)
    refunds.dev.kill_busy("refunds")
    assert first.result().status == 500
    refunds.provider.arm(hold=False)

    later = refunds.settled_code(key, "request-in-progress")

    assert (later.status, code_of(later)) == (409, "outcome-unknown")
    assert code_of(refunds.ask(key)) == "outcome-unknown"
    assert refunds.provider.since(before) == {"held": 0, "calls": 1, "charges": 0, "refunds": 1}


@pytest.mark.requirement("C18")
@pytest.mark.requirement("E3")
@pytest.mark.case(13)
@pytest.mark.parametrize("ending", ["killed", "timed-out"])
def test_a_worker_that_ends_after_its_charge_was_sent_leaves_it_to_the_next(
    payments: Client, ending: str
) -> None:
    """SIGKILL while the provider holds the charge, or the platform's own at the worker's timeout:
    the message comes again, and after the lease another process sends the same charge under the
    same key, which the provider knows: one charge.

    Red when the worker shows no key, or one of its attempt.
    """
    payments.provider.reset()
    payments.provider.arm(hold=True)
    said = len(payments.dev.log())
    accepted = payments.ask(new_key())
    payments.provider.wait_held(1)
    with watched(payments.dev.busy("outbox-worker")) as wait:
        if ending == "killed":
            payments.dev.kill_busy("outbox-worker")
        wait()
    payments.provider.arm(hold=False)

    assert payments.ended(accepted)["status"] == "succeeded"
    assert payments.provider.counts() == {"held": 0, "calls": 2, "charges": 1, "refunds": 0}
    payments.quiet()
    why = {"killed": "died", "timed-out": "timed-out"}[ending]
    assert f"outbox-worker] 1 messages, 1 failed: {why}" in payments.dev.log()[said:]


@pytest.mark.requirement("C9")
def test_a_store_that_is_down_stops_every_refund_and_loses_none(refunds: Client) -> None:
    """Store down: 503, and the provider is not called; once it is back the same key is carried out.

    Red when the service calls the provider unprotected.
    """
    before = refunds.provider.counts()
    key = new_key()
    refunds.set_store_faults(down=True)
    refused = refunds.ask(key)
    refunds.set_store_faults(down=False)

    assert (refused.status, code_of(refused)) == (503, "store-unavailable")
    assert refunds.provider.since(before)["calls"] == 0
    assert refunds.ask(key).status == 201
    assert refunds.provider.since(before)["refunds"] == 1


@pytest.mark.requirement("C9")
def test_a_store_that_is_down_stops_every_payment_and_loses_none(payments: Client) -> None:
    """Store down: 503, nobody is charged; once it is back the same key is accepted and charged.

    Red when the service accepts what it cannot put on record.
    """
    payments.provider.reset()
    key = new_key()
    payments.set_store_faults(down=True)
    refused = payments.ask(key)
    payments.set_store_faults(down=False)

    assert (refused.status, code_of(refused)) == (503, "store-unavailable")
    assert payments.provider.counts()["calls"] == 0
    assert payments.ended(payments.ask(key))["status"] == "succeeded"
    assert payments.provider.counts()["charges"] == 1


@pytest.mark.case(9)
def test_a_reserve_whose_answer_is_lost_costs_nothing(refunds: Client) -> None:
    """A store that applies the reserve and drops its answer: one refund, a normal answer, and its
    replay.

    Red when the function takes its own reserve for another's.
    """
    before = refunds.provider.counts()
    key = new_key()
    refunds.set_store_faults(lose_answers=1)
    first = refunds.ask(key)
    refunds.set_store_faults(lose_answers=0)

    assert first.status == 201
    assert "idempotency-expires" in first.headers
    assert refunds.ask(key).body == first.body
    assert refunds.provider.since(before)["refunds"] == 1


@pytest.mark.case(9)
@pytest.mark.parametrize("lost", [1, 2])
def test_a_payment_whose_first_answers_of_the_store_are_lost_is_accepted_once(
    payments: Client, lost: int
) -> None:
    """The same of the recorded operation, where one answer is lost or two in a row: one payment,
    one charge, a normal answer, and its replay.

    Red when the function takes its own reserve for another's.
    """
    payments.provider.reset()
    payments.quiet()
    rows, key = len(payments.rows("payments")), new_key()
    payments.set_store_faults(lose_answers=lost)
    first = payments.ask(key)
    payments.set_store_faults(lose_answers=0)

    assert first.status == 202
    assert "idempotency-expires" in first.headers
    assert payments.ended(first)["status"] == "succeeded"
    assert payments.ask(key).body == first.body
    assert len(payments.rows("payments")) == rows + 1
    assert payments.provider.counts()["charges"] == 1


def test_an_answer_lost_between_provider_and_service_is_not_lost_on_the_client(
    refunds: Client,
) -> None:
    """A refund whose answer is lost is found by the provider's own key: 201, one refund."""
    before = refunds.provider.counts()
    refunds.provider.arm(lose_answer=1)
    key = new_key()

    assert refunds.ask(key).status == 201
    assert refunds.provider.since(before)["refunds"] == 1


def test_a_provider_that_fails_leaves_the_outcome_unknown(refunds: Client) -> None:
    """A provider that answers 500 twice proves nothing: the retry is refused, not run."""
    before = refunds.provider.counts()
    refunds.provider.arm(fail=2)
    key = new_key()

    assert refunds.ask(key).status == 500
    assert code_of(refunds.ask(key)) == "outcome-unknown"
    assert refunds.provider.since(before)["calls"] == 2


def test_a_refusal_of_the_provider_is_final(refunds: Client) -> None:
    """More than was charged is a stored 422; its retry makes no second attempt at the provider."""
    before = refunds.provider.counts()
    key, too_much = new_key(), {**refunds.body, "amount": 99_999}

    first = refunds.ask(key, too_much)
    replay = refunds.ask(key, too_much)

    assert (first.status, code_of(first)) == (422, "refund-refused")
    assert (replay.status, replay.body) == (first.status, first.body)
    assert refunds.provider.since(before) == {"held": 0, "calls": 1, "charges": 0, "refunds": 0}


def test_a_decline_is_final(payments: Client) -> None:
    """A declined card ends the payment: neither a retry of the request nor a refund, which is a
    stored 409, makes another attempt at the provider.
    """
    payments.provider.reset()
    payments.provider.arm(decline=1)
    key, refund_key = new_key(), new_key()

    first = payments.ask(key)
    declined = payments.ended(first)
    replay = payments.ask(key)
    refunds = payments.at("/refunds", {"payment_id": declined["payment_id"], "amount": 1})
    refusals = [refunds.ask(refund_key) for _ in range(2)]

    assert declined["status"] == "declined"
    assert (replay.status, replay.body) == (202, first.body)
    assert {(each.status, code_of(each)) for each in refusals} == {(409, "payment-not-charged")}
    assert "idempotent-replayed" in refusals[1].headers
    payments.quiet()
    assert payments.ended(first) == declined
    assert payments.provider.counts()["calls"] == 1
