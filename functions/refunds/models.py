"""What comes in and what goes out."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.shared.models import Amount, PaymentId


class RefundRequest(BaseModel):
    """The body of `POST /refunds`; anything else in it is a mistake and refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    payment_id: PaymentId
    amount: Amount


class Refund(BaseModel):
    """A refund as its owner sees it. `status` is the provider's word, such as `succeeded`."""

    model_config = ConfigDict(frozen=True)

    refund_id: str
    payment_id: str
    status: str
    amount: int
