"""Charge a payment and record how it ended. Knows nothing of queues and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import stripe

from functions.shared import payments_table, provider
from functions.shared.payments_table import Status
from oncekey import NotExecuted

if TYPE_CHECKING:
    from functions.shared.models import Charge
    from oncekey import Operation


@dataclass(frozen=True, kw_only=True)
class Charged:
    """How the provider's work on a payment ended, as it is kept on record."""

    status: Status
    provider_id: str | None = None
    charged_at: int | None = None
    reason: str | None = None


def charge(request: Charge, operation: Operation, *, requested_by: str) -> Charged:
    """Charge the payment, and collect for its row how that ended.

    The row is written with the operation's completion, so before the message is acknowledged. It
    raises `NotExecuted` where the provider provably did nothing, and the provider's error where
    that is not known; either way the same message is tried again, under the same key.

    `requested_by` is the operation that made the payment.

    Raises:
        NotConfigured: a table or the provider is not named; nothing was sent.
    """
    sdk, table_name = provider.client(), payments_table.table_name()
    metadata = {
        "operation_id": requested_by,
        "payment_id": request.payment_id,
        "tenant": operation.tenant,
    }
    charged = operation.step("charge", lambda: _charge(sdk, request, metadata), idempotent=True)
    _collect(charged, request, operation, table_name)
    return charged


def _charge(sdk: stripe.StripeClient, request: Charge, metadata: dict[str, str]) -> Charged:
    try:
        intent = sdk.v1.payment_intents.create(
            {
                "amount": request.amount,
                "currency": request.currency,
                "customer": request.customer_id,
                "confirm": True,
                # Nobody is there to go on in a browser: a card that asks for it counts as declined.
                "error_on_requires_action": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "metadata": metadata,
            },
            {"idempotency_key": request.key},
        )
    except stripe.CardError as declined:
        told = None if declined.error is None else declined.error.payment_intent
        return _declined(declined.code or "card_declined", told)
    except stripe.InvalidRequestError as refusal:
        return _declined(refusal.code or refusal.param or "request", None)
    except provider.REFUSALS as refusal:
        raise NotExecuted(f"the provider refused ({type(refusal).__name__})") from refusal
    return Charged(status=Status.SUCCEEDED, provider_id=intent.id, charged_at=intent.created)


def _declined(reason: str, intent: stripe.PaymentIntent | None) -> Charged:
    if intent is None:
        return Charged(status=Status.DECLINED, reason=reason)
    return Charged(
        status=Status.DECLINED, reason=reason, provider_id=intent.id, charged_at=intent.created
    )


def _collect(charged: Charged, request: Charge, operation: Operation, table_name: str) -> None:
    told = {
        "status": charged.status.value,
        "provider_id": charged.provider_id,
        "charged_at": charged.charged_at,
        "reason": charged.reason,
    }
    known = {name: value for name, value in told.items() if value is not None}
    operation.transaction.update(
        table_name,
        {"pk": payments_table.row_key(operation.tenant, request.payment_id)},
        "SET " + ", ".join(f"#{name} = :{name}" for name in known),
        condition="#status = :pending",
        names={f"#{name}": name for name in known},
        values={
            ":pending": Status.PENDING.value,
            **{f":{name}": value for name, value in known.items()},
        },
    )
