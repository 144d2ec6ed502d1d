"""Messages in the outbox table: what they are, when they are written, and how they are named."""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import TransactionInvalid, idempotent, jwt_claim, single_tenant
from oncekey.record.record import Status
from oncekey.store.dynamodb.outbox import message_from_item
from tests.support.dynamodb import BUCKET, TABLE
from tests.support.events import with_tenant
from tests.support.protected import problem_of
from tests.support.recorded import (
    OUTBOX,
    WITHOUT_END,
    World,
    point,
    publish,
    put,
    transfer,
)
from tests.support.steps import FAILED, POST, Action, Steps, caught, meanwhile

if TYPE_CHECKING:
    from oncekey import Operation
    from oncekey.record.message import Message

INLINE_BYTES = 200_000
RESERVE, KEEP, COMMIT = "PutItem", "PutObject", "TransactWriteItems"


def test_a_message_is_one_item_with_these_attributes(world: World) -> None:
    """The relay and the worker need no more than the item itself to know what it is and whose."""
    service = world.service(tenant=jwt_claim("tenant_id"))
    service.handles(publish("payment.requested", {"amount": 12, "to": "Zoë"}))

    service.send(with_tenant(POST, "acme"))

    (message,) = world.messages
    assert message == {
        "id": service.given[0],
        "topic": "payment.requested",
        "payload": '{"amount":12,"to":"Zoë"}',
        "operation_id": world.record.operation_id,
        "operation": "POST /payments",
        "tenant": "acme",
        "created_at": Decimal(service.clock.now_ms()),
    }
    assert str(uuid.UUID(message["id"])) == message["id"]
    (item,) = world.client.scan(TableName=OUTBOX)["Items"]
    assert message_from_item(item).payload == message["payload"]


STORY: list[Action] = [
    publish("one"),
    publish("one"),
    point("first"),
    publish("two"),
    point("second"),
    publish("three"),
    publish("three"),
]


def order(message: Message) -> tuple[int, int]:
    """That in which the relay sends them."""
    return message.order


def test_ids_are_of_one_message_each(world: World) -> None:
    """Messages of one attempt differ from each other, within a commit and between commits, though
    they may say the same; their order is that in which they were published.
    """
    service = world.service()

    service.sends(*STORY)

    ids = [each for each in service.given if each is not None]
    assert len(ids) == len(set(ids)) == 5
    assert sorted(ids) == sorted(message["id"] for message in world.messages)
    sent = sorted(map(message_from_item, world.client.scan(TableName=OUTBOX)["Items"]), key=order)
    assert [each.id for each in sent] == ids
    assert len({each.sequence for each in sent}) == 5


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "answered 500"])
@pytest.mark.parametrize("length", range(8))
def test_ids_are_the_same_over_all_attempts(world: World, length: int, is_killed: bool) -> None:
    """Wherever the first attempt ended, what it had published has the same id in the next one, and
    every message is in the outbox once.
    """
    service = world.service()

    if is_killed:
        world.dies(service, *STORY[:length])
    else:
        service.sends(*STORY[:length], ends=FAILED)
    first = service.given[:]
    service.given.clear()
    service.sends(*STORY)

    assert service.given[:length] == first
    ids = {each for each in service.given if each is not None}
    assert {message["id"] for message in world.messages} == ids
    assert len(world.messages) == 5


def test_ids_of_the_next_life_of_a_key_are_others(world: World) -> None:
    """After the record's expiry the same key is a new operation, whose messages are no repeats;
    so are those of another key.
    """
    service = world.service(retention=timedelta(days=1))

    service.sends(*STORY)
    service.clock.advance(25 * 3600 * 1000)
    service.sends(*STORY)

    assert len(world.messages) == len({message["id"] for message in world.messages}) == 10
    assert len({message["operation_id"] for message in world.messages}) == 2


def test_a_message_that_was_not_committed_leaves_its_id_to_nobody_else(world: World) -> None:
    """What an attempt published and discarded was never sent: the message in its place may have its
    id, and only that one is in the outbox.
    """
    service = world.service()

    service.sends(publish("never"), lambda _service, op: op.discard(), publish("sent"))

    assert [message["topic"] for message in world.messages] == ["sent"]
    assert world.messages[0]["id"] == service.given[2]


JSON: list[tuple[Any, str]] = [
    (None, "null"),
    (0, "0"),
    (False, "false"),
    ("", '""'),
    ([], "[]"),
    ({}, "{}"),
    ([1, 2.5, {"a": [None, "ü\U0001f600"]}], '[1,2.5,{"a":[null,"ü\U0001f600"]}]'),
    ('with "quotes" and \x00', '"with \\"quotes\\" and \\u0000"'),
]


@pytest.mark.parametrize(("payload", "text"), JSON, ids=[text[:12] for _, text in JSON])
def test_every_json_value_is_a_payload(world: World, payload: Any, text: str) -> None:
    """It is written as it is, the empty ones too."""
    world.service().sends(publish("topic", payload))

    assert world.messages[0]["payload"] == text


NO_JSON: dict[str, Any] = {
    "a decimal": Decimal("1.5"),
    "a time": datetime(2026, 1, 1, tzinfo=UTC),
    "bytes": b"raw",
    "a set": {1},
    "not a number": float("nan"),
    "infinity": [float("inf")],
    "half a character": "\ud800",
    "an object": {"a": object()},
}


@pytest.mark.parametrize("payload", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_refused_without_repeating_it(world: World, payload: Any) -> None:
    """The author is told at once, by the topic and the kind of fault; nothing is sent."""
    service = world.service()

    with pytest.raises(TransactionInvalid, match=r"message to the\.topic is no JSON") as refused:
        service.sends(transfer(), publish("the.topic", payload))

    assert "1.5" not in str(refused.value)
    assert world.take_sent() == [RESERVE, "UpdateItem"]
    assert world.is_empty_of_effects()


def test_a_payload_within_itself_is_refused(world: World) -> None:
    """A list that holds itself has no end."""
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(TransactionInvalid, match="is no JSON"):
        world.service().sends(publish("topic", endless))


def text_of(size_bytes: int) -> str:
    """A text whose JSON has so many bytes, in characters of two."""
    return "é" * ((size_bytes - 2) // 2) + "x" * (size_bytes % 2)


@pytest.mark.parametrize("size_bytes", [INLINE_BYTES - 1, INLINE_BYTES])
def test_a_payload_that_a_queue_takes_is_in_the_item(world: World, size_bytes: int) -> None:
    """Up to 200,000 bytes, counted as they are sent, the item has the payload itself."""
    world.service(has_bucket=False).sends(publish("topic", text_of(size_bytes)))

    assert len(world.messages[0]["payload"].encode()) == size_bytes


@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
@pytest.mark.parametrize("size_bytes", [INLINE_BYTES + 1, 3_000_000])
def test_a_larger_payload_is_in_the_bucket_before_the_item_says_where(
    world: World, size_bytes: int, is_final: bool
) -> None:
    """The object is kept first, and the item points at it with a digest that matches."""
    text = text_of(size_bytes)

    world.service().sends(publish("topic", text), *([] if is_final else [point("made")]))

    assert world.take_sent()[:3] == [RESERVE, KEEP, COMMIT]
    (message,) = world.messages
    assert set(message) == {
        *("id", "topic", "payload_ref", "operation_id", "operation", "tenant", "created_at")
    }
    kept = world.bucket.get_object(Bucket=BUCKET, Key=message["payload_ref"]["name"])["Body"].read()
    assert kept.decode() == f'"{text}"'
    assert message["payload_ref"]["digest"] == hashlib.sha256(kept).hexdigest()
    assert message["payload_ref"]["place"] == "object"


def test_a_stale_owner_cannot_change_what_another_has_committed(world: World) -> None:
    """Two attempts publish other payloads under one id; the object that the committed message
    points at is still the one it was committed with, after the stale attempt has kept its own.
    """
    service = world.service()
    other = service.another_sandbox(ahead_ms=60_000)

    service.sends(
        publish("topic", "a" * INLINE_BYTES), meanwhile(other, publish("topic", "b" * INLINE_BYTES))
    )

    assert world.take_sent().count(KEEP) == 2
    (message,) = world.messages
    assert message["id"] == service.given[0] == other.given[0]
    kept = world.bucket.get_object(Bucket=BUCKET, Key=message["payload_ref"]["name"])["Body"].read()
    assert message["payload_ref"]["digest"] == hashlib.sha256(kept).hexdigest()
    assert kept[:2] == b'"b'


def test_what_is_discarded_is_kept_nowhere(world: World) -> None:
    """An attempt that ends without applying its messages puts no payload into the bucket."""
    world.service().sends(publish("topic", "a" * INLINE_BYTES), ends=FAILED)

    assert world.take_sent() == [RESERVE, "UpdateItem"]


@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_without_the_bucket_nothing_is_committed(world: World, is_final: bool) -> None:
    """A message whose payload could not be kept is not written, nor anything with it; the caller is
    told to come back, and the key is free.
    """
    service = world.service()
    world.transport.refuse(KEEP, WITHOUT_END)
    actions = [put("row"), publish("topic", "a" * INLINE_BYTES)]
    actions += [] if is_final else [point("made")]

    assert problem_of(service.sends(*actions)) == (503, "store-unavailable", True)
    assert COMMIT not in world.take_sent()
    assert world.record.status is Status.FAILED_RETRYABLE
    world.transport.refuse(KEEP, 0)
    assert service.sends(*actions)["statusCode"] == 201

    assert (len(world.rows), len(world.messages)) == (1, 1)


NOT_POSSIBLE: dict[str, tuple[dict[str, Any], Action, str]] = {
    "without a bucket": (
        {"has_bucket": False},
        publish("topic", "a" * INLINE_BYTES),
        r"message to topic has 200002 bytes, and 200000 .* ONCEKEY_RESPONSE_BUCKET",
    ),
    "without an outbox": ({"outbox": ""}, publish(), r"ONCEKEY_OUTBOX_TABLE, .* outbox=\.\.\."),
    "without a topic": ({}, publish(""), "name the topic"),
}


@pytest.mark.parametrize(("options", "action", "match"), NOT_POSSIBLE.values(), ids=NOT_POSSIBLE)
def test_what_cannot_be_published_says_what_to_set(
    world: World, options: dict[str, Any], action: Action, match: str
) -> None:
    """The author is told at the call that publishes, and nothing is sent."""
    service = world.service(**options)

    with pytest.raises(TransactionInvalid, match=match):
        service.sends(put("row"), action)

    assert world.take_sent() == [RESERVE, "UpdateItem"]
    assert world.is_empty_of_effects()


def test_the_environment_names_the_outbox_and_the_bucket(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler without a store of its own writes to the tables that the environment names."""
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", OUTBOX)
    monkeypatch.setenv("ONCEKEY_RESPONSE_BUCKET", BUCKET)

    @idempotent(operation="POST /payments", tenant=single_tenant(), effects="recorded")
    def handler(_event: Any, _context: object, op: Operation) -> dict[str, Any]:
        transfer()(Steps(), op)
        op.outbox.publish("large", "a" * INLINE_BYTES)
        return {"statusCode": 201, "body": ""}

    assert handler(POST, None)["statusCode"] == 201
    assert {message["topic"] for message in world.messages} == {"large", "payment.requested"}
    assert world.balance == 5


def nested(depth: int) -> list[Any]:
    """Lists in lists, so deep."""
    payload: list[Any] = []
    for _ in range(depth - 1):
        payload = [payload]
    return payload


# The deepest is more than Python's own writer of JSON can do.
@pytest.mark.parametrize("depth", [128, 129, 100_000])
def test_a_payload_is_nested_128_deep_at_most(world: World, depth: int) -> None:
    """A worker may not be able to read a deeper one; its author is told so at once."""
    service = world.service()

    if depth > 128:
        with pytest.raises(TransactionInvalid, match="message to topic is nested deeper than 128"):
            service.sends(publish("topic", nested(depth)))
    else:
        service.sends(publish("topic", nested(depth)))

    assert len(world.messages) == (depth <= 128)


def test_a_topic_has_at_most_256_characters(world: World) -> None:
    """A longer one is refused at the call that publishes."""
    service = world.service()
    too_long = caught(publish("t" * 257), TransactionInvalid)

    service.sends(publish("t" * 256), too_long)

    assert "in 1 to 256 characters" in str(service.given[1])
    assert [message["topic"] for message in world.messages] == ["t" * 256]
