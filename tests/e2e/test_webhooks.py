"""The provider's events over real HTTP: signed, twice, out of order, and what comes of them."""

from __future__ import annotations

import json

import pytest

from tests.support.dev_service import send
from tests.support.looking import until
from tests.support.payments_client import Client, code_of, new_key

FORGED = {"Content-Type": "application/json", "Stripe-Signature": "t=1,v1=" + "0" * 64}


@pytest.fixture(scope="module")
def payments(shared: Client) -> Client:
    """The reference service, whose provider sends its events."""
    shared.provider.webhooks(hold=False)
    return shared


def events_taken_on(payments: Client) -> list[str]:
    """The ids of the events that have a record."""
    return [
        record["key"]["S"]
        for record in payments.records()
        if record.get("operation", {}).get("S") == "POST /webhooks/stripe"
    ]


@pytest.mark.requirement("A10")
@pytest.mark.requirement("D6")
def test_an_event_twice_and_out_of_order_settles_a_refund_once(payments: Client) -> None:
    """SIGKILL while the provider holds a refund; its client is told "unknown". The provider's
    events, held back until then, come each twice and the newest first: the operation is settled
    once, the row that the dead handler did not write is there, and the client's retry gets the true
    201.

    Red when an event that comes twice is published twice, or settles nothing.
    """
    said = len(payments.dev.log())
    refunds = payments.refunding()
    # What is told of the payment is taken on before anything is held back.
    payments.provider.webhooks(hold=False)
    refunds.quiet()
    payments.provider.webhooks(hold=True)
    known = set(events_taken_on(payments))
    payments.provider.arm(hold=True)
    key = new_key()
    first = refunds.start(key)
    payments.provider.wait_held(1)
    payments.dev.kill_busy("refunds")
    assert first.result().status == 500
    payments.provider.arm(hold=False)
    unknown = refunds.settled_code(key, "request-in-progress")
    assert code_of(unknown) == "outcome-unknown"

    state = payments.provider.webhooks(hold=False, copies=2, newest_first=True)
    settled = refunds.settled_code(key, "outcome-unknown")
    payments.quiet()
    payments.provider.webhooks(copies=1, newest_first=False)

    # `refund.created` is taken on once; `charge.refunded` is nothing to this service.
    assert (state["waiting"], state["given_up"]) == (0, 0)
    (event_id,) = set(events_taken_on(payments)) - known
    assert event_id.startswith("evt_")
    assert (settled.status, settled.headers["idempotent-replayed"]) == (201, "true")
    (row,) = [
        row
        for row in payments.rows("refunds")
        if row["refund_id"]["S"] == settled.json()["refund_id"]
    ]
    assert row["status"]["S"] == settled.json()["status"] == "succeeded"
    (record,) = [record for record in payments.records() if record.get("key", {}).get("S") == key]
    assert (record["status"]["S"], record["operation_id"]) == ("COMPLETED", row["operation_id"])
    log = payments.dev.log()[said:]
    assert log.count('"outcome":"refund-settled"') == 1
    assert payments.provider.counts()["refunds"] == 1


def test_a_payment_whose_worker_never_hears_of_it_is_finished_by_its_event(
    payments: Client,
) -> None:
    """The provider charges and the answer is lost: the event says how the payment ended."""
    payments.provider.arm(lose_answer=1)
    accepted = payments.ask(new_key())

    assert payments.ended(accepted)["status"] == "succeeded"
    payments.quiet()
    until(lambda: not payments.provider.webhooks()["waiting"], "an event still waits")


def test_what_is_not_signed_is_a_400_at_an_open_route(payments: Client) -> None:
    """Without a token the route is reached, and without a signature nothing comes of it."""
    before = events_taken_on(payments)
    body = json.dumps({"id": "evt_forged", "type": "refund.created"}).encode()

    answer = send(payments.dev.url, "POST", "/webhooks/stripe", headers=FORGED, body=body)

    assert (answer.status, code_of(answer)) == (400, "signature-invalid")
    assert events_taken_on(payments) == before
