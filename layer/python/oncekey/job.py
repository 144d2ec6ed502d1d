"""What an accepted request leaves for a worker, and what the worker finds of it in the queue."""

from __future__ import annotations

import json
import uuid
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey import job_telemetry
from oncekey.envelope import EnvelopeUnreadable
from oncekey.errors import RequestRefused
from oncekey.outbox import LARGEST_INLINE_PAYLOAD_BYTES, Message, kept_apart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.record import Record

# The topic of the messages that tell workers of accepted requests.
TOPIC = "oncekey.job"

# A refused write is billed by the size of the record: sixteen units, while such a request runs.
LARGEST_KEPT_REQUEST_BYTES = 16_000

# What a message's payload has beside the event.
_HEAD_BYTES = 1_000

# What proves who the caller is must not be written down. Who it is stands in the request context,
# as the gateway's authorizer has found it.
_CREDENTIALS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "x-amz-security-token",
        # Of a load balancer that has logged its user in.
        "x-amzn-oidc-accesstoken",
        "x-amzn-oidc-data",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What an accepted request leaves behind: its event, as JSON text."""

    event: str = field(repr=False)

    @property
    def is_large(self) -> bool:
        """Whether its message needs the bucket."""
        return len(self.event) > LARGEST_INLINE_PAYLOAD_BYTES - _HEAD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An accepted request as a worker gets it.

    `pk` and `operation_id` say which record it speaks of, and `owner` under which acceptance: one
    that was accepted again has another, and another message.
    """

    pk: str
    operation_id: str
    owner: str
    event: dict[str, Any] = field(repr=False)


def event_text(event: Mapping[str, Any], *, has_bucket: bool) -> str:
    """`event` as JSON text, without what proves who its caller is.

    Raises:
        RequestRefused: it is too large to be kept without a bucket (`request-invalid`).
    """
    text = json.dumps(_without_credentials(event), separators=(",", ":"))
    if not has_bucket and len(text) > LARGEST_INLINE_PAYLOAD_BYTES - _HEAD_BYTES:
        detail = "The request is too large to be kept for later."
        raise RequestRefused("request-invalid", detail)
    return text


def kept_request(event: Mapping[str, Any], operation: str) -> str | bytes | None:
    """`event` as its record keeps it; None, and a warning, for one that takes too much of it."""
    text = event_text(event, has_bucket=True)
    packed = zlib.compress(text.encode("utf-8"))
    kept = text if len(text) <= len(packed) else packed
    # Whoever hands it back writes its message without a bucket.
    if len(kept) <= LARGEST_KEPT_REQUEST_BYTES and not Job(event=text).is_large:
        return kept
    job_telemetry.request_not_kept(operation, len(packed))
    return None


def message_of(job: Job, record: Record, now_ms: int, *, name: str = "") -> Message:
    """The message that tells a worker of the waiting `record`.

    `name` tells it apart from the operation's other messages.
    """
    head = json.dumps({"record": record.pk, "owner": record.owner}, separators=(",", ":"))
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
        claim=kept_apart(message_id, record.owner, text),
    )


def task_of(payload: object, operation_id: str) -> Task:
    """The task in a message's payload.

    Raises:
        EnvelopeUnreadable: it is none.
    """
    if isinstance(payload, dict):
        pk, owner, event = (payload.get(name) for name in ("record", "owner", "event"))
        if isinstance(pk, str) and isinstance(owner, str) and isinstance(event, dict):
            return Task(pk=pk, operation_id=operation_id, owner=owner, event=event)
    raise EnvelopeUnreadable("the message tells of no accepted request")


def _without_credentials(event: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in event.items() if name != "cookies"}
    for name in ("headers", "multiValueHeaders"):
        if isinstance(kept.get(name), dict):
            kept[name] = {
                header: value
                for header, value in kept[name].items()
                if header.lower() not in _CREDENTIALS
            }
    context = kept.get("requestContext")
    if isinstance(context, dict) and isinstance(context.get("identity"), dict):
        identity = {name: value for name, value in context["identity"].items() if name != "apiKey"}
        kept["requestContext"] = {**context, "identity": identity}
    return kept
