"""Which events the worker is told of, and what of them. Knows nothing of requests."""

from __future__ import annotations

from typing import Any

from functions.shared.models import PROVIDER_EVENT, ProviderEvent
from oncekey import Publish

# How a payment ended, and refunds. Stripe has told of refunds under other names before.
# https://docs.stripe.com/api/events/types
_TYPES = frozenset(
    {
        "payment_intent.succeeded",
        "payment_intent.payment_failed",
        "payment_intent.canceled",
        "refund.created",
        "refund.updated",
        "refund.failed",
        "charge.refund.updated",
    }
)
# What this service gives the provider to keep with each payment and refund.
_OURS = ("tenant", "operation_id", "payment_id", "refund_id", "reference")
_NEEDED = {"tenant", "operation_id", "payment_id"}


def message_about(event: dict[str, Any]) -> Publish | None:
    """The message for the worker: what the event's object is, and how it stands. No more of it.

    None for what is nothing to this service: another type, or an object that it has not made.

    Raises:
        LookupError, TypeError, ValueError: it is no event of this form.
    """
    if event["type"] not in _TYPES:
        return None
    thing = event["data"]["object"]
    metadata = {name: thing["metadata"][name] for name in _OURS if name in thing["metadata"]}
    if not metadata.keys() >= _NEEDED:
        return None
    fault = thing.get("last_payment_error") or {}
    told = ProviderEvent(
        type=event["type"],
        object_id=thing["id"],
        status=thing["status"],
        amount=thing["amount"],
        created=thing["created"],
        reason=fault.get("code") or thing.get("failure_reason"),
        metadata=metadata,
    )
    return Publish(PROVIDER_EVENT, told.model_dump())
