"""The route of the provider's events, on mocked tables, with the sample event."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from functions.webhooks.handler import handler
from oncekey.clock import SystemClock
from oncekey.outbox.inbox import delivered
from tests.support.events import load, with_header, with_route
from tests.support.protected import problem_of
from tests.support.reference_tables import PAYMENT_ID

if TYPE_CHECKING:
    from tests.support.reference_tables import Tables

EVENT = load("apigw_http_v2_stripe_webhook")
SECRET = "whsec_example_0123456789abcdefghij"


@pytest.fixture(autouse=True)
def _then(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the time of the sample, whose signature is known here."""
    sent_ms = EVENT["requestContext"]["timeEpoch"]
    monkeypatch.setattr(SystemClock, "now_ms", lambda _clock: sent_ms)
    monkeypatch.setenv("ONCEKEY_WEBHOOK_SECRET", SECRET)


@pytest.mark.requirement("A10")
def test_an_event_is_taken_on_once(tables: Tables) -> None:
    """Sent twice, the sample event is two 200s, one completed record under its id and one message
    with what the worker needs, and no more.

    Red when the record and its message are not written together, or a repeat publishes again.
    """
    answers = [handler(EVENT, None) for _ in range(2)]

    assert [json.loads(answer["body"])["status"] for answer in answers] == ["accepted", "repeat"]
    (record,), (message,) = tables.rows("idempotency"), tables.messages()
    assert (record["status"], record["operation"]) == ("COMPLETED", "POST /webhooks/stripe")
    assert record["key"] == "evt_3QRexampleAAAAAAAAAAAAAA"
    told = delivered(message)
    assert told.topic == "stripe.event"
    assert told.payload == {
        "type": "payment_intent.succeeded",
        "object_id": "pi_3QRexampleAAAAAAAAAAAAAA",
        "status": "succeeded",
        "amount": 1200,
        "created": 1796083198,
        "told_at": 1796083199,
        "reason": None,
        "metadata": {
            "tenant": "tenant-1",
            "operation_id": "0f8fad5b-d9cb-469f-a165-70867728950e",
            "payment_id": PAYMENT_ID,
        },
    }


@pytest.mark.parametrize("value", ["t=1796083200,v1=" + "0" * 64, "nonsense", ""])
def test_what_is_not_signed_leaves_nothing(tables: Tables, value: str) -> None:
    """A forged signature is a 400, and no table is asked."""
    answer = handler(with_header(EVENT, "stripe-signature", value), None)

    assert problem_of(answer) == (400, "signature-invalid", False)
    assert tables.rows("idempotency") == []


def test_there_is_nothing_at_other_routes() -> None:
    """A route that the function does not have is a 404."""
    assert handler(with_route(EVENT, "POST", "/webhooks/other"), None)["statusCode"] == 404
