"""The Lambda handler of the queue. It handles one message at a time, and reports failed ones.

It charges payments, runs jobs and handles the provider's events.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from functions.outbox_worker import logic, provider_events
from functions.reports.handler import create_report
from functions.shared import models
from oncekey import ResultUnavailable, current_operation, idempotent_function
from oncekey.clock import SystemClock
from oncekey.outbox import Delivered, Worker, delivered
from oncekey.queued import Jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = Logger()
# Longer than a message lives: 4 days in the queue and 14 days in its dead-letter queue.
RETENTION = timedelta(days=30)
jobs = Jobs(create_report)


class TopicUnknown(ValueError):  # noqa: N818 -- a property of what was received
    """A message with a topic that this worker does not know."""


def work(record: SQSRecord, lambda_context: object = None) -> None:
    """Handle one message, once, however often it is delivered.

    If it raises, the message stays in the queue, and becomes a dead letter after too many receives.
    `oncekey.outbox.Worker` decides when it is delivered again.
    """
    receives = int(record.attributes.approximate_receive_count)
    try:
        carry_out(delivered(record.body), lambda_context)
    except ResultUnavailable:
        # It was carried out, and only its result is unavailable: there is nothing left to do.
        logger.info("message was done before", extra={"sqs_message_id": record.message_id})
    except Exception as error:
        # Only its type, because the text of a provider's or model's error may repeat the request.
        logger.warning(
            "message failed",
            extra={
                "sqs_message_id": record.message_id,
                "receives": receives,
                "reason": type(error).__name__,
            },
        )
        raise


def _work(record: Mapping[str, Any], lambda_context: Any) -> None:
    work(SQSRecord(dict(record)), lambda_context)


handler = Worker(_work)


def carry_out(message: Delivered, lambda_context: object) -> None:
    """Handle the message according to its topic.

    Raises:
        TopicUnknown: the topic is unknown.
    """
    if jobs.takes(message):
        jobs.perform(message, lambda_context)
        return
    match message.topic:
        case models.PAYMENT_REQUESTED:
            charge_payment(message, lambda_context)
        case models.PROVIDER_EVENT:
            apply_event(message)
        case _:
            raise TopicUnknown(f"{message.topic} of {message.operation}")


def apply_event(message: Delivered) -> None:
    """Finish a payment, or settle a refund, from an event of the provider.

    It is idempotent by itself, so it reserves no key: each write is conditional.
    """
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
