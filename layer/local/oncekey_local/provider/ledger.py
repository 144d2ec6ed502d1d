"""The provider's payment intents and refunds, and the changes that they permit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncekey_local.provider.errors import card_declined, invalid_request, resource_missing
from oncekey_local.provider.objects import PaymentIntent, Refund, new_id, now_s

# It is called with the type of an event and the object that the event is about.
Emit = Callable[[str, dict[str, Any]], None]

DECLINED_PAYMENT_METHOD = "pm_card_chargeDeclined"
_CONFIRMABLE = frozenset({"requires_payment_method", "requires_confirmation"})


class Ledger:
    """All payment intents and refunds, in the order in which they were made.

    Every method either takes effect as a whole or raises a `ProviderError`. A declined charge is an
    effect, too: the payment intent remains, with the reason. If `takes_long` returns True, a charge
    stays `processing` until `finish`. `emit` is called for each effect, with the type of Stripe's
    event and its object.
    """

    def __init__(
        self,
        emit: Emit = lambda _kind, _thing: None,
        takes_long: Callable[[], bool] = lambda: False,
    ) -> None:
        self.payment_intents: dict[str, PaymentIntent] = {}
        self.refunds: dict[str, Refund] = {}
        self._emit = emit
        self._takes_long = takes_long

    def payment_intent(self, identifier: str, *, param: str = "intent") -> PaymentIntent:
        """The payment intent with this id. Raises a `ProviderError` (404) if there is none."""
        if identifier not in self.payment_intents:
            raise resource_missing("payment_intent", identifier, param=param)
        return self.payment_intents[identifier]

    def refund(self, identifier: str) -> Refund:
        """The refund with this id. Raises a `ProviderError` (404) if there is none."""
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
        """Cancel a payment intent that has not succeeded."""
        intent = self.payment_intent(identifier)
        if intent.status not in _CONFIRMABLE:
            raise _unexpected_state(intent, "cancel")
        intent.status, intent.canceled_at, intent.cancellation_reason = "canceled", now_s(), reason
        self._emit("payment_intent.canceled", intent.as_json())
        return intent.as_json()

    def give_back(
        self, identifier: str, *, amount: int | None, reason: str | None, metadata: dict[str, str]
    ) -> dict[str, Any]:
        """Refund `amount` of a charge, or the whole remaining amount if it is None."""
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

    def finish(self, *, decline: bool) -> None:
        """End every charge that is `processing`: declined if `decline`, otherwise succeeded."""
        for intent in self.payment_intents.values():
            if intent.status == "processing":
                (self._decline if decline else self._succeed)(intent)

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
        # The card is checked first, so that a card that always declines does not use up the fault.
        if intent.payment_method == DECLINED_PAYMENT_METHOD or decline():
            self._decline(intent)
            raise card_declined(intent.as_json())
        if self._takes_long():
            intent.status, intent.last_payment_error = "processing", None
            self._emit("payment_intent.processing", intent.as_json())
        else:
            self._succeed(intent)
        return intent.as_json()

    def _succeed(self, intent: PaymentIntent) -> None:
        intent.status, intent.last_payment_error = "succeeded", None
        self._emit("payment_intent.succeeded", intent.as_json())

    def _decline(self, intent: PaymentIntent) -> None:
        intent.status, intent.payment_method = "requires_payment_method", None
        intent.last_payment_error = {
            "type": "card_error",
            "code": "card_declined",
            "decline_code": "generic_decline",
            "charge": intent.latest_charge,
            "message": "Your card was declined.",
        }
        self._emit("payment_intent.payment_failed", intent.as_json())


def _check_chargeable(payment_method: str | None, customer: str | None) -> None:
    # As with Stripe, without a payment method the customer's default is charged.
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
