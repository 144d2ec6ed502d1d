"""The Lambda: routes, and answers made of what the logic returns."""

from __future__ import annotations

import base64
import json
import re
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from functions.payments import logic
from functions.payments.models import Payment, PaymentRequest
from oncekey import Operation, idempotent, jwt_claim

logger = Logger()

Event = dict[str, Any]
Answer = dict[str, Any]

PROBLEM_BASE = "urn:payments:problem:"
# The same verified claim scopes the keys of POST and what GET may see.
TENANT = jwt_claim("tenant_id")
_PAYMENT_ID = re.compile(r"pay_[0-9a-f]{32}")


def handler(event: Event, context: object) -> Answer:
    """Answer a request of the HTTP API."""
    match event.get("routeKey"):
        case "POST /payments":
            return create_payment(event, context)
        case "GET /payments/{payment_id}":
            return read_payment(event)
        case _:
            return _problem(HTTPStatus.NOT_FOUND, "route-unknown", "There is nothing here.")


@idempotent(operation="POST /payments", tenant=TENANT, fingerprint=PaymentRequest)
def create_payment(event: Event, context: object, op: Operation) -> Answer:
    """Charge once for each Idempotency-Key: 201, or 402 if the card is declined."""
    del context
    try:
        request = PaymentRequest.model_validate_json(_body(event))
    except ValidationError:
        # The decorator has refused such a body with its faults; this holds where it runs bare.
        return _problem(HTTPStatus.BAD_REQUEST, "request-invalid", "The body is not a payment.")
    try:
        payment = logic.create_payment(request, op)
    except logic.PaymentRefused as refused:
        detail = f"The provider does not accept this payment ({refused})."
        return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, "payment-refused", detail)
    logger.info(
        "payment made",
        extra={
            "operation_id": op.operation_id,
            "attempt": op.attempt,
            "payment_id": payment.payment_id,
            "status": payment.status,
        },
    )
    if payment.status == logic.DECLINED:
        return _problem(
            HTTPStatus.PAYMENT_REQUIRED,
            "card-declined",
            "The card was declined. Pay by another card, with a new Idempotency-Key.",
            payment_id=payment.payment_id,
        )
    return _payment(HTTPStatus.CREATED, payment, {"Location": f"/payments/{payment.payment_id}"})


def read_payment(event: Event) -> Answer:
    """Show a payment to its tenant; another tenant's looks absent."""
    tenant = TENANT(event.get("requestContext") or {})
    if tenant is None:
        return _problem(
            HTTPStatus.FORBIDDEN, "tenant-missing", "The token carries no tenant_id claim."
        )
    payment_id = (event.get("pathParameters") or {}).get("payment_id", "")
    payment = logic.find_payment(tenant, payment_id) if _PAYMENT_ID.fullmatch(payment_id) else None
    if payment is None:
        return _problem(HTTPStatus.NOT_FOUND, "payment-unknown", "There is no such payment.")
    return _payment(HTTPStatus.OK, payment, {})


def _body(event: Event) -> bytes:
    body = event.get("body") or ""
    if event.get("isBase64Encoded"):
        return base64.b64decode(body)
    return str(body).encode("utf-8", "surrogatepass")


def _payment(status: HTTPStatus, payment: Payment, headers: dict[str, str]) -> Answer:
    return _answer(status, "application/json", payment.model_dump(), headers)


def _problem(status: HTTPStatus, code: str, detail: str, **members: str) -> Answer:
    problem = {
        "type": PROBLEM_BASE + code,
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "retryable": False,
        **members,
    }
    return _answer(status, "application/problem+json", problem, {})


def _answer(
    status: HTTPStatus, media_type: str, body: dict[str, Any], headers: dict[str, str]
) -> Answer:
    return {
        "statusCode": status.value,
        "headers": {"Content-Type": media_type, **headers},
        "body": json.dumps(body),
    }
