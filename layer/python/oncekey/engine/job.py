"""What an accepted request leaves for a worker, and what the worker finds of it in the queue."""

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

# The topic of the messages that tell workers of accepted requests.
TOPIC = "oncekey.job"

# A refused write is billed by the size of the record: sixteen units, while such a request runs.
LARGEST_KEPT_REQUEST_BYTES = 16_000

# What a message's payload has beside the event.
_HEAD_BYTES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What an accepted request leaves behind: its event, as JSON text."""

    event: str = field(repr=False)

    @property
    def is_large(self) -> bool:
        """Whether its message needs the bucket."""
        return len(self.event) > LARGEST_INLINE_PAYLOAD_BYTES - _HEAD_BYTES

    @property
    def request_digest(self) -> str:
        """What the record holds its message's event to."""
        return digest(self.event)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMessage:
    """An accepted request as a worker gets it.

    `pk` and `operation_id` say which record it speaks of, and `owner` under which acceptance: one
    that was accepted again has another, and another message.
    """

    pk: str
    operation_id: str
    owner: str
    event: dict[str, Any] = field(repr=False)

    def is_of(self, record: Record) -> bool:
        """Whether the event is the one that `record` was written for.

        A message can be put into the queue by more than the relay, and ids are no secrets.
        """
        expected = record.request_digest
        if record.request is not None:
            try:
                expected = digest(opened(record.request, None))
            except AnswerDamaged:
                return False
        return expected is not None and digest(_text(self.event)) == expected


def event_text(event: Mapping[str, Any], *, has_bucket: bool, sender: Caller | None = None) -> str:
    """What is kept of `event` as JSON text: nothing that proves who its caller is.

    `sender` is noted in it, where what is kept does not name its caller.

    Raises:
        RequestRefused: it is too large to be kept without a bucket, or nested deeper than 128
            (`request-invalid`).
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
    """Refuse what a worker, or its handler, may not be able to read.

    Raises:
        RequestRefused: the event, or its body, is nested deeper than 128 (`request-invalid`).
    """
    if is_value_too_deep(event) or is_too_deep(json_body.decode("utf-8", "replace")):
        raise _too_deep()


def kept_request(
    event: Mapping[str, Any], operation: str, sender: Caller | None = None
) -> str | bytes | None:
    """`event` as its record keeps it; None, and a warning, for one that takes too much of it.

    Or for one that is nested too deep for the worker that would get it back.
    """
    try:
        text = event_text(event, has_bucket=True, sender=sender)
    except RequestRefused:
        job_telemetry.request_not_kept(operation, f"nested deeper than {MAX_DEPTH}")
        return None
    packed = zlib.compress(text.encode("utf-8"))
    kept = text if len(text) <= len(packed) else packed
    # Whoever hands it back writes its message without a bucket.
    if len(kept) <= LARGEST_KEPT_REQUEST_BYTES and not Job(event=text).is_large:
        return kept
    job_telemetry.request_not_kept(operation, f"{len(packed)} bytes compressed")
    return None


def message_of(job: Job, record: Record, now_ms: int, *, name: str = "") -> Message:
    """The message that tells a worker of the waiting `record`.

    `name` tells it apart from the operation's other messages.
    """
    head = _text({"record": record.pk, "owner": record.owner})
    text = f'{head[:-1]},"event":{job.event}}}'
    # An attempt is accepted once: the transition that this message goes with sees to it.
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
    )


def job_message_in(payload: object, operation_id: str) -> JobMessage:
    """The accepted request in a message's payload.

    Raises:
        EnvelopeUnreadable: it is none.
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
