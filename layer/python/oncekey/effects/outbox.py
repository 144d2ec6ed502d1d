"""`op.outbox` collects messages, which are written together with the operation's completion."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.encoding.canonical import MAX_DEPTH
from oncekey.errors import TransactionInvalid
from oncekey.record.message import Message
from oncekey.record.message_text import is_too_deep, queue_text
from oncekey.record.stored_answer import Place, StoredRef

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.effects.transaction import Collected

# Every SQS queue accepts messages of 256 KiB. The rest is left for the other attributes.
LARGEST_INLINE_PAYLOAD_BYTES = 200_000
LONGEST_TOPIC = 256
# Workers trust messages of these topics, so an author's message must not look like a job's.
_OUR_TOPICS = "oncekey."
# A DynamoDB transaction has at most 100 items.
_MOST_IN_A_COMMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The operation that the messages belong to, and the span that it belongs to.

    `position` is the number of earlier commits.
    """

    operation_id: str
    operation: str
    tenant: str
    owner: str
    now_ms: Callable[[], int]
    position: Callable[[], int]
    has_outbox: Callable[[], bool]
    has_bucket: Callable[[], bool]
    traceparent: str = ""


class Outbox:
    """Messages of one operation.

    Publishing a message does not send it. The transaction that completes the operation, or
    `op.commit`, writes it to the outbox table. A relay then sends it to the queue at least once.
    Its id identifies repeats.
    """

    def __init__(self, collected: Collected, check: Callable[[str], None], source: Source) -> None:
        self._collected = collected
        self._check = check
        self._source = source

    def publish(self, topic: str, payload: object) -> str:
        """Collect a message about `topic` with a JSON `payload`, and return its id.

        The id is derived from the operation and the message's place in it. It is unique, and the
        same in every attempt.

        Raises:
            TransactionInvalid: the payload is not JSON, is nested deeper than 128, has a lone
                surrogate, or is too large without a bucket; the topic is not a topic, or begins
                with `oncekey.`; or there is no outbox table.
        """
        self._check("op.outbox.publish")
        source = self._source
        if not source.has_outbox():
            raise TransactionInvalid(
                "op.outbox.publish: there is no outbox; name its table in ONCEKEY_OUTBOX_TABLE, or"
                " pass store=DynamoDBStore(table, outbox=...)"
            )
        _check_topic(topic)
        text = _json(topic, payload)
        position, number = source.position(), len(self._collected.messages)
        message_id = str(uuid.uuid5(uuid.UUID(source.operation_id), f"message {position}.{number}"))
        message = Message(
            id=message_id,
            topic=topic,
            payload=text,
            operation_id=source.operation_id,
            operation=source.operation,
            tenant=source.tenant,
            created_at_ms=source.now_ms(),
            payload_ref=self._payload_ref(message_id, topic, text),
            sequence=_MOST_IN_A_COMMIT * position + number,
            traceparent=source.traceparent,
        )
        self._collected.check(message, message.size_bytes)
        self._collected.messages.append(message)
        return message_id

    def _payload_ref(self, message_id: str, topic: str, text: str) -> StoredRef | None:
        payload_ref = kept_apart(message_id, self._source.owner, text)
        if payload_ref is not None and not self._source.has_bucket():
            size_bytes = len(text.encode("utf-8"))
            raise TransactionInvalid(
                f"the message to {topic} has {size_bytes} bytes, and {LARGEST_INLINE_PAYLOAD_BYTES}"
                " can be sent without a bucket; name one in ONCEKEY_RESPONSE_BUCKET"
            )
        return payload_ref


def kept_apart(message_id: str, owner: str, payload: str) -> StoredRef | None:
    """The place in the bucket for a large `payload`; None if the message itself can hold it."""
    data = payload.encode("utf-8")
    if len(data) <= LARGEST_INLINE_PAYLOAD_BYTES:
        return None
    # The name contains the owner, so that a stale attempt cannot overwrite a committed payload.
    name = f"outbox/{message_id}/{owner}"
    return StoredRef(place=Place.OBJECT, name=name, digest=hashlib.sha256(data).hexdigest())


def _check_topic(topic: str) -> None:
    try:
        is_topic = 0 < len(topic) <= LONGEST_TOPIC and bool(topic.encode("utf-8"))
    except (TypeError, AttributeError, UnicodeEncodeError):
        is_topic = False
    if not is_topic:
        raise TransactionInvalid(
            "op.outbox.publish: name the topic, such as 'payment.requested', in 1 to"
            f" {LONGEST_TOPIC} characters"
        )
    if topic.startswith(_OUR_TOPICS):
        raise TransactionInvalid(
            f"op.outbox.publish: topics that begin with {_OUR_TOPICS!r} are those of the layer's"
            " own messages, which workers take for its word; give the topic another name"
        )


def _json(topic: str, payload: object) -> str:
    """`payload` as JSON text that every queue accepts and every worker can read."""
    try:
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TransactionInvalid(
            f"the payload of the message to {topic} is no JSON text: it has a lone surrogate, which"
            " no queue takes; publish whole characters"
        ) from error
    except RecursionError as error:
        raise _too_deep(topic) from error
    except Exception as error:
        # The author's objects may raise anything.
        raise TransactionInvalid(
            f"the payload of the message to {topic} is no JSON ({type(error).__name__}): publish"
            " text, numbers, lists and dictionaries"
        ) from error
    if is_too_deep(text):
        raise _too_deep(topic)
    return queue_text(text)


def _too_deep(topic: str) -> TransactionInvalid:
    return TransactionInvalid(
        f"the payload of the message to {topic} is nested deeper than {MAX_DEPTH}, which its worker"
        " may not be able to read: publish a flatter one"
    )
