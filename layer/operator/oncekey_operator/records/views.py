"""A record as commands show it: names and values, without key, payload and answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey.reconciler.decisions import TOLD_ONCE_IN_MS
from oncekey.record.policy import Encoding
from oncekey.record.record import Status
from oncekey.record.references import reference_to
from oncekey.record.stored_answer import NotKept, Place, StoredRef, opened
from oncekey_operator.output import iso

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.store.store import Store


def view(record: Record, now_ms: int) -> dict[str, Any]:
    """The fields of `record` for programs. Their names are stable. Absent values are None."""
    return {
        "reference": reference_to(record),
        "operation_id": record.operation_id,
        "operation": record.operation,
        "tenant": record.tenant,
        "status": state(record, now_ms),
        "effects": record.effects.value,
        "attempt": record.attempt,
        "created_at": iso(record.created_at_ms),
        "lease_until": _time(record.lease_until_ms),
        "completed_at": _time(record.completed_at_ms),
        "expires_at": None if record.expires_at_s is None else iso(record.expires_at_s * 1000),
        "due_at": None if record.due is None else iso(record.due.at_ms),
        "reconcile_attempts": record.reconcile_attempts,
        "escalated_at": _time(record.escalated_at_ms) if is_told(record) else None,
        "last_error": record.last_error,
        "steps": [
            {"name": step.name, "state": "finished", "at": iso(step.at_ms)}
            for step in record.steps.finished
        ]
        + (
            [
                {
                    "name": record.steps.started.name,
                    "state": "in doubt",
                    "at": iso(record.steps.started.at_ms),
                }
            ]
            if record.steps.started is not None
            else []
        ),
    }


def state(record: Record, now_ms: int) -> str:
    """The state in lower case; `expired` is derived from the time."""
    return "expired" if record.is_expired(now_ms) else record.status.value.lower()


def is_told(record: Record) -> bool:
    """Whether a person was told of it: its message was sent, or may have been.

    A handler that stops an operation marks it for a person, whom the reconciler tells. It postpones
    the record by a day before it tells, and takes that back if the queue has no message.
    """
    if record.escalated_at_ms is None:
        return False
    return record.due is None or record.due.at_ms >= record.escalated_at_ms + TOLD_ONCE_IN_MS


def answer_of(record: Record, store: Store) -> tuple[str, Any]:
    """The stored answer: a few words about it, and its value, which is None if it has none.

    A function's result is as it is stored: what is no JSON value is tagged with its kind. The
    classes of its handler are not loaded here.

    Raises:
        StoreError: the store did not answer.
    """
    if record.status is not Status.COMPLETED or record.response is None:
        return "none", None
    if isinstance(record.response, NotKept):
        return f"not stored: {record.response.reason}", None
    is_object = isinstance(record.response, StoredRef) and record.response.place is Place.OBJECT
    if is_object and not store.has_bucket:
        return "in the response bucket: say --bucket NAME to read it", None
    blob = store.fetch(record.response) if isinstance(record.response, StoredRef) else None
    try:
        answer = json.loads(opened(record.response, blob))
    except ValueError as error:  # AnswerDamaged is one
        return f"damaged: {error}", None
    if record.policy is not None and record.policy.encoding is Encoding.RESULT:
        return "a function's result", answer
    return f"HTTP {answer.get('statusCode', 200)}", answer


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else iso(at_ms)
