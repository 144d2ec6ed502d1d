"""The ledgers as the service's own functions write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from functions.outbox_worker import handler as outbox_worker
from functions.payments import handler as payments
from functions.refunds import handler as refunds
from tests.support.events import load, with_body, with_key, with_route
from tests.support.queue_events import delivery

if TYPE_CHECKING:
    from tests.service.ledger.conftest import Ledgers
    from tests.support.provider import Provider


def post(path: str, key: str, body: dict[str, Any]) -> dict[str, Any]:
    """A request as the HTTP API hands it over."""
    event = with_body(load("apigw_http_v2_post"), json.dumps(body))
    return with_key(with_route(event, "POST", path), key)


@pytest.mark.requirement("C19")
def test_what_the_service_does_agrees_with_the_provider(
    ledgers: Ledgers, provider: Provider
) -> None:
    """Payments that are taken on and charged, declined ones and refunds are the same on both sides.

    Red when the functions write, or tell the provider, anything else than what is compared.
    """
    body = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}
    answers = [
        payments.handler(post("/payments", f"payment-number-{number}", body), None)
        for number in range(3)
    ]
    provider.arm(decline=1)
    assert outbox_worker.handler(delivery(*ledgers.tables.messages()), None) == {
        "batchItemFailures": []
    }
    states = {row["payment_id"]: row["status"] for row in ledgers.tables.rows("payments")}
    charged = [one for one in states if states[one] == "succeeded"]
    assert len(charged) == 2
    refund = {"payment_id": charged[0], "amount": 300}
    answers.append(refunds.handler(post("/refunds", "refund-number-one", refund), None))
    assert [answer["statusCode"] for answer in answers] == [202, 202, 202, 201]

    verdicts = ledgers.run()

    assert verdicts["payments"].startswith("AGREED: 3 compared, 3 equal")
    assert verdicts["refunds"].startswith("AGREED: 1 compared, 1 equal")
    ledgers.charge(charged[1])
    assert ledgers.run()["payments"].startswith("DIFFERENT: 3 compared, 2 equal, 1 different")
