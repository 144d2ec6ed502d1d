"""The calls that change state. Each checks its parameters and returns a command to execute.

If the check refuses a request, nothing is remembered. The result or the refusal of the command is
remembered under the request's idempotency key.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncekey_local.provider.errors import invalid_request
from oncekey_local.provider.ledger import Ledger
from oncekey_local.provider.objects import PaymentIntent

if TYPE_CHECKING:
    from oncekey_local.provider.parameters import Parameters

# Stripe accepts amounts of up to eight digits.
AMOUNT_MAX = 99_999_999
REFUND_REASONS = ("duplicate", "fraudulent", "requested_by_customer")
CANCELLATION_REASONS = (*REFUND_REASONS, "abandoned")
CURRENCIES = frozenset(
    re.findall(
        "[a-z]{3}",
        "aed ars aud brl cad chf clp cny cop czk dkk egp eur gbp hkd huf idr ils inr isk jpy kes "
        "krw kwd mad mxn myr ngn nok nzd pen php pkr pln qar ron sar sek sgd thb try twd uah usd "
        "uyu vnd zar",
    )
)
_PAYMENT_METHOD_PREFIXES = ("pm_", "card_", "src_")

# Whether a fault declines the next charge, although its card is good.
Decline = Callable[[], bool]
Command = Callable[[Ledger, Decline], dict[str, Any]]


def create_payment_intent(params: Parameters) -> Command:
    """`POST /v1/payment_intents`."""
    intent = PaymentIntent(
        amount=params.required_integer("amount", minimum=1, maximum=AMOUNT_MAX),
        currency=params.required_text("currency").lower(),
        customer=params.text("customer"),
        description=params.text("description"),
        metadata=params.mapping("metadata"),
        payment_method=_payment_method(params),
    )
    confirm = params.flag("confirm")
    params.ignore(
        "automatic_payment_methods",
        "error_on_requires_action",
        "expand",
        "off_session",
        "payment_method_types",
        "receipt_email",
        "statement_descriptor",
        "statement_descriptor_suffix",
    )
    params.finish()
    if intent.currency not in CURRENCIES:
        raise invalid_request(
            f"Invalid currency: {intent.currency}. This provider supports: "
            f"{', '.join(sorted(CURRENCIES))}",
            param="currency",
        )
    return lambda ledger, decline: ledger.create(intent, confirm=confirm, decline=decline)


def confirm_payment_intent(params: Parameters, identifier: str) -> Command:
    """`POST /v1/payment_intents/{id}/confirm`."""
    payment_method = _payment_method(params)
    params.ignore("error_on_requires_action", "expand", "off_session", "return_url")
    params.finish()
    return lambda ledger, decline: ledger.confirm(identifier, payment_method, decline=decline)


def cancel_payment_intent(params: Parameters, identifier: str) -> Command:
    """`POST /v1/payment_intents/{id}/cancel`."""
    reason = params.text("cancellation_reason", choices=CANCELLATION_REASONS)
    params.ignore("expand")
    params.finish()
    return lambda ledger, _: ledger.cancel(identifier, reason)


def create_refund(params: Parameters) -> Command:
    """`POST /v1/refunds`."""
    identifier = params.required_text("payment_intent")
    amount = params.integer("amount", minimum=1, maximum=AMOUNT_MAX)
    reason = params.text("reason", choices=REFUND_REASONS)
    metadata = params.mapping("metadata")
    params.ignore("expand")
    params.finish()
    return lambda ledger, _: ledger.give_back(
        identifier, amount=amount, reason=reason, metadata=metadata
    )


def _payment_method(params: Parameters) -> str | None:
    payment_method = params.text("payment_method")
    if payment_method is not None and not payment_method.startswith(_PAYMENT_METHOD_PREFIXES):
        raise invalid_request(
            f"No such PaymentMethod: '{payment_method}'",
            param="payment_method",
            code="resource_missing",
        )
    return payment_method
