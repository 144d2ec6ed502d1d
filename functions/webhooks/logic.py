"""The choice of the events for the worker, and their messages, without any code for requests."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from functions.shared.models import PROVIDER_EVENT, EpochSecond, ProviderEvent
from oncekey.webhooks import Publish

# The end of a payment, and refunds. Stripe used other names for events of refunds before.
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
# The metadata that this service stores at the provider with each payment and refund.
_OURS = ("tenant", "operation_id", "payment_id", "refund_id", "reference")
_NEEDED = {"tenant", "operation_id", "payment_id"}
_OPEN = "pending"


class _Part(BaseModel):
    """A part of an event. A null member counts as absent."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class _Fault(_Part):
    code: str | None = None


class _Thing(_Part):
    """The payment or refund that an event is about."""

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
    """The message for the worker: only the event's object and its status.

    None for an event of another type, or about an object that this service has not made.

    Raises:
        ValueError: the event has another form.
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
    # The provider may leave out the state of a refund.
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
