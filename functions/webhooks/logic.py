"""Which events the worker is told of, and what of them. Knows nothing of requests."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from functions.shared.models import PROVIDER_EVENT, EpochSecond, ProviderEvent
from oncekey.webhooks import Publish

# How a payment ended, and refunds. Stripe has told of refunds under other names before.
# https://docs.stripe.com/api/events/types
_OF_PAYMENTS = frozenset(
    {
        "payment_intent.succeeded",
        "payment_intent.payment_failed",
        "payment_intent.canceled",
    }
)
_OF_REFUNDS = frozenset(
    {
        "refund.created",
        "refund.updated",
        "refund.failed",
        "charge.refund.updated",
    }
)
# What this service gives the provider to keep with each payment and refund.
_OURS = ("tenant", "operation_id", "payment_id", "refund_id", "reference")
_NEEDED = {"tenant", "operation_id", "payment_id"}
_OPEN = "pending"


class _Part(BaseModel):
    """A part of an event. A member that is null is one that is not there."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Fault(_Part):
    code: str | None = None


class _Thing(_Part):
    """The payment or refund that an event tells of."""

    id: str | None = None
    status: str | None = None
    amount: int | None = None
    created: int | None = None
    metadata: dict[str, str | None] | None = None
    last_payment_error: _Fault | None = None
    failure_reason: str | None = None


class _Data(_Part):
    object: _Thing


class _Kind(_Part):
    type: str


class _Event(_Part):
    created: EpochSecond | None = None
    data: _Data


def message_about(event: Any) -> Publish | None:
    """The message for the worker: what the event's object is, and how it stands. No more of it.

    None for what is nothing to this service: another type, or an object that it has not made.

    Raises:
        ValueError: it is no event of this form.
    """
    kind = _Kind.model_validate(event).type
    if kind not in _OF_PAYMENTS | _OF_REFUNDS:
        return None
    told = _Event.model_validate(event)
    thing = told.data.object
    metadata = {
        name: value for name, value in (thing.metadata or {}).items() if name in _OURS and value
    }
    if not metadata.keys() >= _NEEDED:
        return None
    # The provider knows refunds whose state it does not tell.
    unsaid = _OPEN if kind in _OF_REFUNDS else None
    fault = thing.last_payment_error
    message = ProviderEvent.model_validate(
        {
            "type": kind,
            "object_id": thing.id,
            "status": unsaid if thing.status is None else thing.status,
            "amount": thing.amount,
            "created": thing.created,
            "told_at": told.created,
            "reason": (fault and fault.code) or thing.failure_reason,
            "metadata": metadata,
        }
    )
    return Publish(PROVIDER_EVENT, message.model_dump())
