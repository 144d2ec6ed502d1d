"""Telling a person of an operation that nobody else can settle."""

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
    try:
        space = uuid.UUID(record.operation_id)
    except ValueError:
        # Of a record that is not ours, which a person must look at all the more.
        space, name = uuid.NAMESPACE_OID, f"{record.pk} {name}"
    return str(uuid.uuid5(space, name))


def stuck_body(pk: str, record: Record | None, reason: str, times: int) -> str:
    """The message about what no visit can do anything with: under which key of the table, and why.

    `record` is what is there, if it can be read.
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
    """Send a message to a person, whose entry in the queue has this `name`.

    When it is answered, the queue has it. `NotSent` is thrown into the flow where the queue did not
    take it; another `StoreError` where it did not answer, and may have it.
    """

    name: str
    body: str = field(repr=False)
    queue: SqsQueue = field(compare=False, repr=False)

    def carry_out(self) -> None:
        """Send it.

        Raises:
            NotSent: the queue did not take it.
            StoreError: the queue did not answer; it may be in it.
        """
        try:
            rejected = self.queue.send([Entry(id=self.name, body=self.body)])
        except StoreError as error:
            if error.is_harmless or not error.transient:
                raise NotSent(f"the escalation queue: {error.reason}", transient=True) from error
            raise
        if rejected:
            raise NotSent(f"the escalation queue: {rejected[0].reason}", transient=True)
