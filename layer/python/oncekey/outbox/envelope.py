"""The JSON text of a message in the queue, as a relay writes it and a worker reads it."""

from __future__ import annotations

import json
from typing import Any

from oncekey.errors import EnvelopeUnreadable
from oncekey.record.message import Message
from oncekey.record.message_text import queue_text
from oncekey.record.stored_answer import Place, StoredRef

# The payload comes last, as the text that was published.
_MEMBERS = ("id", "topic", "operation_id", "operation", "tenant", "created_at_ms")


def sealed(message: Message) -> str:
    """`message` as the body of an SQS message, in characters that SQS accepts.

    Raises:
        UnicodeEncodeError: it has a lone surrogate, which cannot be escaped.
    """
    head = {name: getattr(message, name) for name in _MEMBERS}
    if message.traceparent:
        head["traceparent"] = message.traceparent
    if message.payload_ref is not None:
        payload_ref = {"name": message.payload_ref.name, "digest": message.payload_ref.digest}
        body = _dumps({**head, "payload_ref": payload_ref})
    else:
        body = f'{_dumps(head)[:-1]},"payload":{message.payload}}}'
    body.encode("utf-8")
    return queue_text(body)


def unsealed(body: str) -> Message:
    """The message in the body of an SQS message. Its `payload_ref` says where a large payload is.

    Raises:
        EnvelopeUnreadable: the body is not a message of an outbox.
    """
    try:
        said: dict[str, Any] = json.loads(body)
        fields = {name: _typed(said[name], str) for name in _MEMBERS[:-1]}
        fields["created_at_ms"] = _typed(said["created_at_ms"], int)
        fields["traceparent"] = _typed(said.get("traceparent", ""), str)
        if "payload_ref" in said:
            at = {name: _typed(said["payload_ref"][name], str) for name in ("name", "digest")}
            payload_ref = StoredRef(place=Place.OBJECT, **at)
            return Message(**fields, payload="", payload_ref=payload_ref)
        return Message(**fields, payload=_dumps(said["payload"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EnvelopeUnreadable(
            f"the message is none of an outbox's ({type(error).__name__})"
        ) from None


def _typed(value: object, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError
    return value


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
