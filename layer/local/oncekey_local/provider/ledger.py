"""What the provider knows: payment intents and refunds, and what may happen to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oncekey_local.identifiers import new_letters
from oncekey_local.provider.errors import card_declined, invalid_request, resource_missing

# Takes the type of an event and the object that it is about.
Emit = Callable[[str, dict[str, Any]], None]

DECLINED_PAYMENT_METHOD = "pm_card_chargeDeclined"
_CONFIRMABLE = frozenset({"requires_payment_method", "requires_confirmation"})
_ID_LENGTH = 24


def new_id(prefix: str) -> str:
    """An id of the provider's shape, such as `pi_` and 24 letters and digits."""
    return f"{prefix}_{new_letters(_ID_LENGTH)}"


def now_s() -> int:
    """Epoch seconds, as in `created`."""
    return int(datetime.now(tz=UTC).timestamp())


@dataclass(kw_only=True)
class PaymentIntent:
    """One intention to charge, through all its states."""

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
    """Money given back; it succeeds at once."""

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


class Ledger:
    """All payment intents and refunds, in the order in which they were made.

    Every method either takes effect as a whole or raises a `ProviderError`. A declined charge is an
    effect too: the payment intent stays, with the reason. Each effect is told to `emit`, by the
    type of Stripe's event and its object.
    """

    def __init__(self, emit: Emit = lambda _kind, _thing: None) -> None:
        self.payment_intents: dict[str, PaymentIntent] = {}
        self.refunds: dict[str, Refund] = {}
        self._emit = emit

    def payment_intent(self, identifier: str, *, param: str = "intent") -> PaymentIntent:
        """The payment intent of this id, or a 404."""
        if identifier not in self.payment_intents:
            raise resource_missing("payment_intent", identifier, param=param)
        return self.payment_intents[identifier]

    def refund(self, identifier: str) -> Refund:
        """The refund of this id, or a 404."""
        if identifier not in self.refunds:
            raise resource_missing("refund", identifier, param="id")
        return self.refunds[identifier]

    def create(
        self, intent: PaymentIntent, *, confirm: bool, decline: Callable[[], bool]
    ) -> dict[str, Any]:
        """Add a payment intent and, with `confirm`, charge it."""
        if intent.payment_method is not None:
            intent.status = "requires_confirmation"
        if confirm:
            _check_chargeable(intent.payment_method, intent.customer)
        self.payment_intents[intent.id] = intent
        self._emit("payment_intent.created", intent.as_json())
        return self._charge(intent, decline=decline) if confirm else intent.as_json()

    def confirm(
        self, identifier: str, payment_method: str | None, *, decline: Callable[[], bool]
    ) -> dict[str, Any]:
        """Charge a payment intent that has not succeeded yet, with another card if one is given."""
        intent = self.payment_intent(identifier)
        if intent.status not in _CONFIRMABLE:
            raise _unexpected_state(intent, "confirm")
        payment_method = payment_method or intent.payment_method
        _check_chargeable(payment_method, intent.customer)
        intent.payment_method = payment_method
        return self._charge(intent, decline=decline)

    def cancel(self, identifier: str, reason: str | None) -> dict[str, Any]:
        """End a payment intent that has not succeeded."""
        intent = self.payment_intent(identifier)
        if intent.status not in _CONFIRMABLE:
            raise _unexpected_state(intent, "cancel")
        intent.status, intent.canceled_at, intent.cancellation_reason = "canceled", now_s(), reason
        self._emit("payment_intent.canceled", intent.as_json())
        return intent.as_json()

    def give_back(
        self, identifier: str, *, amount: int | None, reason: str | None, metadata: dict[str, str]
    ) -> dict[str, Any]:
        """Refund a part of a charge, or without `amount` all that is left of it."""
        intent = self.payment_intent(identifier, param="payment_intent")
        if intent.status != "succeeded":
            raise invalid_request(
                f"This PaymentIntent ({identifier}) does not have a successful charge to refund.",
                param="payment_intent",
            )
        left = intent.amount - sum(
            refund.amount for refund in self.refunds.values() if refund.payment_intent == identifier
        )
        if left == 0:
            raise invalid_request(
                f"Charge {intent.latest_charge} has already been refunded.",
                code="charge_already_refunded",
            )
        if amount is not None and amount > left:
            raise invalid_request(
                f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})",
                param="amount",
            )
        refund = Refund(
            amount=left if amount is None else amount,
            currency=intent.currency,
            payment_intent=identifier,
            charge=intent.latest_charge,
            reason=reason,
            metadata=metadata,
        )
        self.refunds[refund.id] = refund
        self._emit("refund.created", refund.as_json())
        self._emit("charge.refunded", self._refunded_charge(intent))
        return refund.as_json()

    def _refunded_charge(self, intent: PaymentIntent) -> dict[str, Any]:
        amounts = [
            each.amount for each in self.refunds.values() if each.payment_intent == intent.id
        ]
        return {
            "id": intent.latest_charge,
            "object": "charge",
            "amount": intent.amount,
            "amount_refunded": sum(amounts),
            "payment_intent": intent.id,
            "refunded": sum(amounts) == intent.amount,
        }

    def _charge(self, intent: PaymentIntent, *, decline: Callable[[], bool]) -> dict[str, Any]:
        intent.latest_charge = new_id("ch")
        # The fault is asked second: a card that declines by itself does not use it up.
        if intent.payment_method == DECLINED_PAYMENT_METHOD or decline():
            intent.status = "requires_payment_method"
            intent.last_payment_error = {
                "type": "card_error",
                "code": "card_declined",
                "decline_code": "generic_decline",
                "charge": intent.latest_charge,
                "message": "Your card was declined.",
            }
            intent.payment_method = None
            self._emit("payment_intent.payment_failed", intent.as_json())
            raise card_declined(intent.as_json())
        intent.status, intent.last_payment_error = "succeeded", None
        self._emit("payment_intent.succeeded", intent.as_json())
        return intent.as_json()


def _check_chargeable(payment_method: str | None, customer: str | None) -> None:
    # As with Stripe, where the request names no payment method the customer's default is charged.
    if payment_method is None and customer is None:
        raise invalid_request(
            "You cannot confirm this PaymentIntent because it's missing a payment method. You can "
            "either update the PaymentIntent with a payment method and then confirm it again, or "
            "confirm it again directly with a payment method.",
            code="payment_intent_unexpected_state",
        )


def _unexpected_state(intent: PaymentIntent, verb: str) -> Exception:
    return invalid_request(
        f"You cannot {verb} this PaymentIntent because it has a status of {intent.status}.",
        code="payment_intent_unexpected_state",
        payment_intent=intent.as_json(),
    )
