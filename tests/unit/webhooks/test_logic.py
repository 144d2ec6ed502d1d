"""Which events the worker is told of, and what of them."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from functions.shared.models import ProviderEvent
from functions.webhooks.logic import message_about
from tests.support.events import load

if TYPE_CHECKING:
    from oncekey import Publish

EVENT: dict[str, Any] = json.loads(load("apigw_http_v2_stripe_webhook")["body"])


def event(kind: str = "payment_intent.succeeded", **changes: Any) -> dict[str, Any]:
    """The sample event, of another type, with these changes of its object."""
    changed = copy.deepcopy(EVENT)
    changed["type"] = kind
    changed["data"]["object"].update(changes)
    return changed


def told(published: Publish | None) -> ProviderEvent:
    """What the worker is told."""
    assert published is not None
    return ProviderEvent.model_validate(published.payload)


def test_a_declined_payment_is_told_with_its_reason() -> None:
    """The code of the last failure goes along, and nothing else of it."""
    failed = event(
        "payment_intent.payment_failed",
        status="requires_payment_method",
        last_payment_error={"code": "card_declined", "payment_method": {"card": {"last4": "0002"}}},
    )

    assert told(message_about(failed)).reason == "card_declined"
    assert "0002" not in str(message_about(failed).payload)  # type: ignore[union-attr]


def test_a_refund_is_told_with_its_reference() -> None:
    """What settles the operation is among what the worker is told; other metadata is not."""
    metadata = {**EVENT["data"]["object"]["metadata"], "refund_id": "ref_1", "reference": "v1#a.b"}
    refund = event("refund.created", id="re_1", metadata={**metadata, "note": "private"})

    assert told(message_about(refund)).metadata == metadata


@pytest.mark.parametrize(
    "other",
    [
        event("payment_intent.created"),
        event("charge.refunded"),
        event("customer.created"),
        event(metadata={}),
        event(metadata={"tenant": "tenant-1"}),
    ],
)
def test_other_events_are_nothing_to_us(other: dict[str, Any]) -> None:
    """Other types, and what another integration of the same account has made, are ignored."""
    assert message_about(other) is None


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"type": "refund.created"},
        {"type": "refund.created", "data": {"object": None}},
        event(amount="1200"),
        event(metadata=None),
        event(status=None),
    ],
)
def test_another_form_is_an_error_of_the_kinds_that_are_a_400(form: dict[str, Any]) -> None:
    """An event of another form raises what the webhook answers with `event-invalid`."""
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        message_about(form)
