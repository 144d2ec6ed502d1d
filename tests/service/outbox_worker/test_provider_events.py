"""What follows from the provider's events, in any order and however often they come."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from functions.outbox_worker import provider_events
from functions.outbox_worker.handler import handler
from functions.refunds.handler import create_refund
from functions.shared import refunds_table
from functions.shared.models import ProviderEvent
from oncekey import InProgress
from oncekey.clock import SystemClock
from oncekey.record.references import read_reference
from tests.support.events import load
from tests.support.protected import is_replay, problem_of
from tests.support.provider_events import FAILED, INTENT, PROCESSING, REFUND, SUCCEEDED, payment
from tests.support.queue_events import delivery, message
from tests.support.reference_tables import PAYMENT_ID

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables


@pytest.mark.parametrize("status", ["succeeded", "processing", "requires_action"])
def test_a_pending_payment_is_finished_by_what_has_ended(tables: Tables, status: str) -> None:
    """A state on the way changes nothing, and the end does, with what the provider calls it."""
    tables.add_payment()
    event = SUCCEEDED.model_copy(update={"status": status})

    outcome = provider_events.apply(event)

    if status != "succeeded":
        assert (outcome, payment(tables)["status"]) == ("not-ended", "pending")
        return
    assert outcome == "payment-finished"
    row = payment(tables)
    assert (row["status"], row["provider_id"], row["charged_at"]) == (
        "succeeded",
        "pi_1",
        1_796_083_198,
    )


def test_a_payment_that_succeeded_stays_so_in_any_order(tables: Tables) -> None:
    """Whatever order success and an earlier failure of one intent arrive in, the money counts."""
    for events in itertools.permutations([SUCCEEDED, SUCCEEDED, FAILED, PROCESSING]):
        tables.add_payment()

        outcomes = [provider_events.apply(event) for event in events]

        assert payment(tables)["status"] == "succeeded"
        assert 1 <= outcomes.count("payment-finished") <= 3


def test_another_intents_event_changes_nothing(tables: Tables) -> None:
    """A row that has an intent hears of no other, and no event makes a row."""
    assert provider_events.apply(SUCCEEDED) == "payment-known"
    assert tables.rows("payments") == []

    tables.add_payment(provider_id="pi_2")
    for event in (SUCCEEDED, FAILED):
        assert provider_events.apply(event) == "payment-known"
    assert payment(tables)["status"] == "pending"


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize("receives", [1, 2])
def test_the_workers_own_message_finds_a_finished_payment(
    provider: Provider, tables: Tables, receives: int
) -> None:
    """A payment that its event has finished before its message is worked on is not charged."""
    tables.add_payment()
    provider_events.apply(SUCCEEDED)

    for _ in range(receives):
        assert handler(load("sqs_payment_requested"), None) == {"batchItemFailures": []}

    assert provider.counts()["charges"] == 0
    assert payment(tables)["status"] == "succeeded"


def test_an_event_in_the_middle_of_the_workers_charge_is_the_same_news(
    provider: Provider, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event may come between the charge and the write of its worker: that write still holds."""
    from functions.outbox_worker import logic

    tables.add_payment()
    charge = logic._charge

    def overtaken(*arguments: Any) -> logic.Charged:
        charged = charge(*arguments)
        told = {"object_id": charged.provider_id, "created": charged.charged_at}
        assert provider_events.apply(SUCCEEDED.model_copy(update=told)) == "payment-finished"
        return charged

    monkeypatch.setattr(logic, "_charge", overtaken)

    assert handler(load("sqs_payment_requested"), None) == {"batchItemFailures": []}
    assert provider.counts()["charges"] == 1
    assert payment(tables)["status"] == "succeeded"


@pytest.mark.requirement("D6")
def test_an_unknown_refund_is_settled_by_its_event(
    dead_refund: ProviderEvent, provider: Provider, tables: Tables
) -> None:
    """A client that was told "unknown" gets the true 201 once the provider's event has come; the
    row that the dead handler did not write is there, and nothing is given back again.

    Red when the event only writes the row, or a retry runs before anything has settled it.
    """
    assert problem_of(create_refund(REFUND, None))[1] == "outcome-unknown"

    outcomes = [provider_events.apply(dead_refund) for _ in range(2)]
    replay = create_refund(REFUND, None)

    assert outcomes == ["refund-settled", "refund-not-in-doubt"]
    assert is_replay(replay)
    (row,) = tables.rows("refunds")
    assert (replay["statusCode"], json.loads(replay["body"])) == (
        201,
        {
            "refund_id": row["refund_id"],
            "payment_id": PAYMENT_ID,
            "status": "succeeded",
            "amount": 300,
        },
    )
    assert row["provider_id"] == dead_refund.object_id
    assert provider.counts()["refunds"] == 1


@pytest.mark.requirement("D6")
@pytest.mark.parametrize("order", list(itertools.permutations(["pending", "succeeded"])))
def test_a_refunds_states_settle_it_once_in_any_order(
    dead_refund: ProviderEvent, tables: Tables, order: tuple[str, ...]
) -> None:
    """Of two states in either order one settles the operation, and the row ends with the last.

    Red when an older state is written over a newer one, or both settle.
    """
    outcomes = [
        provider_events.apply(dead_refund.model_copy(update={"status": status})) for status in order
    ]

    assert outcomes == ["refund-settled", "refund-not-in-doubt"]
    (row,) = tables.rows("refunds")
    assert row["status"] == "succeeded"


def test_an_event_that_is_faster_than_its_refunds_handler_comes_again(
    provider: Provider, tables: Tables, intent_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the handler may still answer, the message stays in the queue for some seconds: if the
    handler dies, its event is needed.
    """
    from tests.support.provider import sdk

    writes, heard = refunds_table.write, list[InProgress]()

    def writes_late(row: refunds_table.Row) -> None:
        if not heard:
            with sdk(provider.url) as client:
                (made,) = client.v1.refunds.list().data
            assert made.metadata is not None
            event = ProviderEvent(
                type="refund.created",
                object_id=made.id,
                status="succeeded",
                amount=made.amount,
                created=made.created,
                metadata=made.metadata.to_dict(),
            )
            monkeypatch.setattr(refunds_table, "write", writes)
            with pytest.raises(InProgress) as raised:
                provider_events.apply(event)
            heard.append(raised.value)
        writes(row)

    monkeypatch.setattr(refunds_table, "write", writes_late)

    assert create_refund(REFUND, None)["statusCode"] == 201
    assert [error.retry_after_s for error in heard] == [10]


def test_a_refund_that_was_answered_is_not_in_doubt(
    provider: Provider, tables: Tables, intent_id: str
) -> None:
    """The event of a refund whose handler lives changes neither row nor record."""
    answer = create_refund(REFUND, None)
    (row,), (before,) = tables.rows("refunds"), tables.rows("idempotency")
    metadata = {
        "tenant": "tenant-1",
        "payment_id": PAYMENT_ID,
        "operation_id": row["operation_id"],
        "refund_id": row["refund_id"],
        "reference": f"{before['pk']}.{row['operation_id']}",
    }
    assert read_reference(metadata["reference"]) == (before["pk"], row["operation_id"])
    event = ProviderEvent(
        type="refund.updated",
        object_id=row["provider_id"],
        status="succeeded",
        amount=300,
        created=int(row["refunded_at"]),
        metadata=metadata,
    )

    assert answer["statusCode"] == 201
    assert provider_events.apply(event) == "refund-not-in-doubt"
    assert tables.rows("refunds") == [row]
    assert tables.rows("idempotency") == [before]


def test_an_event_is_a_message_like_any_other(tables: Tables) -> None:
    """The queue's message is worked on by its topic; one of another form stays in the queue."""
    tables.add_payment()
    body = message(topic="stripe.event", created_at_ms=SystemClock().now_ms())
    good = json.loads(body) | {"payload": INTENT}
    bad = json.loads(body) | {"payload": {**INTENT, "status": None}}

    answer = handler(delivery(json.dumps(good), json.dumps(bad)), None)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "record-1"}]}
    assert payment(tables)["status"] == "succeeded"


def test_a_refund_without_a_record_is_left_alone(tables: Tables) -> None:
    """One that was made with the library switched off has no reference: nothing waits for it."""
    event = SUCCEEDED.model_copy(update={"type": "refund.created", "object_id": "re_1"})

    assert provider_events.apply(event) == "refund-without-record"
    assert tables.rows("refunds") == []
