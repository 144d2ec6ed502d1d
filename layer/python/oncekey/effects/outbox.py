"""`op.outbox`: collects messages, which are written with the operation's completion."""

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

# SQS takes messages of 256 KiB everywhere, and more since 2025; the rest is for attributes.
LARGEST_INLINE_PAYLOAD_BYTES = 200_000
LONGEST_TOPIC = 256
# Workers believe these: an author's message must not pass for an accepted request.
_OUR_TOPICS = "oncekey."
# DynamoDB's transactions have 100 items at the most.
_MOST_IN_A_COMMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Whose messages they are. `position` counts the commits that went before."""

    operation_id: str
    operation: str
    tenant: str
    owner: str
    now_ms: Callable[[], int]
    position: Callable[[], int]
    has_outbox: Callable[[], bool]
    has_bucket: Callable[[], bool]


class Outbox:
    """Messages of one operation.

    Nothing is sent when one is published. It is written to the outbox table by the transaction that
    completes the operation, or by `op.commit`; from there a relay sends it to the queue, at least
    once, under an id that tells repeats apart.
    """

    def __init__(self, collected: Collected, check: Callable[[str], None], source: Source) -> None:
        self._collected = collected
        self._check = check
        self._source = source

    def publish(self, topic: str, payload: object) -> str:
        """Collect a message about `topic` with a JSON `payload`; its id.

        The id derives from the operation and the message's place in it: the same over every
        attempt, and of one message only.

        Raises:
            TransactionInvalid: the payload is no JSON, is nested deeper than 128, has text that is
                none (a lone surrogate), or is too large without a bucket; the topic is none, or is
                one of the layer's own (`oncekey.`); or there is no outbox table.
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
    """Where in the bucket a large `payload` is to be kept; None for one that its message holds."""
    data = payload.encode("utf-8")
    if len(data) <= LARGEST_INLINE_PAYLOAD_BYTES:
        return None
    # Under the owner's name, so that a stale one cannot change what another has committed.
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
    """`payload` as every queue takes it, and every worker can read it."""
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
        # Whatever the author's objects raise.
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
