"""The Lambda on the queue: one message at a time, and which of them have failed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)

from functions.outbox_worker import logic
from functions.shared.models import PAYMENT_REQUESTED, Charge
from oncekey import (
    InProgress,
    OutcomeUnknown,
    StoreUnavailable,
    current_operation,
    idempotent_function,
)
from oncekey.inbox import Delivered, delivered, postpone

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

logger = Logger()
# Where every message has failed, the answer says so as well; an exception would say nothing more.
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


class TopicUnknown(ValueError):  # noqa: N818 -- a property of what was received
    """A message that this worker has nothing to do with."""


def handler(event: dict[str, Any], context: Any) -> Any:
    """Work on a batch of the queue; what has failed is delivered again."""
    return process_partial_response(
        event=event, record_handler=work, processor=processor, context=context
    )


def work(record: SQSRecord, lambda_context: object = None) -> None:
    """Carry out one message, once, however often it is delivered.

    What it raises leaves the message in the queue: for the time that the error names, else for the
    queue's visibility timeout, and after so many times among the dead letters.
    """
    message = delivered(record.body)
    try:
        if message.topic != PAYMENT_REQUESTED:
            raise TopicUnknown(message.topic)
        charge_payment(message, lambda_context)
    except (InProgress, OutcomeUnknown, StoreUnavailable) as not_now:
        postpone(
            record.receipt_handle,
            after_s=not_now.retry_after_s or 0,
            receives=int(record.attributes.approximate_receive_count),
        )
        raise


@idempotent_function(
    operation=PAYMENT_REQUESTED,
    key=lambda message, _: message.id,
    tenant=lambda message, _: message.tenant,
    effects="recorded",
    # Longer than a message can live: 4 days in the queue and 14 among its dead letters.
    retention=timedelta(days=30),
)
def charge_payment(message: Delivered, context: object) -> str:
    """Charge the payment that the message asks for; how it ended."""
    del context  # the lease ends with it
    operation = current_operation()
    request = Charge.model_validate(message.payload)
    charged = logic.charge(request, operation, requested_by=message.operation_id)
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
    return charged.status
