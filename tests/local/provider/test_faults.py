"""Each fault that the provider can be told to have."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import stripe

from oncekey_local.provider.faults import Faults
from tests.support.provider import API_KEY, sdk

if TYPE_CHECKING:
    from tests.support.provider import Provider

NONE = {"delay_ms": 0, "fail": 0, "lose_answer": 0, "decline": 0, "process": 0, "hold": False}
CHARGE: Any = {"amount": 5, "currency": "eur", "customer": "cus_1", "confirm": True}


@pytest.fixture
def impatient_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own retries follow at once."""
    monkeypatch.setattr(stripe.HTTPClient, "INITIAL_DELAY", 0)


def test_faults_are_shown_and_changed_one_by_one(provider: Provider) -> None:
    """Setting one fault leaves the others, and every answer shows them all."""
    assert provider.control("GET", "/_faults") == (200, NONE)

    provider.control("POST", "/_faults", {"fail": 2})
    status, shown = provider.control("POST", "/_faults", {"decline": 1})

    assert (status, shown) == (200, {**NONE, "fail": 2, "decline": 1})
    assert (200, shown) == provider.control("GET", "/_faults")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"colour": 1, "fail": 1}, ["colour"]),
        ({"fail": True, "delay_ms": -1, "hold": 1}, ["fail", "delay_ms", "hold"]),
        ({"lose_answer": "1", "decline": 1.0}, ["lose_answer", "decline"]),
        ([], ["JSON object"]),
        (None, ["JSON"]),
    ],
)
def test_faults_it_does_not_know_are_refused(
    provider: Provider, body: object, named: list[str]
) -> None:
    """A wrong setting is refused with all its mistakes, and none of it is applied."""
    status, answer = provider.control("POST", "/_faults", body)

    assert status == 400
    assert [name for name in named if name not in answer["error"]] == []
    assert provider.control("GET", "/_faults") == (200, NONE)


def test_fail_answers_500_and_applies_nothing(
    client: stripe.StripeClient, provider: Provider
) -> None:
    """The next calls fail without a trace, so their key is free afterwards."""
    provider.arm(fail=2)

    for _ in range(2):
        with pytest.raises(stripe.APIError) as failed:
            client.v1.payment_intents.create(CHARGE, {"idempotency_key": "k1"})
        assert failed.value.http_status == 500
    assert client.v1.payment_intents.list().data == []

    client.v1.payment_intents.create(CHARGE, {"idempotency_key": "k1"})
    assert provider.counts()["charges"] == 1


def test_lose_answer_applies_and_says_nothing(
    client: stripe.StripeClient, provider: Provider
) -> None:
    """The call takes effect, the caller hears nothing, and a retry under the key hears it all."""
    provider.arm(lose_answer=1)

    with pytest.raises(stripe.APIConnectionError):
        client.v1.payment_intents.create(CHARGE, {"idempotency_key": "k1"})
    assert provider.counts()["charges"] == 1

    retried = client.v1.payment_intents.create(CHARGE, {"idempotency_key": "k1"})
    assert retried.status == "succeeded"
    assert provider.counts()["charges"] == 1


@pytest.mark.usefixtures("impatient_sdk")
@pytest.mark.parametrize("fault", ["lose_answer", "fail"])
def test_the_sdk_retries_and_charges_once(provider: Provider, fault: str) -> None:
    """The SDK's own retries after lost answers and failures end with one charge."""
    provider.arm(**{fault: 2})

    with sdk(provider.url, retries=2) as client:
        intent = client.v1.payment_intents.create(CHARGE)

    assert intent.status == "succeeded"
    assert (provider.counts()["calls"], provider.counts()["charges"]) == (3, 1)


def test_decline_strikes_the_next_charges(client: stripe.StripeClient, provider: Provider) -> None:
    """The next charge is declined although its card is good, and the one after it is not."""
    provider.arm(decline=1)
    client.v1.payment_intents.create({"amount": 5, "currency": "eur"})

    with pytest.raises(stripe.CardError):
        client.v1.payment_intents.create(CHARGE)

    assert client.v1.payment_intents.create(CHARGE).status == "succeeded"


@pytest.mark.parametrize("decline", [False, True])
def test_a_charge_that_takes_long_is_processing_until_it_is_finished(
    client: stripe.StripeClient, provider: Provider, *, decline: bool
) -> None:
    """The next charge is neither made nor declined, and cannot be given back; then it is told to
    end in either way, and the one after it has ended at once.
    """
    provider.arm(process=1)
    slow = client.v1.payment_intents.create(CHARGE)
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.refunds.create({"payment_intent": slow.id})
    quick = client.v1.payment_intents.create(CHARGE)

    provider.finish(decline=decline)

    ended = client.v1.payment_intents.retrieve(slow.id)
    assert (slow.status, quick.status) == ("processing", "succeeded")
    assert ended.status == ("requires_payment_method" if decline else "succeeded")
    assert (ended.last_payment_error is not None) == decline
    assert provider.counts()["charges"] == (1 if decline else 2)
    assert provider.control("POST", "/_finish", {"decline": 1})[0] == 400
    assert provider.control("POST", "/_finish", [])[0] == 400


def test_delay_holds_a_call_back(provider: Provider) -> None:
    """A delayed call outlasts a caller with less patience, and reads are not delayed."""
    provider.arm(delay_ms=60_000)

    with sdk(provider.url, timeout_s=0.05) as hasty, pytest.raises(stripe.APIConnectionError):
        hasty.v1.payment_intents.create(CHARGE)

    assert provider.counts()["charges"] == 0
    with sdk(provider.url) as client:
        assert client.v1.payment_intents.list().data == []


def test_a_delayed_call_is_answered(client: stripe.StripeClient, provider: Provider) -> None:
    """A delay ends, and the call is applied as any other."""
    provider.arm(delay_ms=1)

    assert client.v1.payment_intents.create(CHARGE).status == "succeeded"


def test_held_calls_are_applied_when_the_hold_ends(
    client: stripe.StripeClient, provider: Provider
) -> None:
    """While calls are held nothing is to be seen of them; afterwards all of them have happened."""
    provider.arm(hold=True)
    with ThreadPoolExecutor(2) as pool, sdk(provider.url) as other:
        calls = [pool.submit(each.v1.payment_intents.create, CHARGE) for each in (client, other)]
        provider.wait_held(2)
        with sdk(provider.url) as reader:
            seen = reader.v1.payment_intents.list().data
        held = provider.counts()

        provider.arm(hold=False)
        released = provider.counts()

        assert [call.result().status for call in calls] == ["succeeded"] * 2
    assert seen == []
    assert held == {"held": 2, "calls": 2, "charges": 0, "refunds": 0}
    assert released == {"held": 0, "calls": 2, "charges": 2, "refunds": 0}


def test_ending_a_hold_returns_when_all_is_applied() -> None:
    """Whoever ends a hold finds every held call applied, without a further look at the loop."""

    async def scenario() -> list[int]:
        faults, applied = Faults(), list[int]()

        async def call(number: int) -> None:
            async with faults.gate():
                applied.append(number)

        await faults.set({"hold": True})
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(call(number))
            await faults.wait_held(3, timeout_ms=20_000)
            await faults.set({"hold": False})
            return list(applied)

    assert asyncio.run(scenario()) == [0, 1, 2]


def test_a_call_arrives_although_its_caller_is_gone(provider: Provider) -> None:
    """A held call whose caller hung up still takes effect, late."""
    provider.arm(hold=True)
    body = b"amount=5&currency=eur&customer=cus_1&confirm=true"
    address = urlsplit(provider.url)
    with socket.create_connection((address.hostname, address.port)) as caller:
        caller.sendall(
            b"POST /v1/payment_intents HTTP/1.1\r\nHost: provider\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n"
            + f"Authorization: Bearer {API_KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        provider.wait_held(1)

    assert provider.counts()["charges"] == 0
    provider.arm(hold=False)

    assert provider.counts()["charges"] == 1


def test_waiting_for_held_calls_ends_with_408(provider: Provider) -> None:
    """Whoever waits for more calls than there are is told so when the time is over."""
    status, counts = provider.control("POST", "/_wait", {"held": 1, "timeout_ms": 1})

    assert (status, counts["held"]) == (408, 0)
    assert provider.control("POST", "/_wait", {"held": 0, "timeout_ms": 1})[0] == 200


@pytest.mark.parametrize(
    "body", [None, {}, {"held": 1}, {"held": "1", "timeout_ms": 1}, {"held": 1, "timeout_ms": 0}]
)
def test_a_wait_it_cannot_read_is_refused(provider: Provider, body: object) -> None:
    """A wait says for how many calls and how long."""
    assert provider.control("POST", "/_wait", body)[0] == 400


def test_reset_forgets_everything(client: stripe.StripeClient, provider: Provider) -> None:
    """After a reset there are no objects, keys or faults, and held calls end without a trace."""
    client.v1.payment_intents.create(CHARGE, {"idempotency_key": "k1"})
    provider.arm(hold=True, fail=0, decline=7)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.v1.payment_intents.create, CHARGE)
        provider.wait_held(1)

        provider.reset()

        with pytest.raises(stripe.CardError):
            call.result()
    assert provider.counts() == {"held": 0, "calls": 0, "charges": 0, "refunds": 0}
    assert provider.control("GET", "/_faults") == (200, NONE)
    other: Any = {**CHARGE, "amount": 6}
    client.v1.payment_intents.create(other, {"idempotency_key": "k1"})
