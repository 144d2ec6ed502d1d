"""Charging a payment and recording the outcome, without any code for queues and batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import stripe

from functions.shared import payments_table, provider
from functions.shared.payments_table import STATUS_OF_INTENT, Status
from oncekey import NotExecuted

if TYPE_CHECKING:
    from functions.shared.models import Charge
    from oncekey import Operation

# Stripe may forget a key after 24 h. One hour is reserved for the last call with it.
PROVIDER_REMEMBERS_MS = 23 * 3_600_000
_MONEY_FIRST = (Status.SUCCEEDED, Status.PENDING, Status.DECLINED)


class PaymentMissing(LookupError):  # noqa: N818 -- an answer of the table, not an error
    """The payment has no row, so it is not charged."""


@dataclass(frozen=True, kw_only=True)
class Charged:
    """The outcome of a payment at the provider, as it is recorded."""

    status: Status
    provider_id: str | None = None
    charged_at: int | None = None
    reason: str | None = None


def charge(request: Charge, operation: Operation, *, requested_by: str, age_ms: int) -> Charged:
    """Charge the payment, and collect the outcome for its row.

    The row is written with the operation's completion, which is before the message is
    acknowledged. It raises `NotExecuted` if the provider did nothing, and the provider's error if
    that is not known. In both cases the same message is tried again with the same key.

    Args:
        request: the payment to be charged.
        operation: the attempt.
        requested_by: the id of the operation that made the payment.
        age_ms: the age of that operation.

    Raises:
        NotConfigured: a table or the provider is not named; nothing was sent.
        PaymentMissing: the payment has no row; nothing was sent.
    """
    sdk, table_name = provider.client(), payments_table.table_name()
    row = payments_table.find(operation.tenant, request.payment_id)
    if row is None:
        raise PaymentMissing(request.payment_id)
    metadata = {
        "operation_id": requested_by,
        "payment_id": request.payment_id,
        "tenant": operation.tenant,
    }
    # An earlier attempt may have charged, and the provider may have forgotten its key.
    asks_first = age_ms > PROVIDER_REMEMBERS_MS

    def charge_once() -> Charged:
        if row.status is not Status.PENDING or row.provider_id is not None:
            # The provider's event arrived first, or the record of this message has expired.
            return Charged(status=row.status, provider_id=row.provider_id)
        found = _find(sdk, request) if asks_first else None
        return found or _charge(sdk, request, metadata)

    charged = operation.step("charge", charge_once, idempotent=True)
    now = payments_table.find(operation.tenant, request.payment_id)
    if now is not None and _says_as_much(now, charged):
        # The provider's event arrived before this message, so its status stays. If an event arrives
        # in between, the next delivery finds its status.
        return Charged(status=now.status, provider_id=now.provider_id)
    _collect(charged, request, operation, table_name)
    return charged


def _says_as_much(row: payments_table.Row, charged: Charged) -> bool:
    """Whether the row has the same or a later status of the same intent."""
    if row.provider_id is None or charged.provider_id not in {None, row.provider_id}:
        return False
    if row.status is Status.DECLINED:
        # A declined intent may succeed later; a succeeded one is never declined.
        return charged.status is not Status.SUCCEEDED
    return row.status is Status.SUCCEEDED or charged.status is Status.PENDING


def _charge(sdk: stripe.StripeClient, request: Charge, metadata: dict[str, str]) -> Charged:
    try:
        intent = sdk.v1.payment_intents.create(
            {
                "amount": request.amount,
                "currency": request.currency,
                "customer": request.customer_id,
                "confirm": True,
                # There is no browser here. A card that needs an action in one counts as declined.
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
        # This refusal proves nothing about an earlier attempt, whose answer may have been lost.
        reason = refusal.code or refusal.param or "invalid_request"
        return _find(sdk, request) or _declined(reason, None)
    except provider.REFUSALS as refusal:
        raise NotExecuted(f"the provider refused ({type(refusal).__name__})") from refusal
    return _ended(intent)


def _find(sdk: stripe.StripeClient, request: Charge) -> Charged | None:
    """An earlier attempt's charge, from the provider's search, which lags by about a minute."""
    query = f"metadata['payment_id']:'{request.payment_id}'"
    found = [_ended(intent) for intent in sdk.v1.payment_intents.search({"query": query}).data]
    # Of several intents: the one that was charged, else one that may be, else the newest.
    return min(found, key=lambda one: _MONEY_FIRST.index(one.status), default=None)


def _ended(intent: stripe.PaymentIntent) -> Charged:
    status = STATUS_OF_INTENT.get(intent.status)
    if status is None:
        fault = intent.last_payment_error
        return _declined((fault and fault.code) or intent.status, intent)
    return Charged(status=status, provider_id=intent.id, charged_at=intent.created)


def _declined(reason: str, intent: stripe.PaymentIntent | None) -> Charged:
    return Charged(
        status=Status.DECLINED,
        reason=reason,
        provider_id=None if intent is None else intent.id,
        charged_at=None if intent is None else intent.created,
    )


def _collect(charged: Charged, request: Charge, operation: Operation, table_name: str) -> None:
    told = {
        "status": charged.status.value,
        "provider_id": charged.provider_id,
        "charged_at": charged.charged_at,
        "reason": charged.reason,
    }
    known = {name: value for name, value in told.items() if value is not None}
    same = "#status = :status"
    if charged.provider_id is not None:
        same += " AND #provider_id = :provider_id"
    operation.transaction.update(
        table_name,
        {"pk": payments_table.row_key(operation.tenant, request.payment_id)},
        "SET " + ", ".join(f"#{name} = :{name}" for name in known),
        # The provider's event may have written the same before. A decline of an intent that
        # succeeded later is the older status.
        condition=f"#status = :pending OR ({same}){_declined_before(charged)}",
        names={f"#{name}": name for name in known},
        values={
            ":pending": Status.PENDING.value,
            **({":declined": Status.DECLINED.value} if _declined_before(charged) else {}),
            **{f":{name}": value for name, value in known.items()},
        },
    )


def _declined_before(charged: Charged) -> str:
    if charged.status is not Status.SUCCEEDED or charged.provider_id is None:
        return ""
    return " OR (#status = :declined AND #provider_id = :provider_id)"
