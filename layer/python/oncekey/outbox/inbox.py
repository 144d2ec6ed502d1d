"""The messages that a worker receives, with their payloads."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError, EnvelopeUnreadable, StoreError
from oncekey.options import part_faults
from oncekey.outbox.envelope import unsealed
from oncekey.store import defaults, in_use
from oncekey.store.sqs import LONGEST_DELAY_S, SqsQueue
from oncekey.telemetry import outbox as relay_telemetry

if TYPE_CHECKING:
    from oncekey.record.message import Message
    from oncekey.record.stored_answer import StoredRef
    from oncekey.store.s3 import ResponseBucket


# Short, because a worker needs its time for messages and continues if the queue does not answer.
_CALL_TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One message, as it was published. `traceparent` is the span of its operation, if traced.

    Deduplicate by `id`, which is the same for every delivery of the message:
    `@idempotent_function(key=lambda message: message.id, tenant=lambda message: message.tenant)`.
    """

    id: str
    topic: str
    payload: Any
    operation_id: str
    operation: str
    tenant: str
    created_at_ms: int
    traceparent: str = ""

    def __repr__(self) -> str:
        """Without the payload."""
        return f"Delivered(id={self.id!r}, topic={self.topic!r})"


def delivered(body: str, *, bucket: ResponseBucket | None = None) -> Delivered:
    """The message in the body of an SQS message. A large payload is fetched from the bucket.

    `bucket` is by default the one that ONCEKEY_RESPONSE_BUCKET names.

    Raises:
        EnvelopeUnreadable: the body is not a message of an outbox, or its payload is gone or
            damaged.
        ConfigurationError: `bucket` is none, or the payload is in a bucket and none is named.
        StoreError: the bucket did not answer.
    """
    _check("delivered", {"bucket=": (bucket, "get", "ResponseBucket(name)")})
    message = unsealed(body)
    text = message.payload
    if message.payload_ref is not None:
        data = _payload(message.payload_ref, bucket)
        if data is None or hashlib.sha256(data).hexdigest() != message.payload_ref.digest:
            raise EnvelopeUnreadable("the payload in the bucket is gone or damaged")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            raise EnvelopeUnreadable("the payload in the bucket is no text") from None
    return with_payload(message, text)


def with_payload(message: Message, text: str) -> Delivered:
    """`message` with its payload, which is `text`.

    Raises:
        EnvelopeUnreadable: the payload is not JSON.
    """
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EnvelopeUnreadable(f"the payload is no JSON ({type(error).__name__})") from None
    return Delivered(
        id=message.id,
        topic=message.topic,
        payload=payload,
        operation_id=message.operation_id,
        operation=message.operation,
        tenant=message.tenant,
        created_at_ms=message.created_at_ms,
        traceparent=message.traceparent,
    )


def postpone(
    receipt_handle: str, *, after_s: int | None, receives: int = 1, queue: SqsQueue | None = None
) -> bool:
    """Have the queue deliver a message again in `after_s`. You must still report it as failed.

    The delay doubles with each earlier receive. Otherwise a message whose first copy still runs
    would become a dead letter before that copy's lease ends. It never raises: if the queue does not
    answer, the message is delivered again after the visibility timeout.

    Args:
        receipt_handle: the SQS record's receiptHandle.
        after_s: the `retry_after_s` of `InProgress`, `OutcomeUnknown` or `StoreUnavailable`. With
            None (waiting does not help), the queue's visibility timeout applies.
        receives: the SQS record's ApproximateReceiveCount.
        queue: by default the one that ONCEKEY_QUEUE_URL names.

    Returns:
        Whether the queue has confirmed it. With ONCEKEY_DISABLED it is not called, nor in a test
        with `use_store` and no queue.
    """
    if after_s is None or defaults.is_disabled() or has_none(queue):
        return False
    delay_s = min(max(after_s, 0) << max(receives - 1, 0), LONGEST_DELAY_S)
    try:
        own_queue(queue).hide(receipt_handle, delay_s)
    except (ConfigurationError, StoreError) as error:
        relay_telemetry.message_not_postponed(error)
        return False
    return True


def has_none(given: SqsQueue | None) -> bool:
    """Whether a test that has replaced the store has named no queue: nothing delivers again."""
    named = given or in_use.queue or os.environ.get("ONCEKEY_QUEUE_URL", "").strip()
    return in_use.store is not None and not named


def own_queue(given: SqsQueue | None = None) -> SqsQueue:
    """The queue in use: the test's, else the `given` one, else the one of ONCEKEY_QUEUE_URL.

    The last has a short timeout for workers.

    Raises:
        ConfigurationError: `given` is no queue, or the variable is not set.
    """
    replacement: SqsQueue | None = in_use.queue
    _check("oncekey.outbox", {"queue=": (given, "hide", "SqsQueue(url)")})
    if replacement is not None or given is not None:
        return replacement or given  # type: ignore[return-value]  # one of the two is a queue
    url = os.environ.get("ONCEKEY_QUEUE_URL", "").strip()
    if not url:
        fault = "ONCEKEY_QUEUE_URL is not set: name the queue whose messages are postponed"
        raise ConfigurationError("oncekey.outbox", [fault])
    return _connected_queue(url)


def _check(where: str, parts: dict[str, tuple[object, str, str]]) -> None:
    faults = part_faults(parts)
    if faults:
        raise ConfigurationError(where, faults)


@cache
def _connected_queue(url: str) -> SqsQueue:
    return SqsQueue(url, call_timeout_ms=_CALL_TIMEOUT_MS)


def _payload(at: StoredRef, bucket: ResponseBucket | None) -> bytes | None:
    if in_use.store is not None:
        return in_use.store.fetch(at)
    return (bucket or _bucket()).get(at.name)


def _bucket() -> ResponseBucket:
    name = os.environ.get("ONCEKEY_RESPONSE_BUCKET", "").strip()
    if not name:
        fault = "ONCEKEY_RESPONSE_BUCKET is not set: name the bucket that large payloads are in"
        raise ConfigurationError("oncekey.outbox", [fault])
    return defaults.bucket(name)
