"""Payment intents and refunds, as the official SDK sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import stripe

from tests.support.provider import Provider, sdk

if TYPE_CHECKING:
    from collections.abc import Mapping


def charge(
    client: stripe.StripeClient,
    amount: int = 1200,
    customer: str = "cus_1",
    metadata: Mapping[str, str] | None = None,
) -> stripe.PaymentIntent:
    """A payment intent that succeeds at once."""
    return client.v1.payment_intents.create(
        {
            "amount": amount,
            "currency": "eur",
            "customer": customer,
            "confirm": True,
            "description": "two & a half = 2.5",
            "metadata": dict(metadata or {}),
        }
    )


def test_create_and_confirm_charges_at_once(
    client: stripe.StripeClient, provider: Provider
) -> None:
    """A payment intent that is created with confirm is charged, and can be retrieved."""
    created = charge(client, metadata={"operation_id": "op 1 [é]"})

    found = client.v1.payment_intents.retrieve(created.id)

    assert found.id.startswith("pi_")
    assert (
        found.status,
        found.amount,
        found.amount_received,
        found.currency,
        found.customer,
    ) == ("succeeded", 1200, 1200, "eur", "cus_1")
    assert found.metadata.to_dict() == {"operation_id": "op 1 [é]"}
    assert found.description == "two & a half = 2.5"
    assert found.created > 1_700_000_000
    assert provider.counts()["charges"] == 1


def test_confirm_charges_a_payment_intent_once(
    client: stripe.StripeClient, provider: Provider
) -> None:
    """A payment intent waits for its confirmation, and refuses a second one."""
    created = client.v1.payment_intents.create(
        {"amount": 5, "currency": "eur", "payment_method": "pm_card_visa"}
    )

    confirmed = client.v1.payment_intents.confirm(created.id)
    with pytest.raises(stripe.InvalidRequestError) as refused:
        client.v1.payment_intents.confirm(created.id)

    assert (created.status, confirmed.status) == ("requires_confirmation", "succeeded")
    assert refused.value.code == "payment_intent_unexpected_state"
    assert provider.counts()["charges"] == 1


def test_a_cancelled_payment_intent_cannot_be_charged(client: stripe.StripeClient) -> None:
    """Cancelling ends a payment intent for good."""
    created = client.v1.payment_intents.create({"amount": 5, "currency": "eur"})

    cancelled = client.v1.payment_intents.cancel(created.id, {"cancellation_reason": "abandoned"})
    with pytest.raises(stripe.InvalidRequestError, match="status of canceled"):
        client.v1.payment_intents.confirm(created.id, {"payment_method": "pm_card_visa"})

    assert (cancelled.status, cancelled.cancellation_reason) == ("canceled", "abandoned")


def test_list_pages_through_everything_newest_first(client: stripe.StripeClient) -> None:
    """The SDK's auto-paging meets every payment intent once, forwards and backwards."""
    ids = [charge(client, amount).id for amount in range(1, 8)]

    first = client.v1.payment_intents.list({"limit": 3})
    forwards = [each.id for each in first.auto_paging_iter()]
    backwards = client.v1.payment_intents.list({"limit": 2, "ending_before": ids[0]})

    assert first.has_more
    assert ids[::-1] == forwards
    assert ids[1:] == [each.id for each in backwards.auto_paging_iter()]


def test_list_by_customer(client: stripe.StripeClient) -> None:
    """A list for one customer leaves out the others, on every page."""
    mine = [charge(client, customer="cus_1").id for _ in range(3)]
    charge(client, customer="cus_2")

    found = client.v1.payment_intents.list({"customer": "cus_1", "limit": 2})

    assert mine[::-1] == [each.id for each in found.auto_paging_iter()]


def test_search_by_metadata(client: stripe.StripeClient) -> None:
    """A search finds exactly what matches all its clauses, over several pages."""
    wanted = [charge(client, metadata={"operation_id": "it's", "tenant": "a"}).id for _ in range(3)]
    charge(client, metadata={"operation_id": "it's", "tenant": "b"})
    charge(client, metadata={"tenant": "a"})
    client.v1.payment_intents.create(
        {"amount": 5, "currency": "eur", "metadata": {"operation_id": "it's", "tenant": "a"}}
    )

    found = client.v1.payment_intents.search(
        {
            "query": "metadata['operation_id']:'it\\'s' AND metadata[\"tenant\"]:\"a\""
            " AND status:'succeeded'",
            "limit": 2,
        }
    )

    assert found.has_more
    assert wanted[::-1] == [each.id for each in found.auto_paging_iter()]


@pytest.mark.parametrize(
    "query",
    ["", "nonsense", "metadata['a']:'b' OR status:'x'", "secret:'x'", "status:'x' AND", "status:x"],
)
def test_a_query_it_cannot_read_is_refused(client: stripe.StripeClient, query: str) -> None:
    """An unreadable query is an error and never an empty result."""
    with pytest.raises(stripe.InvalidRequestError) as refused:
        client.v1.payment_intents.search({"query": query})

    assert refused.value.param == "query"


def test_refunds_up_to_the_amount_charged(client: stripe.StripeClient, provider: Provider) -> None:
    """Parts of a charge can be given back until nothing is left, and never more than that."""
    intent = charge(client, 1000)

    part = client.v1.refunds.create(
        {
            "payment_intent": intent.id,
            "amount": 400,
            "reason": "duplicate",
            "metadata": {"why": "twice"},
        }
    )
    with pytest.raises(stripe.InvalidRequestError) as too_much:
        client.v1.refunds.create({"payment_intent": intent.id, "amount": 601})
    rest = client.v1.refunds.create({"payment_intent": intent.id})
    with pytest.raises(stripe.InvalidRequestError) as nothing_left:
        client.v1.refunds.create({"payment_intent": intent.id})

    assert part.id.startswith("re_")
    assert (part.reason, part.status) == ("duplicate", "succeeded")
    assert rest.amount == 600
    assert too_much.value.param == "amount"
    assert nothing_left.value.code == "charge_already_refunded"
    assert part.to_dict() == client.v1.refunds.retrieve(part.id).to_dict()
    listed = client.v1.refunds.list({"payment_intent": intent.id, "limit": 1})
    assert [rest.id, part.id] == [each.id for each in listed.auto_paging_iter()]
    assert provider.counts()["refunds"] == 2


def test_what_was_not_charged_cannot_be_refunded(client: stripe.StripeClient) -> None:
    """A payment intent without a successful charge has nothing to give back."""
    intent = client.v1.payment_intents.create({"amount": 5, "currency": "eur"})

    with pytest.raises(stripe.InvalidRequestError, match="does not have a successful charge"):
        client.v1.refunds.create({"payment_intent": intent.id})


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"amount": None}, "amount"),
        ({"amount": 0}, "amount"),
        ({"amount": 100_000_000}, "amount"),
        ({"amount": "1.5"}, "amount"),
        ({"currency": "zzz"}, "currency"),
        ({"confirm": "maybe"}, "confirm"),
        ({"customer": ""}, "customer"),
        ({"payment_method": "visa"}, "payment_method"),
        ({"colour": "red"}, "colour"),
        ({"metadata": {"a" * 41: "b"}}, "metadata[" + "a" * 41 + "]"),
        ({"metadata": {"a": "b" * 501}}, "metadata[a]"),
    ],
)
def test_bad_parameters_are_named(
    client: stripe.StripeClient, provider: Provider, changes: dict[str, object], param: str
) -> None:
    """A wrong parameter is refused by name, and nothing is made of the request."""
    params = {"amount": 5, "currency": "eur", **changes}
    sent = {name: value for name, value in params.items() if value is not None}

    with pytest.raises(stripe.InvalidRequestError) as refused:
        client.v1.payment_intents.create(sent)  # type: ignore[arg-type]

    assert (400, param) == (refused.value.http_status, refused.value.param)
    assert client.v1.payment_intents.list().data == []


def test_a_charge_needs_somebody_to_charge(client: stripe.StripeClient) -> None:
    """Without a customer and a payment method there is nothing to confirm, and nothing is kept."""
    with pytest.raises(stripe.InvalidRequestError, match="missing a payment method"):
        client.v1.payment_intents.create({"amount": 5, "currency": "eur", "confirm": True})

    assert client.v1.payment_intents.list().data == []


def test_a_declined_card_leaves_a_payment_intent_that_can_be_confirmed(
    client: stripe.StripeClient, provider: Provider
) -> None:
    """A decline is a card error with the payment intent in it; another card may still succeed."""
    with pytest.raises(stripe.CardError) as declined:
        client.v1.payment_intents.create(
            {
                "amount": 5,
                "currency": "eur",
                "confirm": True,
                "payment_method": "pm_card_chargeDeclined",
            }
        )

    assert (declined.value.http_status, declined.value.code) == (402, "card_declined")
    assert declined.value.error is not None
    intent = declined.value.error.payment_intent
    assert intent is not None
    assert intent.status == "requires_payment_method"
    assert provider.counts()["charges"] == 0
    again = client.v1.payment_intents.confirm(intent.id, {"payment_method": "pm_card_visa"})
    assert again.status == "succeeded"


def test_unknown_objects_are_missing(client: stripe.StripeClient) -> None:
    """An id that nobody was given is a 404, also as a cursor of a list."""
    with pytest.raises(stripe.InvalidRequestError) as retrieved:
        client.v1.payment_intents.retrieve("pi_nothing")
    with pytest.raises(stripe.InvalidRequestError) as cursor:
        client.v1.payment_intents.list({"starting_after": "pi_nothing"})
    with pytest.raises(stripe.InvalidRequestError) as refunded:
        client.v1.refunds.create({"payment_intent": "pi_nothing"})

    assert [each.value.http_status for each in (retrieved, cursor, refunded)] == [404] * 3
    assert (cursor.value.param, refunded.value.param) == ("starting_after", "payment_intent")


@pytest.mark.parametrize("api_key", ["wrong", "sk_live_1"])
def test_a_wrong_key_is_refused(provider: Provider, api_key: str) -> None:
    """A key that is not a test key opens nothing."""
    with (
        sdk(provider.url, api_key=api_key) as client,
        pytest.raises(stripe.AuthenticationError) as refused,
    ):
        charge(client)

    assert refused.value.http_status == 401
    assert provider.counts()["calls"] == 0


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, 401),
        ("Basic not-base64!", 401),
        ("Basic c2tfdGVzdF9hOg==", 200),
        ("Bearer sk_test_a", 200),
    ],
)
def test_basic_and_bearer_keys(provider: Provider, header: str | None, status: int) -> None:
    """The key may come as bearer token or as basic user, and it must come."""
    import requests

    answer = requests.get(
        f"{provider.url}/v1/payment_intents",
        headers={} if header is None else {"Authorization": header},
        timeout=30,
    )

    assert status == answer.status_code


def test_an_unknown_path_is_refused_like_by_stripe(client: stripe.StripeClient) -> None:
    """What this provider does not serve is an invalid request to the SDK and names the path."""
    with pytest.raises(stripe.InvalidRequestError, match="/v1/customers"):
        client.v1.customers.create({})
