"""The bodies of requests and answers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.shared.models import Amount, Currency, CustomerId
from functions.shared.payments_table import Status


class PaymentRequest(BaseModel):
    """The body of `POST /payments`. A body with other members is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    customer_id: CustomerId
    amount: Amount
    currency: Currency


class PaymentAccepted(BaseModel):
    """The answer of `POST /payments`: the payment is on record, and will be charged once."""

    model_config = ConfigDict(frozen=True)

    payment_id: str
    status: Status = Status.PENDING


class Payment(BaseModel):
    """A payment as its owner sees it."""

    model_config = ConfigDict(frozen=True)

    payment_id: str
    status: Status
    amount: int
    currency: str
