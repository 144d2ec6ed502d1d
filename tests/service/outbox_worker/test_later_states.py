"""The later states of refunds and charges, whatever overtook what."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from functions.outbox_worker import provider_events
from functions.outbox_worker.handler import handler
from functions.refunds.handler import create_refund
from functions.shared import payments_table, refunds_table
from oncekey.clock import SystemClock
from tests.support.events import load
from tests.support.provider_events import FAILED, REFUND, SUCCEEDED, payment

if TYPE_CHECKING:
    from functions.shared.models import ProviderEvent
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

STATES = {
    ("pending", "succeeded", "failed"): "failed",
    ("requires_action", "succeeded"): "succeeded",
    ("requires_action", "pending", "succeeded", "failed"): "failed",
    ("pending", "canceled"): "canceled",
    ("requires_action", "canceled"): "canceled",
    ("pending", "failed"): "failed",
    ("pending", "requires_action"): "requires_action",
    ("requires_action", "pending"): "pending",
    ("unheard_of", "succeeded"): "succeeded",
}


@pytest.mark.fault("K13.1")
@pytest.mark.parametrize("states", STATES, ids=" ".join)
def test_the_later_states_of_a_refund_are_taken_in_any_order(
    dead_refund: ProviderEvent, tables: Tables, states: tuple[str, ...]
) -> None:
    """However the events of one refund overtake each other, its row ends with the last state: one
    that succeeded can still fail, and one that asks for something can still succeed.

    Red when a state that has ended is taken for the last one, or an older one is written over it.
    """
    for order in itertools.permutations(enumerate(states)):
        tables.client.delete_item(TableName="refunds-of-the-tests", Key=_refund_key(dead_refund))

        for hour, status in order:
            told = {"status": status, "told_at": dead_refund.created + 3600 * hour}
            provider_events.apply(dead_refund.model_copy(update=told))

        (row,) = tables.rows("refunds")
        assert row["status"] == STATES[states], order


def _refund_key(event: ProviderEvent) -> dict[str, Any]:
    metadata = event.metadata
    return {"pk": {"S": payments_table.row_key(metadata["tenant"], metadata["refund_id"])}}


@pytest.mark.fault("K13.1")
def test_an_older_state_settles_a_refund_as_it_stands(
    dead_refund: ProviderEvent, tables: Tables
) -> None:
    """An event that comes after a later one answers the client with the later state.

    Red when the answer says another state than the row.
    """
    metadata = dead_refund.metadata
    refunds_table.write(
        refunds_table.Row(
            tenant=metadata["tenant"],
            refund_id=metadata["refund_id"],
            payment_id=metadata["payment_id"],
            operation_id=metadata["operation_id"],
            amount=300,
            status="failed",
            provider_id=dead_refund.object_id,
            refunded_at=dead_refund.created,
        )
    )

    provider_events.apply(dead_refund)

    assert json.loads(create_refund(REFUND, None)["body"])["status"] == "failed"


@pytest.mark.fault("K13.1")
def test_money_that_came_after_a_decline_counts(tables: Tables) -> None:
    """A payment that counts as declined without an intent has succeeded once one of its own has.

    Red when the success of a payment is thrown away because its row says declined.
    """
    tables.add_payment(status="declined", reason="invalid_request")

    assert provider_events.apply(SUCCEEDED) == "payment-finished"
    assert payment(tables)["status"] == "succeeded"


@pytest.mark.fault("K13.1")
@pytest.mark.parametrize("changes", [{"refund_id": None}, {"reference": "v1#of somebody else"}])
def test_a_refund_that_names_no_record_is_left_alone(
    dead_refund: ProviderEvent, tables: Tables, changes: dict[str, str | None]
) -> None:
    """What somebody else gave the provider to keep ends its message, and changes nothing.

    Red when such an event fails at each delivery.
    """
    metadata = {name: value for name, value in {**dead_refund.metadata, **changes}.items() if value}

    outcome = provider_events.apply(dead_refund.model_copy(update={"metadata": metadata}))

    assert (outcome, tables.rows("refunds")) == ("refund-without-record", [])


ENDS = {"succeeded": SUCCEEDED, "declined": FAILED}


@pytest.mark.fault("K13.2")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("when", ["before the write", "before the next delivery"])
def test_a_processing_charge_that_its_event_has_finished_is_done(
    provider: Provider, tables: Tables, monkeypatch: pytest.MonkeyPatch, end: str, when: str
) -> None:
    """A charge that is on record as processing, and whose event says how it ended before the
    worker has written that, leaves the row as the event wrote it, and its message is done.

    Red when the worker's own write holds only while nothing has happened since its charge.
    """
    from functions.outbox_worker import logic

    tables.add_payment()
    provider.arm(process=1)
    charge, collect, charged = logic._charge, logic._collect, list[logic.Charged]()

    def processing(*arguments: Any) -> logic.Charged:
        charged.append(charge(*arguments))
        if when == "before the write":
            _end(ENDS[end], charged[0])
        return charged[0]

    def dies(*_: Any) -> None:
        raise SystemExit(137)

    monkeypatch.setattr(logic, "_charge", processing)
    if when == "before the next delivery":
        with monkeypatch.context() as dying:
            dying.setattr(logic, "_collect", dies)
            with pytest.raises(SystemExit):
                handler(load("sqs_payment_requested"), None)
        _end(ENDS[end], charged[0])
        later_ms = SystemClock().now_ms() + 3_600_000
        monkeypatch.setattr(SystemClock, "now_ms", lambda _: later_ms)

    for _ in range(2):
        assert handler(load("sqs_payment_requested"), None) == {"batchItemFailures": []}

    assert charged[0].status == "pending"
    assert (payment(tables)["status"], len(provider.payment_intents())) == (end, 1)
    assert logic._collect is collect


def _end(event: ProviderEvent, charged: Any) -> None:
    told = {"object_id": charged.provider_id, "created": charged.charged_at}
    assert provider_events.apply(event.model_copy(update=told)) == "payment-finished"


@pytest.mark.fault("K13.2")
def test_a_late_decline_does_not_stop_the_charge_that_succeeded(
    provider: Provider, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker whose charge succeeded writes that over an earlier failure of the same intent, and
    one whose charge was declined leaves a later success alone.

    Red when the order in which the news came decides what a payment is.
    """
    from functions.outbox_worker import logic

    tables.add_payment()
    charge = logic._charge

    def overtaken(*arguments: Any) -> logic.Charged:
        charged = charge(*arguments)
        _end(FAILED if charged.status == "succeeded" else SUCCEEDED, charged)
        return charged

    monkeypatch.setattr(logic, "_charge", overtaken)
    assert handler(load("sqs_payment_requested"), None) == {"batchItemFailures": []}
    assert payment(tables)["status"] == "succeeded"

    tables.client.delete_item(
        TableName="payments-of-the-tests", Key={"pk": {"S": payment(tables)["pk"]}}
    )
    tables.add_payment()
    for row in tables.rows("idempotency"):
        tables.client.delete_item(
            TableName="idempotency-of-the-tests", Key={"pk": {"S": row["pk"]}}
        )
    provider.reset()
    provider.arm(decline=1)
    assert handler(load("sqs_payment_requested"), None) == {"batchItemFailures": []}
    assert payment(tables)["status"] == "succeeded"
