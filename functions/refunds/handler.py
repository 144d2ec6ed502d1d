"""The Lambda handler: its route and the answers.

It calls the provider within the request, and its effects are not recorded. So the outcome of an
interrupted attempt is unknown until it is settled. `functions.payments` shows the other way.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from aws_lambda_powertools import Logger
from pydantic import ValidationError

from functions.refunds import logic
from functions.refunds.models import RefundRequest, answer_of
from functions.shared.http import TENANT, body_of, problem, route_unknown
from oncekey import Operation, idempotent

if TYPE_CHECKING:
    from functions.shared.http import Answer, Event

logger = Logger()


def handler(event: Event, context: object) -> Answer:
    """Answer a request of the HTTP API."""
    if event.get("routeKey") == "POST /refunds":
        return create_refund(event, context)
    return route_unknown()


@idempotent(operation="POST /refunds", tenant=TENANT, fingerprint=RefundRequest)
def create_refund(event: Event, context: object, op: Operation) -> Answer:
    """Refund once for each Idempotency-Key: 201, or a final problem if nothing was refunded."""
    del context
    try:
        request = RefundRequest.model_validate_json(body_of(event))
    except ValidationError:
        # The decorator refuses such a body before. Without protection, it is refused here.
        return problem(HTTPStatus.BAD_REQUEST, "request-invalid", "The body is not a refund.")
    try:
        refund = logic.create_refund(request, op)
    except logic.PaymentUnknown:
        return problem(HTTPStatus.NOT_FOUND, "payment-unknown", "There is no such payment.")
    except logic.PaymentNotCharged as state:
        detail = f"The payment is {state}: there is nothing to give back."
        return problem(HTTPStatus.CONFLICT, "payment-not-charged", detail)
    except logic.RefundRefused as refused:
        detail = f"The provider does not accept this refund ({refused})."
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "refund-refused", detail)
    logger.info(
        "refund made",
        extra={
            "operation_id": op.operation_id,
            "attempt": op.attempt,
            "payment_id": refund.payment_id,
            "refund_id": refund.refund_id,
            "status": refund.status,
        },
    )
    return answer_of(refund)
