"""The Lambda handler of the queue. It handles one message at a time, and reports failed ones.

It charges payments, runs jobs and handles the provider's events.
"""

from __future__ import annotations

from datetime import timedelta

from aws_lambda_powertools import Logger

from functions.outbox_worker import logic, provider_events
from functions.reports.handler import create_report
from functions.shared import models
from oncekey import current_operation, idempotent_function, natural
from oncekey.clock import SystemClock
from oncekey.outbox import Delivered, Topics, Worker
from oncekey.queued import Jobs

logger = Logger()
# Longer than a message lives: 4 days in the queue and 14 days in its dead-letter queue.
RETENTION = timedelta(days=30)


@natural("each of its writes is conditional on the state before it")
def apply_event(message: Delivered, context: object) -> None:
    """Finish a payment, or settle a refund, from an event of the provider.

    It is idempotent by itself, so it reserves no key: each write is conditional.
    """
    del context  # it makes no lease
    event = models.ProviderEvent.model_validate(message.payload)
    outcome = provider_events.apply(event)
    logger.info(
        "provider event applied",
        extra={
            "message_id": message.id,
            "type": event.type,
            "provider_id": event.object_id,
            "operation_id": event.metadata.get("operation_id"),
            "outcome": outcome,
        },
    )


@idempotent_function(
    operation=models.PAYMENT_REQUESTED,
    key=lambda message, _: message.id,
    tenant=lambda message, _: message.tenant,
    effects="recorded",
    retention=RETENTION,
)
def charge_payment(message: Delivered, context: object) -> str:
    """Charge the payment in the message once, and return its status."""
    del context  # the lease ends with it
    operation = current_operation()
    request = models.Charge.model_validate(message.payload)
    charged = logic.charge(
        request,
        operation,
        requested_by=message.operation_id,
        age_ms=SystemClock().now_ms() - message.created_at_ms,
    )
    logger.info(
        "payment charged",
        extra={
            "message_id": message.id,
            "operation_id": operation.operation_id,
            "attempt": operation.attempt,
            "payment_id": request.payment_id,
            "status": charged.status,
        },
    )
    return charged.status.value


topics = Topics(
    {models.PAYMENT_REQUESTED: charge_payment, models.PROVIDER_EVENT: apply_event},
    jobs=Jobs(create_report),
)
handler = Worker(topics)
