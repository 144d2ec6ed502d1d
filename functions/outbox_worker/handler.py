"""The Lambda on the queue: one message at a time, and which of them have failed.

It charges payments, carries out the requests that were accepted for later, and does what follows
from the provider's events.
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
# Longer than a message lives: 4 days in the queue and 14 among its dead letters.
RETENTION = timedelta(days=30)
jobs = Jobs(create_report)


class TopicUnknown(ValueError):  # noqa: N818 -- a property of what was received
    """A message that this worker has nothing to do with."""


def work(record: SQSRecord, lambda_context: object = None) -> None:
    """Carry out one message, once, however often it is delivered.

    What it raises leaves the message in the queue, and after so many receives among the dead
    letters; when it comes again, `oncekey.outbox` says.
    """
    receives = int(record.attributes.approximate_receive_count)
    try:
        carry_out(delivered(record.body), lambda_context)
    except ResultUnavailable:
        # It was carried out, and only its result was not kept: there is nothing left to do.
        logger.info("message was done before", extra={"sqs_message_id": record.message_id})
    except Exception as error:
        # Its type alone: the text of a provider's or a model's error may repeat what was sent.
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
    """Do what the message's topic asks for.

    Raises:
        TopicUnknown: nobody here knows what that is.
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
    """Finish a payment, or settle a refund, by what the provider tells of it.

    Naturally idempotent, so it reserves no key: each write is on condition of what it finds.
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
    """Charge the payment that the message asks for, once; how that ended."""
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
