"""Sandboxes killed in the middle of an effect, and a store that fails, over real HTTP."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import running
from tests.support.payments_client import Payments, code_of, new_key

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def effects() -> Iterator[Payments]:
    """Two charges without a key of their own, with leases of about two seconds."""
    with running("tests.support.effect_service:SERVICE") as dev:
        yield Payments(dev)


@pytest.fixture(scope="module")
def payments() -> Iterator[Payments]:
    """The reference service with a timeout of three seconds."""
    env = {"ONCEKEY_LEASE_MARGIN_MS": "300"}
    with running("infra.service:SERVICE", env=env, timeout_s=3) as dev:
        yield Payments(dev)


def store_faults(payments: Payments, **faults: int | bool) -> None:
    """Make the store fail."""
    request = urllib.request.Request(
        payments.dev.store_url + "/_faults", data=json.dumps(faults).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


@pytest.mark.requirement("D4")
@pytest.mark.requirement("E3")
@pytest.mark.case(13)
@pytest.mark.case(14)
def test_a_handler_that_is_killed_leaves_the_outcome_unknown_and_is_never_repeated(
    effects: Payments,
) -> None:
    """SIGKILL in the middle of a charge: a retry before the lease's end gets 409
    `request-in-progress`, one after it 409 `outcome-unknown`; the provider charges once.

    Red when an expired lease lets the retry run.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()
    first = effects.start(key, path="/unrecorded")
    effects.provider.wait_held(1)
    effects.dev.kill_busy("unrecorded")
    assert first.result().status == 500
    effects.provider.arm(hold=False)

    soon = effects.pay(key, path="/unrecorded")
    assert (soon.status, code_of(soon)) == (409, "request-in-progress")
    later = effects.settled_code(key, "request-in-progress", path="/unrecorded")
    assert (later.status, code_of(later)) == (409, "outcome-unknown")
    assert later.json()["retryable"] is True
    assert int(later.headers["retry-after"]) >= 1
    assert code_of(effects.pay(key, path="/unrecorded")) == "outcome-unknown"
    assert effects.provider.counts()["charges"] == 1


@pytest.mark.requirement("E3")
@pytest.mark.case(11)
@pytest.mark.case(13)
@pytest.mark.case(19)
def test_a_handler_that_may_be_repeated_is_taken_over_after_its_lease(effects: Payments) -> None:
    """With `repeatable` the retry after the lease runs again at its first call, as attempt 2, and
    shows the provider the very downstream key that the killed attempt had shown.

    Red when a dead attempt holds its key beyond the lease, or the attempt, its owner or a random
    value enters the downstream key.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()
    first = effects.start(key, path="/repeatable")
    effects.provider.wait_held(1)
    effects.dev.kill_busy("repeatable")
    assert first.result().status == 500
    effects.provider.arm(hold=False)

    later = effects.settled_code(key, "request-in-progress", path="/repeatable")

    assert later.status == 201
    assert later.json() == {"attempt": 2}
    # The author said that this is harmless: the provider, given no key, has charged twice.
    assert effects.provider.counts()["charges"] == 2
    seen = [intent["metadata"] for intent in effects.provider.payment_intents()]
    assert {facts["attempt"] for facts in seen} == {"1", "2"}
    (shown,) = {facts["downstream_key"] for facts in seen}
    assert shown


def test_a_handler_killed_at_its_timeout_leaves_the_outcome_unknown(effects: Payments) -> None:
    """A charge that outlasts the function's timeout: the platform kills the sandbox, and nothing is
    repeated.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()

    first = effects.pay(key, path="/unrecorded")
    assert first.status == 503
    assert code_of(first) is None
    later = effects.settled_code(key, "request-in-progress", path="/unrecorded")
    effects.provider.arm(hold=False)

    assert code_of(later) == "outcome-unknown"
    assert effects.provider.counts()["charges"] == 1


@pytest.mark.requirement("C9")
def test_a_store_that_is_down_stops_everything_and_loses_nothing(payments: Payments) -> None:
    """Store down: 503, no charge; once it is back the same key is carried out.

    Red when the service charges unprotected.
    """
    payments.provider.reset()
    key = new_key()
    store_faults(payments, down=True)
    refused = payments.pay(key)
    store_faults(payments, down=False)

    assert (refused.status, code_of(refused)) == (503, "store-unavailable")
    assert payments.provider.counts()["calls"] == 0
    assert payments.pay(key).status == 201
    assert payments.provider.counts()["charges"] == 1


@pytest.mark.case(9)
def test_a_reserve_whose_answer_is_lost_costs_nothing(payments: Payments) -> None:
    """A store that applies the reserve and drops its answer: one charge, a normal answer, and its
    replay.

    Red when the function takes its own reserve for another's.
    """
    payments.provider.reset()
    key = new_key()
    store_faults(payments, lose_answers=1)
    first = payments.pay(key)
    store_faults(payments, lose_answers=0)

    assert first.status == 201
    assert "idempotency-expires" in first.headers
    assert payments.pay(key).body == first.body
    assert payments.provider.counts()["charges"] == 1


@pytest.mark.case(9)
def test_a_reserve_and_a_completion_whose_answers_are_lost_cost_nothing(effects: Payments) -> None:
    """A store that applies each of the two writes of a request and drops its answer: one charge,
    a normal answer, and its replay.

    Red when the function takes its own reserve, or its own completion, for another's.
    """
    effects.provider.reset()
    effects.provider.arm(hold=True)
    key = new_key()
    store_faults(effects, lose_answers=1)
    request = effects.start(key, path="/unrecorded")
    # Its reserve is over; the write that comes after the charge is its completion.
    effects.provider.wait_held(1)
    store_faults(effects, lose_answers=1)
    effects.provider.arm(hold=False)
    first = request.result()

    assert first.status == 201
    assert "idempotency-expires" in first.headers
    assert "idempotent-replayed" not in first.headers
    replay = effects.pay(key, path="/unrecorded")
    assert (replay.body, replay.headers["idempotent-replayed"]) == (first.body, "true")
    assert effects.provider.counts()["charges"] == 1


def test_an_answer_lost_between_provider_and_service_is_not_lost_on_the_client(
    payments: Payments,
) -> None:
    """A charge whose answer is lost is found by the provider's own key: 201, one charge."""
    payments.provider.reset()
    payments.provider.arm(lose_answer=1)
    key = new_key()

    assert payments.pay(key).status == 201
    assert payments.provider.counts()["charges"] == 1


def test_a_provider_that_fails_leaves_the_outcome_unknown(payments: Payments) -> None:
    """A provider that answers 500 twice proves nothing: the retry is refused, not run."""
    payments.provider.reset()
    payments.provider.arm(fail=2)
    key = new_key()

    assert payments.pay(key).status == 500
    assert code_of(payments.pay(key)) == "outcome-unknown"


def test_a_decline_is_final(payments: Payments) -> None:
    """A declined card is a stored 402; its retry makes no second attempt at the provider."""
    payments.provider.reset()
    payments.provider.arm(decline=1)
    key = new_key()

    first = payments.pay(key)
    calls = payments.provider.counts()["calls"]
    replay = payments.pay(key)

    assert first.status == replay.status == 402
    assert replay.body == first.body
    assert payments.provider.counts()["calls"] == calls
