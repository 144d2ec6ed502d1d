"""The models that more than one function uses."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

# The provider accepts amounts of up to eight digits.
AMOUNT_MAX = 99_999_999
PAYMENT_ID_PATTERN = r"^pay_[0-9a-f]{32}$"

PAYMENT_REQUESTED = "payment.requested"
PROVIDER_EVENT = "stripe.event"


def _whole(number: object) -> object:
    """1200.0 is an integer, too (JSON Schema 2020-12, section 6.1.1), and so our document says."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


# In minor units: 1200 is 12 euros, and 1200 yen.
Amount = Annotated[int, Field(gt=0, le=AMOUNT_MAX), BeforeValidator(_whole)]
CustomerId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
Currency = Annotated[str, Field(pattern=r"^[a-z]{3}$")]
PaymentId = Annotated[str, Field(pattern=PAYMENT_ID_PATTERN)]


class Charge(BaseModel):
    """The payload of `payment.requested`: the amount to be charged, and the key.

    A later release may add members, which an older worker ignores.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    payment_id: PaymentId
    customer_id: CustomerId
    amount: Amount
    currency: Currency
    # The idempotency key for the provider, derived from the operation that made the payment.
    key: Annotated[str, Field(min_length=1, max_length=255)]


# A wide range that the table's numbers and texts can hold.
EpochSecond = Annotated[int, Field(ge=0, lt=10**11)]
ProviderId = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,255}$")]
# The provider may add a status of the same form.
ProviderStatus = Annotated[str, Field(pattern=r"^[a-z_]{1,64}$")]


class ProviderEvent(BaseModel):
    """The payload of `stripe.event`: the status of a payment or refund, and its metadata.

    `metadata` is the data that this service stored with it at the provider. `created` is when the
    payment or refund was made, `told_at` when the provider made the event.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    type: str
    object_id: ProviderId
    status: ProviderStatus
    amount: Annotated[int, Field(ge=0, lt=10**12)]
    created: EpochSecond
    # Messages of earlier releases do not have it.
    told_at: EpochSecond | None = None
    reason: str | None = None
    metadata: dict[str, str]
