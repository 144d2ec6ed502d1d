"""Making and storing a refund, without any code for events and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import stripe
from botocore.exceptions import BotoCoreError, ClientError

from functions.refunds.models import Refund
from functions.shared import payments_table, provider, refunds_table
from functions.shared.payments_table import Status
from oncekey import NotExecuted
from oncekey.clock import SystemClock

if TYPE_CHECKING:
    from functions.refunds.models import RefundRequest
    from oncekey import Operation

# Far more than any difference between the clocks of the provider and of a function.
CLOCKS_DIFFER_S = 300
# A call that was sent before the lease ended may arrive up to a minute later. This is twice as
# long, to be safe.
ARRIVES_WITHIN_S = 120
# The largest number of refunds to search. The list has all refunds of the account in that time. A
# turn has no time for more, and a person finds the refund faster by the operation's id.
REFUNDS_MAX = 2000
_OF_A_PAGE = 100

# Nothing happened, now or later.
_FINAL_REFUSALS = (stripe.InvalidRequestError, stripe.CardError)


class PaymentUnknown(Exception):  # noqa: N818 -- an answer, not an error
    """The tenant has no such payment."""


class PaymentNotCharged(Exception):  # noqa: N818 -- an answer, not an error
    """The payment is pending or declined: there is nothing to refund."""


class RefundRefused(Exception):  # noqa: N818 -- an answer of the provider, not an error
    """The provider will not execute this refund, now or later: nothing happened."""


def create_refund(request: RefundRequest, operation: Operation) -> Refund:
    """Refund a part of a payment and store the refund.

    When it returns, the provider has made the refund, and the row says so. It raises `NotExecuted`
    if the provider provably did nothing and a retry may succeed. It raises `PaymentUnknown`,
    `PaymentNotCharged` or `RefundRefused` if a retry is pointless. After any other exception, or if
    it never returns, the refund may have been made, with or without a row. Another call for the
    same operation makes no second refund, because the provider gets the operation's key.
    """
    # These are before the refund, so that missing settings are found before it and not after.
    sdk, _ = provider.client(), refunds_table.table_name()
    intent_id = _charged(operation.tenant, request.payment_id)
    refund_id = payments_table.identifier("ref", operation)
    made = _give_back(sdk, request, operation, refund_id=refund_id, intent_id=intent_id)
    refund = _refund(made, refund_id=refund_id, payment_id=request.payment_id)
    _store(refund, made, tenant=operation.tenant, operation_id=operation.operation_id)
    return refund


class TooManyRefunds(Exception):  # noqa: N818 -- how a search ended
    """The account made so many refunds in that time that one search cannot find it."""


def find_made(
    operation_id: str, *, since_ms: int, until_ms: int | None = None
) -> stripe.Refund | None:
    """The refund that the provider has made for the operation, if it has made one.

    It lists the refunds made from the operation's beginning until its last attempt's lease ended,
    and allows for different clocks. Unlike the provider's search, the list is up to date.

    Args:
        operation_id: the operation's id.
        since_ms: when its first attempt began.
        until_ms: when the lease of its last attempt ended; None for now.

    Raises:
        stripe.StripeError: the provider did not answer.
        TooManyRefunds: there are more than `REFUNDS_MAX`, and it is not among the newest.
    """
    until_ms = SystemClock().now_ms() if until_ms is None else until_ms
    pages = provider.client().v1.refunds.list(
        {
            "created": {
                "gte": since_ms // 1000 - CLOCKS_DIFFER_S,
                "lte": -(-until_ms // 1000) + CLOCKS_DIFFER_S + ARRIVES_WITHIN_S,
            },
            "limit": _OF_A_PAGE,
        }
    )
    for seen, made in enumerate(pages.auto_paging_iter()):
        if seen >= REFUNDS_MAX:
            raise TooManyRefunds
        if _told(made).get("operation_id") == operation_id:
            return made
    return None


def restore(made: stripe.Refund) -> Refund:
    """Store a refund that only the provider has, because its handler died before storing it.

    It may be called repeatedly and beside the handler: every writer writes the same row.
    """
    told = _told(made)
    refund = _refund(made, refund_id=told["refund_id"], payment_id=told["payment_id"])
    _store(refund, made, tenant=told["tenant"], operation_id=told["operation_id"])
    return refund


def _charged(tenant: str, payment_id: str) -> str:
    """The provider's id of the payment.

    Raises:
        PaymentUnknown: the tenant has no payment of this id.
        PaymentNotCharged: it is pending or declined.
        NotExecuted: the table did not answer, and the provider was not called.
    """
    try:
        payment = payments_table.find(tenant, payment_id)
    except (BotoCoreError, ClientError) as error:
        raise NotExecuted(f"the payments table did not answer ({type(error).__name__})") from error
    if payment is None:
        raise PaymentUnknown
    if payment.status is not Status.SUCCEEDED or payment.provider_id is None:
        raise PaymentNotCharged(payment.status)
    return payment.provider_id


def _give_back(
    sdk: stripe.StripeClient,
    request: RefundRequest,
    operation: Operation,
    *,
    refund_id: str,
    intent_id: str,
) -> stripe.Refund:
    def send() -> stripe.Refund:
        return sdk.v1.refunds.create(
            {
                "payment_intent": intent_id,
                "amount": request.amount,
                "metadata": {
                    "operation_id": operation.operation_id,
                    "payment_id": request.payment_id,
                    "refund_id": refund_id,
                    "tenant": operation.tenant,
                    # With this, the provider's event settles the operation if it is unknown.
                    **({"reference": operation.reference} if operation.reference else {}),
                },
            },
            {"idempotency_key": operation.downstream_key("refund")},
        )

    try:
        return send()
    except _FINAL_REFUSALS as refusal:
        raise RefundRefused(refusal.code or refusal.param or "request") from refusal
    except provider.REFUSALS as refusal:
        raise NotExecuted(f"the provider refused ({type(refusal).__name__})") from refusal
    except provider.UNCERTAIN as uncertain:
        # The same call again shows what happened, because the provider replays its answer. A
        # refusal of the second call proves nothing about the first.
        try:
            return send()
        except (*provider.REFUSALS, *_FINAL_REFUSALS):
            raise uncertain from None


def _told(made: stripe.Refund) -> dict[str, str]:
    """The metadata that the refund was made with."""
    return {} if made.metadata is None else made.metadata.to_dict()


def _refund(made: stripe.Refund, *, refund_id: str, payment_id: str) -> Refund:
    return Refund(
        refund_id=refund_id,
        payment_id=payment_id,
        status=made.status or "pending",
        amount=made.amount,
    )


def _store(refund: Refund, made: stripe.Refund, *, tenant: str, operation_id: str) -> None:
    refunds_table.write(
        refunds_table.Row(
            tenant=tenant,
            refund_id=refund.refund_id,
            payment_id=refund.payment_id,
            operation_id=operation_id,
            amount=refund.amount,
            status=refund.status,
            provider_id=made.id,
            refunded_at=made.created,
        )
    )
