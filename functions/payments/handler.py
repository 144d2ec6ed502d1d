"""The Lambda handler: the routes and their answers."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from functions.payments import logic
from functions.payments.models import PaymentRequest
from functions.shared.http import TENANT, answer, body_of, problem, route_unknown
from functions.shared.models import PAYMENT_ID_PATTERN
from oncekey import Operation, idempotent

if TYPE_CHECKING:
    from functions.shared.http import Answer, Event

logger = Logger()


def handler(event: Event, context: object) -> Answer:
    """Answer a request of the HTTP API."""
    match event.get("routeKey"):
        case "POST /payments":
            return create_payment(event, context)
        case "GET /payments/{payment_id}":
            return read_payment(event)
        case _:
            return route_unknown()


@idempotent(
    operation="POST /payments", tenant=TENANT, fingerprint=PaymentRequest, effects="recorded"
)
def create_payment(event: Event, context: object, op: Operation) -> Answer:
    """Accept a payment once for each Idempotency-Key: 202. A worker charges it soon."""
    del context
    try:
        request = PaymentRequest.model_validate_json(body_of(event))
    except ValidationError:
        # The decorator refuses such a body before. Without protection, it is refused here.
        return problem(HTTPStatus.BAD_REQUEST, "request-invalid", "The body is not a payment.")
    payment = logic.accept_payment(request, op)
    logger.info(
        "payment accepted",
        extra={
            "operation_id": op.operation_id,
            "attempt": op.attempt,
            "payment_id": payment.payment_id,
        },
    )
    location = {"Location": f"/payments/{payment.payment_id}"}
    return answer(HTTPStatus.ACCEPTED, payment.model_dump(), location)


def read_payment(event: Event) -> Answer:
    """Show a payment to its tenant. Another tenant's payment looks absent."""
    tenant = TENANT(event.get("requestContext") or {})
    if tenant is None:
        return problem(
            HTTPStatus.FORBIDDEN, "tenant-missing", "The token carries no tenant_id claim."
        )
    payment_id = (event.get("pathParameters") or {}).get("payment_id", "")
    is_one = re.fullmatch(PAYMENT_ID_PATTERN.strip("^$"), payment_id)
    payment = logic.find_payment(tenant, payment_id) if is_one else None
    if payment is None:
        return problem(HTTPStatus.NOT_FOUND, "payment-unknown", "There is no such payment.")
    return answer(HTTPStatus.OK, payment.model_dump())
