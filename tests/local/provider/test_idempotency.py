"""The provider's memory of idempotency keys, which is Stripe's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import stripe

from tests.support.provider import sdk

if TYPE_CHECKING:
    from tests.support.provider import Provider

GOOD: dict[str, Any] = {"amount": 5, "currency": "eur", "customer": "cus_1", "confirm": True}


def create(client: stripe.StripeClient, key: str, **changes: Any) -> stripe.PaymentIntent:
    """A charge under this key."""
    params: Any = {**GOOD, **changes}
    return client.v1.payment_intents.create(params, {"idempotency_key": key})


def headers(answer: stripe.PaymentIntent) -> dict[str, str]:
    """The headers of the answer that this object came in."""
    assert answer.last_response is not None
    return {name.lower(): value for name, value in answer.last_response.headers.items()}


def test_a_key_takes_effect_once(client: stripe.StripeClient, provider: Provider) -> None:
    """The second request under a key gets the first one's answer, marked as a replay of it."""
    first = create(client, "k1")
    second = create(client, "k1")

    assert first.to_dict() == second.to_dict()
    assert provider.counts()["charges"] == 1
    before, after = headers(first), headers(second)
    assert "k1" == before["idempotency-key"] == after["idempotency-key"]
    assert "idempotent-replayed" not in before
    assert after["idempotent-replayed"] == "true"
    assert before["request-id"] == before["original-request"] == after["original-request"]
    assert before["request-id"] != after["request-id"]
    assert "false" == before["stripe-should-retry"] == after["stripe-should-retry"]


def test_a_key_is_bound_to_its_parameters(client: stripe.StripeClient, provider: Provider) -> None:
    """The same key with other parameters, or for another call, is an idempotency error."""
    intent = create(client, "k1")

    with pytest.raises(stripe.IdempotencyError) as other_amount:
        create(client, "k1", amount=6)
    with pytest.raises(stripe.IdempotencyError) as other_call:
        client.v1.refunds.create({"payment_intent": intent.id}, {"idempotency_key": "k1"})

    assert [each.value.http_status for each in (other_amount, other_call)] == [400, 400]
    assert "k1" in str(other_amount.value)
    assert (provider.counts()["charges"], provider.counts()["refunds"]) == (1, 0)


def test_a_running_key_is_in_use(client: stripe.StripeClient, provider: Provider) -> None:
    """While the first request under a key runs, a second one is a conflict that may be retried."""
    provider.arm(hold=True)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(create, client, "k1")
        provider.wait_held(1)

        with sdk(provider.url) as other, pytest.raises(stripe.APIError) as in_use:
            create(other, "k1")

        provider.arm(hold=False)
        intent = first.result()

    assert in_use.value.http_status == 409
    assert isinstance(in_use.value.json_body, dict)
    assert in_use.value.json_body["error"]["code"] == "idempotency_key_in_use"
    assert (in_use.value.headers or {})["Stripe-Should-Retry"] == "true"
    assert intent.to_dict() == create(client, "k1").to_dict()
    assert provider.counts()["charges"] == 1


def test_an_error_that_began_is_remembered(client: stripe.StripeClient, provider: Provider) -> None:
    """A decline is the answer of its key for good, although the card would be good by now."""
    provider.arm(decline=1)

    with pytest.raises(stripe.CardError) as first:
        create(client, "k1")
    with pytest.raises(stripe.CardError) as second:
        create(client, "k1")

    assert first.value.json_body == second.value.json_body
    assert (second.value.headers or {})["Idempotent-Replayed"] == "true"
    assert provider.counts()["charges"] == 0
    assert len(client.v1.payment_intents.list().data) == 1


def test_a_refused_parameter_is_not_remembered(client: stripe.StripeClient) -> None:
    """A request that did not pass the check of its parameters leaves its key free."""
    with pytest.raises(stripe.InvalidRequestError):
        create(client, "k1", amount=0)

    assert create(client, "k1").status == "succeeded"


def test_a_key_that_is_too_long_is_refused(client: stripe.StripeClient) -> None:
    """A key has at most 255 characters."""
    assert create(client, "k" * 255).status == "succeeded"
    with pytest.raises(stripe.InvalidRequestError, match="255"):
        create(client, "k" * 256)
