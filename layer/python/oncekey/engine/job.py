"""Jobs: what an accepted request stores for a worker, and what the worker gets from the queue."""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.effects.outbox import LARGEST_INLINE_PAYLOAD_BYTES, kept_apart
from oncekey.encoding.canonical import MAX_DEPTH
from oncekey.engine.kept_event import kept_event, with_sender
from oncekey.errors import EnvelopeUnreadable, RequestRefused
from oncekey.record.identity import digest
from oncekey.record.message import Message
from oncekey.record.message_text import is_too_deep, is_value_too_deep
from oncekey.record.stored_answer import AnswerDamaged, opened
from oncekey.telemetry import jobs as job_telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.record.record import Record
    from oncekey.tenants import Caller

# The topic of the messages that bring jobs to workers.
TOPIC = "oncekey.job"

# A refused write is billed by the size of the record. With a request of this size, each repeat that
# arrives while it runs costs sixteen write units.
LARGEST_KEPT_REQUEST_BYTES = 16_000

# The size of a message's payload without the event, at most.
_HEAD_BYTES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What an accepted request stores for its worker: its event, as JSON text."""

    event: str = field(repr=False)

    @property
    def is_large(self) -> bool:
        """Whether the job's message needs the bucket."""
        return len(self.event) > LARGEST_INLINE_PAYLOAD_BYTES - _HEAD_BYTES

    @property
    def request_digest(self) -> str:
        """The digest in the record, which the event of the message must match."""
        return digest(self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage:
    """A job as a worker gets it.

    `pk` and `operation_id` identify the record. `owner` identifies the acceptance: if a request is
    accepted again, it has another owner and another message.
    """

    pk: str
    operation_id: str
    owner: str
    event: dict[str, Any] = field(repr=False)

    def is_of(self, record: Record) -> bool:
        """Whether the event is the one that `record` was written for.

        This must be checked, because others than the relay may send to the queue, and ids are not
        secret.
        """
        expected = record.request_digest
        if record.request is not None:
            try:
                expected = digest(opened(record.request, None))
            except AnswerDamaged:
                return False
        return expected is not None and digest(_text(self.event)) == expected


def event_text(event: Mapping[str, Any], *, has_bucket: bool, sender: Caller | None = None) -> str:
    """The part of `event` that may be stored, as JSON text, without its caller's credentials.

    If the stored part does not name the caller, pass the caller as `sender`. It is then added.

    Raises:
        RequestRefused: the event is too large to be stored without a bucket, or is nested deeper
            than 128 (`request-invalid`).
    """
    if is_value_too_deep(event):
        raise _too_deep()
    kept = kept_event(event)
    if sender is not None:
        kept = with_sender(kept, sender.tenant, sender.principal)
    text = _text(kept)
    if not has_bucket and len(text) > LARGEST_INLINE_PAYLOAD_BYTES - _HEAD_BYTES:
        detail = "The request is too large to be kept for later."
        raise RequestRefused("request-invalid", detail)
    return text


def check_depth(event: Mapping[str, Any], json_body: bytes) -> None:
    """Refuse an event that a worker or its handler may not be able to read.

    Raises:
        RequestRefused: the event, or its body, is nested deeper than 128 (`request-invalid`).
    """
    if is_value_too_deep(event) or is_too_deep(json_body.decode("utf-8", "replace")):
        raise _too_deep()


def kept_request(
    event: Mapping[str, Any], operation: str, sender: Caller | None = None
) -> str | bytes | None:
    """`event` as its record stores it, as text or compressed.

    Returns None and logs a warning if the event is too large for the record, or is nested too deep
    for the worker that would read it.
    """
    try:
        text = event_text(event, has_bucket=True, sender=sender)
    except RequestRefused:
        job_telemetry.request_not_kept(operation, f"nested deeper than {MAX_DEPTH}")
        return None
    packed = zlib.compress(text.encode("utf-8"))
    kept = text if len(text) <= len(packed) else packed
    # The reconciler may send this event to a worker, in a message that cannot use the bucket.
    if len(kept) <= LARGEST_KEPT_REQUEST_BYTES and not Job(event=text).is_large:
        return kept
    job_telemetry.request_not_kept(operation, f"{len(packed)} bytes compressed")
    return None


def message_of(job: Job, record: Record, now_ms: int, *, name: str = "") -> Message:
    """The message that brings the job of the waiting `record` to a worker.

    `name` distinguishes it from the operation's other messages.
    """
    head = _text({"record": record.pk, "owner": record.owner})
    text = f'{head[:-1]},"event":{job.event}}}'
    # An attempt is accepted only once, because the transition in the same transaction is refused
    # the second time. So its number makes the id unique.
    message_id = str(uuid.uuid5(uuid.UUID(record.operation_id), name or f"job {record.attempt}"))
    return Message(
        id=message_id,
        topic=TOPIC,
        payload=text,
        operation_id=record.operation_id,
        operation=record.operation,
        tenant=record.tenant,
        created_at_ms=now_ms,
        payload_ref=kept_apart(message_id, record.owner, text),
        traceparent=record.traceparent,
    )


def job_message_in(payload: object, operation_id: str) -> JobMessage:
    """The job in a message's payload.

    Raises:
        EnvelopeUnreadable: the payload has no job.
    """
    if isinstance(payload, dict):
        pk, owner, event = (payload.get(name) for name in ("record", "owner", "event"))
        if isinstance(pk, str) and isinstance(owner, str) and isinstance(event, dict):
            return JobMessage(pk=pk, operation_id=operation_id, owner=owner, event=event)
    raise EnvelopeUnreadable("the message tells of no accepted request")


def _too_deep() -> RequestRefused:
    return RequestRefused("request-invalid", f"The request is nested deeper than {MAX_DEPTH}.")


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
