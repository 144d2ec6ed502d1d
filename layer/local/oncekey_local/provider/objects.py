"""Payment intents and refunds, as Stripe's API shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oncekey_local.identifiers import new_letters

_ID_LENGTH = 24


def new_id(prefix: str) -> str:
    """An id in the provider's format, such as `pi_` with 24 letters and digits."""
    return f"{prefix}_{new_letters(_ID_LENGTH)}"


def now_s() -> int:
    """Epoch seconds, as in `created`."""
    return int(datetime.now(tz=UTC).timestamp())


@dataclass(kw_only=True)
class PaymentIntent:
    """One intention to charge, with its current state."""

    amount: int
    currency: str
    customer: str | None = None
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    payment_method: str | None = None
    id: str = field(default_factory=lambda: new_id("pi"))
    created: int = field(default_factory=now_s)
    status: str = "requires_payment_method"
    latest_charge: str | None = None
    last_payment_error: dict[str, Any] | None = None
    canceled_at: int | None = None
    cancellation_reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The object as the API shows it."""
        succeeded = self.status == "succeeded"
        return {
            "id": self.id,
            "object": "payment_intent",
            "amount": self.amount,
            "amount_capturable": 0,
            "amount_received": self.amount if succeeded else 0,
            "canceled_at": self.canceled_at,
            "cancellation_reason": self.cancellation_reason,
            "capture_method": "automatic",
            "client_secret": None,
            "confirmation_method": "automatic",
            "created": self.created,
            "currency": self.currency,
            "customer": self.customer,
            "description": self.description,
            "last_payment_error": self.last_payment_error,
            "latest_charge": self.latest_charge,
            "livemode": False,
            "metadata": dict(self.metadata),
            "next_action": None,
            "payment_method": self.payment_method,
            "payment_method_types": ["card"],
            "status": self.status,
        }


@dataclass(kw_only=True)
class Refund:
    """Money that is given back. A refund succeeds at once."""

    amount: int
    currency: str
    payment_intent: str
    charge: str | None
    reason: str | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    id: str = field(default_factory=lambda: new_id("re"))
    created: int = field(default_factory=now_s)

    def as_json(self) -> dict[str, Any]:
        """The object as the API shows it."""
        return {
            "id": self.id,
            "object": "refund",
            "amount": self.amount,
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "metadata": dict(self.metadata),
            "payment_intent": self.payment_intent,
            "reason": self.reason,
            "status": "succeeded",
        }
