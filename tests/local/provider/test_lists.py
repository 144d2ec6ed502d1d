"""The provider's lists by the time when their objects were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import stripe

from oncekey_local.provider.parameters import Parameters
from oncekey_local.provider.search import list_page

if TYPE_CHECKING:
    from tests.support.provider import Provider

# Newest first, as lists are; two of them in one second.
OBJECTS = [
    {"id": f"pi_{number}", "created": created}
    for number, created in enumerate((9, 8, 7, 7, 6), start=1)
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "12345"),
        ("created=7", "34"),
        ("created[gt]=7", "12"),
        ("created[gte]=7", "1234"),
        ("created[lt]=7", "5"),
        ("created[lte]=7", "345"),
        ("created[gte]=7&created[lt]=9", "234"),
        ("created[gte]=7&created[lt]=9&starting_after=pi_2", "34"),
        ("created[gt]=9", ""),
    ],
)
def test_a_list_is_of_those_that_were_made_then(query: str, found: str) -> None:
    """Both ends of a span may belong to it or not, and a cursor goes on within it."""
    page = list_page(OBJECTS, Parameters(query), kind="payment_intent", url="/v1/payment_intents")

    assert "".join(each["id"].removeprefix("pi_") for each in page["data"]) == found
    assert page["has_more"] is False


def test_a_span_has_pages() -> None:
    """A page is full of what lies in the span, and says whether the span goes on after it."""
    query = Parameters("created[gte]=7&limit=3")

    page = list_page(OBJECTS, query, kind="payment_intent", url="/v1/payment_intents")

    assert [each["id"] for each in page["data"]] == ["pi_1", "pi_2", "pi_3"]
    assert page["has_more"] is True


def test_the_sdk_pages_through_a_span(client: stripe.StripeClient, provider: Provider) -> None:
    """The SDK's auto-paging takes the span along, of payment intents and of refunds."""
    intents = [
        client.v1.payment_intents.create(
            {"amount": 9, "currency": "eur", "customer": "cus_1", "confirm": True}
        )
        for _ in range(3)
    ]
    refunds = [
        client.v1.refunds.create({"payment_intent": intents[0].id, "amount": 1}) for _ in range(3)
    ]
    first, last = intents[0].created, refunds[-1].created + 1

    charged = client.v1.payment_intents.list({"created": {"gte": first, "lt": last}, "limit": 2})
    refunded = client.v1.refunds.list({"created": {"gte": first, "lt": last}, "limit": 2})
    later = client.v1.payment_intents.list({"created": {"gte": last}})
    earlier = client.v1.refunds.list({"created": {"lt": first}})

    assert [each.id for each in charged.auto_paging_iter()] == [each.id for each in intents[::-1]]
    assert [each.id for each in refunded.auto_paging_iter()] == [each.id for each in refunds[::-1]]
    assert (later.data, earlier.data) == ([], [])


@pytest.mark.parametrize("name", ["created[gte]", "created[after]"])
def test_a_span_it_cannot_read_is_refused(client: stripe.StripeClient, name: str) -> None:
    """A bound that is no time, or of no known kind, is an error and never an unbounded list."""
    bound = name.removeprefix("created[").removesuffix("]")
    with pytest.raises(stripe.InvalidRequestError) as refused:
        client.v1.payment_intents.list({"created": {bound: "yesterday"}})  # type: ignore[arg-type]

    assert refused.value.param == name
