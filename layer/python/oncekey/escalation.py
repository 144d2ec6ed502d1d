"""Telling a person of an operation that nobody else can settle."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.references import reference_to
from oncekey.sqs_queue import Entry

if TYPE_CHECKING:
    from oncekey.record import Record
    from oncekey.sqs_queue import SqsQueue

TOPIC = "oncekey.escalated"


def escalation_body(record: Record) -> str:
    """The message: which operation, in which state and why; no key, and nothing that was sent."""
    return json.dumps(
        {
            "id": _message_id(record),
            "topic": TOPIC,
            "reference": reference_to(record),
            "operation": record.operation,
            "operation_id": record.operation_id,
            "tenant": record.tenant,
            "status": record.status.value,
            "reason": record.last_error or "",
            "step_in_doubt": record.step_in_doubt,
            "attempt": record.attempt,
            "reconcile_attempts": record.reconcile_attempts,
            "created_at_ms": record.created_at_ms,
            "escalated_at_ms": record.escalated_at_ms,
        },
        separators=(",", ":"),
    )


def _message_id(record: Record) -> str:
    """The same for every sending of one escalation, so that repeats can be told.

    An attempt may have several: its step is settled by a person, and then its client never comes.
    """
    name = f"escalated {record.attempt} {record.escalated_at_ms}"
    return str(uuid.uuid5(uuid.UUID(record.operation_id), name))


def escalate(record: Record, queue: SqsQueue) -> None:
    """Send the message about `record`.

    When it returns, the queue has it, at least once.

    Raises:
        StoreError: the queue did not answer, or did not take it; it may be in it.
    """
    rejected = queue.send([Entry(id=record.operation_id, body=escalation_body(record))])
    if rejected:
        raise StoreError(f"the escalation queue: {rejected[0].reason}", transient=True)
