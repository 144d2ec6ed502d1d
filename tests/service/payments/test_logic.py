"""What an accepted payment consists of, and how one is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from functions.payments import logic
from functions.payments.models import Payment, PaymentRequest
from functions.shared import dynamodb
from functions.shared.models import Charge
from functions.shared.payments_table import Status
from oncekey import NotExecuted, current_operation, idempotent_function, single_tenant
from oncekey.effects.operation import downstream_key
from tests.support.dynamodb import Recorder
from tests.support.reference_tables import PAYMENT_ID

if TYPE_CHECKING:
    from functions.payments.models import PaymentAccepted
    from tests.support.reference_tables import Tables

REQUEST = PaymentRequest(customer_id="cus_1", amount=1200, currency="eur")


@idempotent_function(operation="accept", key=str, tenant=single_tenant(), effects="recorded")
def accept(number: int) -> str:
    """Accept a payment in an operation of its own; what it tells of it."""
    accepted: PaymentAccepted = logic.accept_payment(REQUEST, current_operation())
    return accepted.payment_id


def test_the_message_says_all_that_a_charge_takes(tables: Tables) -> None:
    """A worker needs nothing but the message: the payment, its customer, its amount and the key."""
    payment_id = accept(1)

    (message,) = tables.rows("outbox")
    charge = Charge.model_validate_json(message["payload"])
    assert charge.model_dump(exclude={"key"}) == {
        "payment_id": payment_id,
        "customer_id": "cus_1",
        "amount": 1200,
        "currency": "eur",
    }
    assert charge.key == downstream_key(message["operation_id"], "charge")


def test_every_payment_has_a_key_of_its_own(tables: Tables) -> None:
    """Two payments are two charges to the provider, whatever else they have in common."""
    accept(1)
    accept(2)

    keys = {json.loads(message["payload"])["key"] for message in tables.rows("outbox")}
    assert len(keys) == 2


def test_nothing_is_accepted_without_the_tables_name(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function that is not configured says what it lacks, and publishes no message."""
    monkeypatch.delenv("PAYMENTS_TABLE")

    with pytest.raises(NotExecuted, match="PAYMENTS_TABLE"):
        accept(1)

    assert tables.rows("outbox") == []


@pytest.mark.parametrize("status", list(Status))
def test_a_payment_is_shown_as_it_stands(tables: Tables, status: Status) -> None:
    """A tenant sees the present state of its own payment, and none of another's."""
    tables.add_payment(status=status.value, provider_id="pi_1")

    assert logic.find_payment("tenant-1", PAYMENT_ID) == Payment(
        payment_id=PAYMENT_ID, status=status, amount=1200, currency="eur"
    )
    assert logic.find_payment("tenant-2", PAYMENT_ID) is None
    assert logic.find_payment("tenant-1", "pay_" + "0" * 32) is None


@pytest.mark.usefixtures("tables")
def test_a_payment_is_read_as_of_now() -> None:
    """Who was told of a payment finds it: the read is strongly consistent.

    Red when an eventually consistent read may answer that there is none.
    """
    sent = Recorder(dynamodb.client())

    logic.find_payment("tenant-1", PAYMENT_ID)

    ((name, parameters),) = sent.calls
    assert (name, parameters["ConsistentRead"]) == ("GetItem", True)
