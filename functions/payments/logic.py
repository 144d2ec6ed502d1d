"""Charge the customer, store the payment, read it back. Knows nothing of events and routes."""

from __future__ import annotations

import os
import uuid
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import boto3
import stripe
from botocore.config import Config

from functions.payments.models import Payment, PaymentRequest
from oncekey import NotExecuted, Operation

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

DECLINED = "declined"

# The function has 20 s. At the worst a charge is tried twice for 8 s and the row written twice for
# 1 s, which makes 18 s: what goes wrong is still reported in time.
_PROVIDER_TIMEOUT_S = (1.0, 7.0)
_TABLE_CONFIG = Config(
    connect_timeout=0.3,
    read_timeout=0.7,
    retries={"total_max_attempts": 2, "mode": "standard"},
)

# The provider would not execute the request now: nothing happened, and it may work later.
_REFUSALS = (
    stripe.AuthenticationError,
    stripe.PermissionError,
    stripe.RateLimitError,
)
# No answer, a 5xx, or a 409 while an earlier call under the same key still runs.
_UNCERTAIN = (stripe.APIConnectionError, stripe.APIError)


class NotConfigured(NotExecuted):
    """The function lacks an environment variable; found before anything was sent."""


class PaymentRefused(Exception):  # noqa: N818 -- an answer of the provider, not an error
    """The provider will not execute this payment, now or later: nothing happened."""


class Outcome(NamedTuple):
    """What the provider did. A decline comes with its payment intent too, as far as it is told."""

    status: str
    intent: stripe.PaymentIntent | None


def create_payment(request: PaymentRequest, operation: Operation) -> Payment:
    """Charge the customer and store the payment.

    When it returns, the provider has charged or declined, and the row says so. It raises
    `NotExecuted` where the provider provably did nothing and the same may be tried again, and
    `PaymentRefused` where that is pointless. After any other exception, or when it never returns,
    the customer may have been charged, with or without a row. Called again for the same operation
    it charges nothing twice: the provider knows the operation's key.
    """
    # Both before the charge: what is missing must not be found out after it.
    provider, table, table_name = _provider(), _table(), _setting("PAYMENTS_TABLE")
    payment_id = payment_id_of(operation)
    try:
        intent = _charge(provider, request, operation, payment_id)
        outcome = Outcome(intent.status, intent)
    except stripe.CardError as declined:
        told = declined.error
        outcome = Outcome(DECLINED, None if told is None else told.payment_intent)
    payment = Payment(
        payment_id=payment_id,
        status=outcome.status,
        amount=request.amount,
        currency=request.currency,
    )
    # Unconditional, because every attempt at the operation writes the same row: the ids derive from
    # the operation, and the outcome and its time are what the provider remembers under its key.
    table.put_item(TableName=table_name, Item=_row(payment, request, operation, outcome.intent))
    return payment


def find_payment(tenant: str, payment_id: str) -> Payment | None:
    """The payment of this id, if there is one and it is the tenant's."""
    found = _table().get_item(
        TableName=_setting("PAYMENTS_TABLE"),
        Key={"pk": {"S": row_key(tenant, payment_id)}},
        ConsistentRead=True,
    )
    row = found.get("Item")
    if row is None:
        return None
    return Payment(
        payment_id=row["payment_id"]["S"],
        status=row["status"]["S"],
        amount=int(row["amount"]["N"]),
        currency=row["currency"]["S"],
    )


def payment_id_of(operation: Operation) -> str:
    """The id of the payment that the operation makes, the same over all its attempts."""
    return f"pay_{uuid.UUID(operation.operation_id).hex}"


def row_key(tenant: str, payment_id: str) -> str:
    """The row's key. The length makes it unforgeable: no tenant's name can reach into another's."""
    return f"{len(tenant)}#{tenant}#{payment_id}"


def _charge(
    provider: stripe.StripeClient, request: PaymentRequest, operation: Operation, payment_id: str
) -> stripe.PaymentIntent:
    def send() -> stripe.PaymentIntent:
        return provider.v1.payment_intents.create(
            {
                "amount": request.amount,
                "currency": request.currency,
                "customer": request.customer_id,
                "confirm": True,
                # Nobody is there to go on in a browser: a card that asks for it counts as declined.
                "error_on_requires_action": True,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "metadata": {
                    "operation_id": operation.operation_id,
                    "payment_id": payment_id,
                    "tenant": operation.tenant,
                },
            },
            {"idempotency_key": operation.downstream_key("charge")},
        )

    try:
        return send()
    except stripe.InvalidRequestError as refusal:
        raise PaymentRefused(refusal.param or "request") from refusal
    except _REFUSALS as refusal:
        raise NotExecuted(f"the provider refused ({type(refusal).__name__})") from refusal
    except _UNCERTAIN as uncertain:
        # What happened is asked by sending the same again: the provider replays what it did. This
        # is not left to the SDK's retries because they hide that there was a first try, and a
        # refusal of the second (a rate limit, say) proves nothing about the first.
        try:
            return send()
        except (*_REFUSALS, stripe.InvalidRequestError):
            raise uncertain from None


def _row(
    payment: Payment,
    request: PaymentRequest,
    operation: Operation,
    intent: stripe.PaymentIntent | None,
) -> dict[str, AttributeValueTypeDef]:
    row: dict[str, AttributeValueTypeDef] = {
        "pk": {"S": row_key(operation.tenant, payment.payment_id)},
        "tenant": {"S": operation.tenant},
        "payment_id": {"S": payment.payment_id},
        "operation_id": {"S": operation.operation_id},
        "customer_id": {"S": request.customer_id},
        "amount": {"N": str(payment.amount)},
        "currency": {"S": payment.currency},
        "status": {"S": payment.status},
    }
    if intent is not None:
        row |= {"provider_id": {"S": intent.id}, "charged_at": {"N": str(intent.created)}}
    return row


@cache
def _provider() -> stripe.StripeClient:
    """The SDK's client, one for each sandbox."""
    return stripe.StripeClient(
        _setting("PROVIDER_API_KEY"),
        base_addresses={"api": _setting("PROVIDER_URL").rstrip("/")},
        max_network_retries=0,
        http_client=stripe.RequestsClient(timeout=_PROVIDER_TIMEOUT_S),
    )


@cache
def _table() -> DynamoDBClient:
    """The client of the payments table, one for each sandbox."""
    client: DynamoDBClient = boto3.client("dynamodb", config=_TABLE_CONFIG)
    return client


def _setting(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise NotConfigured(f"the environment variable {name} is not set: set it for the function")
    return value
