"""Escalating an operation that only a person can settle."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.flow.commands import Outside
from oncekey.record.references import reference_to
from oncekey.store.sqs import Entry
from oncekey.value import field

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.store.sqs import SqsQueue

TOPIC = "oncekey.escalated"


def escalation_body(record: Record) -> str:
    """The message: the operation, its state and the reason, but no key and no part of a request."""
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
    """An id that is the same for every sending of one escalation, so that repeats are recognised.

    One attempt may have several escalations. For example, a person settles its step, and then its
    client never retries.
    """
    name = f"escalated {record.attempt} {record.escalated_at_ms}"
    try:
        space = uuid.UUID(record.operation_id)
    except ValueError:
        # Another program wrote this record. A person must still see it.
        space, name = uuid.NAMESPACE_OID, f"{record.pk} {name}"
    return str(uuid.uuid5(space, name))


def stuck_body(pk: str, record: Record | None, reason: str, times: int) -> str:
    """The message about an item that cannot be visited: its key in the table, and the reason.

    `record` is None if the item cannot be read as a record.
    """
    known = json.loads(escalation_body(record)) if record is not None else {"topic": TOPIC}
    stuck = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"stuck {pk} {times}")),
        "pk": pk,
        "status": record.status.value if record is not None else "UNREADABLE",
        "reason": reason,
        "reconcile_attempts": times,
    }
    return json.dumps({**known, **stuck}, separators=(",", ":"))


class NotSent(StoreError):  # noqa: N818 -- a statement about the message
    """The message is certainly not in the queue."""


class TellPerson(Outside[None]):
    """Send a message to the escalation queue, as an entry with this `name`.

    When this is answered, the queue has the message. `NotSent` is thrown into the flow if the queue
    certainly does not have it. Another `StoreError` is thrown if the queue did not answer and may
    have it.
    """

    name: str
    body: str = field(repr=False)
    queue: SqsQueue = field(compare=False, repr=False)

    def carry_out(self) -> None:
        """Send the message.

        Raises:
            NotSent: the queue did not accept it.
            StoreError: the queue did not answer and may have it.
        """
        try:
            rejected = self.queue.send([Entry(id=self.name, body=self.body)])
        except StoreError as error:
            is_refused = not (error.transient or error.is_after_retry)
            if error.is_harmless or is_refused:
                raise NotSent(f"the escalation queue: {error.reason}", transient=True) from error
            raise
        if rejected:
            raise NotSent(f"the escalation queue: {rejected[0].reason}", transient=True)
