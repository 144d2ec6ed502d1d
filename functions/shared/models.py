"""What more than one function reads or writes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# The provider takes amounts of up to eight digits.
AMOUNT_MAX = 99_999_999
PAYMENT_ID_PATTERN = r"^pay_[0-9a-f]{32}$"

PAYMENT_REQUESTED = "payment.requested"
PROVIDER_EVENT = "stripe.event"

# In minor units: 1200 is 12 euros, and 1200 yen.
Amount = Annotated[int, Field(gt=0, le=AMOUNT_MAX)]
CustomerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Currency = Annotated[str, Field(pattern=r"^[a-z]{3}$")]
PaymentId = Annotated[str, Field(pattern=PAYMENT_ID_PATTERN)]


class Charge(BaseModel):
    """The payload of `payment.requested`: what is to be charged, and under which key.

    A later release may add members, which an older worker leaves alone.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    payment_id: PaymentId
    customer_id: CustomerId
    amount: Amount
    currency: Currency
    # The idempotency key that the provider is shown, of the operation that made the payment.
    key: Annotated[str, Field(min_length=1, max_length=255)]


# Within what the table's numbers and texts hold, far beyond what is ever charged.
EpochSecond = Annotated[int, Field(ge=0, lt=10**11)]
ProviderId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,255}$")]
# The provider may add one; its form stays.
ProviderStatus = Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")]


class ProviderEvent(BaseModel):
    """The payload of `stripe.event`: how a payment or refund stands, and whose it is.

    `metadata` is what this service has given the provider to keep with it. `created` is when the
    payment or refund was made, `told_at` when the provider made the event.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    type: str
    object_id: ProviderId
    status: ProviderStatus
    amount: Annotated[int, Field(ge=0, lt=10**12)]
    created: EpochSecond
    # A message of an earlier release has none.
    told_at: EpochSecond | None = None
    reason: str | None = None
    metadata: dict[str, str]
