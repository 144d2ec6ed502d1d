"""What comes in and what goes out."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# The provider takes amounts of up to eight digits.
AMOUNT_MAX = 99_999_999


class PaymentRequest(BaseModel):
    """The body of `POST /payments`; anything else in it is a mistake and refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    customer_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    # In minor units: 1200 is 12 euros, and 1200 yen.
    amount: Annotated[int, Field(gt=0, le=AMOUNT_MAX)]
    currency: Annotated[str, Field(pattern=r"^[a-z]{3}$")]


class Payment(BaseModel):
    """A payment as its owner sees it.

    `status` is the provider's word, such as `succeeded`, or `declined`.
    """

    model_config = ConfigDict(frozen=True)

    payment_id: str
    status: str
    amount: int
    currency: str
