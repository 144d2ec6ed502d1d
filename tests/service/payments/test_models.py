"""What the payments function accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from functions.payments.models import PaymentRequest
from functions.shared.models import AMOUNT_MAX

GOOD: dict[str, Any] = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}


@pytest.mark.parametrize(
    "changes", [{}, {"amount": 1}, {"amount": AMOUNT_MAX}, {"customer_id": "A-9_" * 16}]
)
def test_a_payment_is_accepted(changes: dict[str, Any]) -> None:
    """A customer, an amount within the bounds and a currency make a payment."""
    body = {**GOOD, **changes}

    assert PaymentRequest.model_validate_json(json.dumps(body)).model_dump() == body


def test_an_amount_with_a_fraction_of_zero_is_an_integer() -> None:
    """1200.0 is the integer 1200, as the OpenAPI document says (JSON Schema, section 6.1.1)."""
    accepted = PaymentRequest.model_validate_json(json.dumps({**GOOD, "amount": 1200.0}))

    assert str(accepted.amount) == "1200"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount": 0}, "amount"),
        ({"amount": 1e300}, "amount"),
        ({"amount": float("inf")}, "amount"),
        ({"amount": -1}, "amount"),
        ({"amount": AMOUNT_MAX + 1}, "amount"),
        ({"amount": "1200"}, "amount"),
        ({"amount": 12.5}, "amount"),
        ({"amount": True}, "amount"),
        ({"amount": None}, "amount"),
        ({"currency": "EUR"}, "currency"),
        ({"currency": "euro"}, "currency"),
        ({"currency": "eur\n"}, "currency"),
        ({"customer_id": ""}, "customer_id"),
        ({"customer_id": "cus_1 "}, "customer_id"),
        ({"customer_id": "c" * 65}, "customer_id"),
        ({"customer_id": 1}, "customer_id"),
        ({"payment_method": "pm_card_visa"}, "payment_method"),
    ],
)
def test_what_is_no_payment_is_refused(changes: dict[str, Any], field: str) -> None:
    """A value that is not what it should be is refused, and so is a field that nobody knows."""
    with pytest.raises(ValidationError) as refused:
        PaymentRequest.model_validate_json(json.dumps({**GOOD, **changes}))

    assert [error["loc"] for error in refused.value.errors()] == [(field,)]


@pytest.mark.parametrize("field", list(GOOD))
def test_every_field_is_needed(field: str) -> None:
    """There are no defaults: a payment says what is paid, by whom and in which currency."""
    body = {name: value for name, value in GOOD.items() if name != field}

    with pytest.raises(ValidationError):
        PaymentRequest.model_validate_json(json.dumps(body))
