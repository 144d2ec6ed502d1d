"""The bodies of requests and answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from functions.shared.http import answer
from functions.shared.models import Amount, PaymentId

if TYPE_CHECKING:
    from functions.shared.http import Answer


class RefundRequest(BaseModel):
    """The body of `POST /refunds`. A body with other members is refused."""

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


def answer_of(refund: Refund) -> Answer:
    """The answer to the request that made `refund`, for its handler, resolver and webhook."""
    return answer(HTTPStatus.CREATED, refund.model_dump())
