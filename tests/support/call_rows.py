"""What each method that calls AWS sends, in literals written apart from the code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from oncekey.record.pause import Pause, PauseScope
from oncekey.store import secrets_manager
from oncekey.store.sqs import Entry
from tests.support.call_world import SECRET
from tests.support.store_calls import (
    PK,
    QUERY,
    Sent,
    committed,
    fetched,
    got,
    kept,
    put_off,
    shards_noted,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.call_world import CallWorld

SCAN = {
    "TableName": "outbox-under-test",
    "ConsistentRead": True,
    "FilterExpression": (
        "(attribute_not_exists(#set_aside_at) AND NOT #created_at >= :before_ms)"
        " OR (attribute_exists(#set_aside_at) AND (attribute_not_exists(#escalated_at)"
        " OR #escalated_at < :told_before_ms))"
    ),
    "ExpressionAttributeNames": {
        "#created_at": "created_at",
        "#set_aside_at": "set_aside_at",
        "#escalated_at": "escalated_at",
    },
    "ExpressionAttributeValues": {
        ":before_ms": {"N": "1700000000000"},
        ":told_before_ms": {"N": "1699395200000"},  # a week before
    },
    "Limit": 1_000,
}


def changed(expression: str, names: dict[str, str], values: dict[str, Any] | None) -> Sent:
    """A change of a message, which is never made anew by it."""
    given = {} if values is None else {"ExpressionAttributeValues": values}
    return "UpdateItem", {
        "TableName": "outbox-under-test",
        "Key": {"id": {"S": "message-1"}},
        "UpdateExpression": expression,
        "ConditionExpression": "attribute_exists(#id)",
        "ExpressionAttributeNames": {"#id": "id", **names},
        "ReturnValues": "UPDATED_NEW",
        **given,
    }


def deleted(ids: range) -> Sent:
    """Messages that are in the queue leave the table."""
    keys: list[Any] = [{"DeleteRequest": {"Key": {"id": {"S": f"id-{n}"}}}} for n in ids]
    return "BatchWriteItem", {"RequestItems": {"outbox-under-test": keys}}


def hidden(world: CallWorld) -> list[Sent]:
    """One message is put off, then eleven."""
    one, *others = world.received(12)
    world.queue().hide(one, 7)
    world.queue().hide_all([(handle, number) for number, handle in enumerate(others)])
    url = world.urls["work"]
    entries = [
        {"Id": str(number % 10), "ReceiptHandle": handle, "VisibilityTimeout": number}
        for number, handle in enumerate(others)
    ]
    alone = {"QueueUrl": url, "ReceiptHandle": one, "VisibilityTimeout": 7}
    return [
        ("ChangeMessageVisibility", alone),
        ("ChangeMessageVisibilityBatch", {"QueueUrl": url, "Entries": entries[:10]}),
        ("ChangeMessageVisibilityBatch", {"QueueUrl": url, "Entries": entries[10:]}),
    ]


def asked_for_its_timeout(world: CallWorld) -> list[Sent]:
    """For how long a queue hides a message."""
    world.queue().visibility_timeout_s()
    asked = {"QueueUrl": world.urls["work"], "AttributeNames": ["VisibilityTimeout"]}
    return [("GetQueueAttributes", asked)]


def sent(world: CallWorld) -> list[Sent]:
    """Messages to a queue, and to one that keeps their order."""
    world.queue().send([Entry(id="m-1", body="{}"), Entry(id="m-2", body="[]")])
    long = "é"
    world.queue("work.fifo").send(
        [Entry(id="m-1", body="{}", group="acme"), Entry(id=long, body="[]", group="acme")]
    )
    # No id that SQS takes: the SHA-256 of its UTF-8.
    digest = "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
    return [
        (
            "SendMessageBatch",
            {
                "QueueUrl": world.urls["work"],
                "Entries": [
                    {"Id": "0", "MessageBody": "{}"},
                    {"Id": "1", "MessageBody": "[]"},
                ],
            },
        ),
        (
            "SendMessageBatch",
            {
                "QueueUrl": world.urls["work.fifo"],
                "Entries": [
                    {
                        "Id": "0",
                        "MessageBody": "{}",
                        "MessageGroupId": "acme",
                        "MessageDeduplicationId": "m-1",
                    },
                    {
                        "Id": "1",
                        "MessageBody": "[]",
                        "MessageGroupId": "acme",
                        "MessageDeduplicationId": f"sha256-{digest}",
                    },
                ],
            },
        ),
    ]


def asked_for_a_secret(world: CallWorld) -> list[Sent]:
    """A secret is read, once for a while."""
    secrets_manager.forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "client", lambda *_, **__: world.secrets)
        secrets_manager.secret_text(SECRET, 0)
        secrets_manager.secret_text(SECRET, 299_999)
    secrets_manager.forget()
    return [("GetSecretValue", {"SecretId": "secret-under-test"})]


@dataclass(frozen=True)
class Row:
    """What methods send. `calls` makes the calls, and says in literals what they are."""

    methods: tuple[str, ...]
    calls: Callable[[CallWorld], list[Sent]]

    @property
    def name(self) -> str:
        """What it is about."""
        return ", ".join(self.methods)


def doing(method: str, call: Callable[[CallWorld], object], *expected: Sent) -> Row:
    """A row of one call whose parameters are known beforehand."""

    def calls(world: CallWorld) -> list[Sent]:
        call(world)
        return list(expected)

    return Row((method,), calls)


NOW = 1_700_000_000_000
AFTER: dict[str, Any] = {"pk": {"S": PK}, "due_shard": {"S": "3"}, "due_at": {"N": "1"}}
MESSAGE_AFTER = {"id": {"S": "message-1"}}
PAUSE = Pause(scope=PauseScope.OPERATION, name="POST /r", reason="r", by="ops", since_ms=NOW)
_OF_THE_PAUSE = {
    "TableName": "idempotency-under-test",
    "Key": {"pk": {"S": "pause#all"}},
    "ExpressionAttributeNames": {"#pause": "operation#POST /r"},
    "ReturnValues": "UPDATED_OLD",
}
PAUSED = _OF_THE_PAUSE | {
    "UpdateExpression": "SET #pause = :pause",
    "ExpressionAttributeValues": {
        ":pause": {"M": {"reason": {"S": "r"}, "by": {"S": "ops"}, "since": {"N": f"{NOW}"}}}
    },
}
RESUMED = _OF_THE_PAUSE | {"UpdateExpression": "REMOVE #pause"}
ROWS = [
    Row(("DynamoDBStore.write",), written),
    Row(("DynamoDBStore.commit",), committed),
    doing("DynamoDBStore.read", lambda world: world.store.read(PK), got(PK)),
    doing("DynamoDBStore.counter", lambda world: world.store.counter("q1#c"), got("q1#c")),
    doing("DynamoDBStore.pauses", lambda world: world.store.pauses(), got("pause#all")),
    doing("DynamoDBStore.pause", lambda world: world.store.pause(PAUSE), ("UpdateItem", PAUSED)),
    doing(
        "DynamoDBStore.resume",
        lambda world: world.store.resume(PAUSE.scope, PAUSE.name),
        ("UpdateItem", RESUMED),
    ),
    Row(("DynamoDBStore.save",), kept),
    Row(("DynamoDBStore.fetch",), fetched),
    doing("DynamoDBStore.due", lambda world: world.store.due("3", NOW), ("Query", QUERY)),
    doing(
        "DynamoDBStore.due",
        lambda world: world.store.due("3", NOW, after=AFTER),
        ("Query", QUERY | {"ExclusiveStartKey": AFTER}),
    ),
    doing(
        "DynamoDBStore.put_off",
        lambda world: world.store.put_off(PK, due_by_ms=5, to_ms=9),
        put_off("1"),
    ),
    doing(
        "DynamoDBStore.put_off",
        lambda world: world.store.put_off(PK, due_by_ms=5, to_ms=9, counts=False),
        put_off("0"),
    ),
    Row(("DynamoDBStore.most_due_shards",), shards_noted),
    doing("OutboxTable.waiting", lambda world: world.outbox.waiting(NOW), ("Scan", SCAN)),
    doing(
        "OutboxTable.waiting",
        lambda world: world.outbox.waiting(NOW, MESSAGE_AFTER),
        ("Scan", SCAN | {"ExclusiveStartKey": MESSAGE_AFTER}),
    ),
    doing(
        "OutboxTable.count_try",
        lambda world: world.outbox.count_try("message-1"),
        changed("ADD #tries :one", {"#tries": "tries"}, {":one": {"N": "1"}}),
    ),
    doing(
        "OutboxTable.set_aside",
        lambda world: world.outbox.set_aside("message-1", "MessageTooLong", NOW),
        changed(
            "SET #set_aside_at = if_not_exists(#set_aside_at, :now), #reason = :reason",
            {"#set_aside_at": "set_aside_at", "#reason": "reason"},
            {":now": {"N": "1700000000000"}, ":reason": {"S": "MessageTooLong"}},
        ),
    ),
    doing(
        "OutboxTable.mark_told",
        lambda world: world.outbox.mark_told("message-1", NOW),
        changed(
            "SET #escalated_at = :now",
            {"#escalated_at": "escalated_at"},
            {":now": {"N": "1700000000000"}},
        ),
    ),
    doing(
        "OutboxTable.requeue",
        lambda world: world.outbox.requeue("message-1"),
        changed(
            "REMOVE #set_aside_at, #reason, #escalated_at, #tries",
            {
                "#set_aside_at": "set_aside_at",
                "#reason": "reason",
                "#escalated_at": "escalated_at",
                "#tries": "tries",
            },
            None,
        ),
    ),
    doing(
        "OutboxTable.delete",
        lambda world: world.outbox.delete([f"id-{n}" for n in range(27)]),
        deleted(range(25)),
        deleted(range(25, 27)),
    ),
    Row(("SqsQueue.send",), sent),
    Row(("SqsQueue.hide", "SqsQueue.hide_all"), hidden),
    Row(("SqsQueue.visibility_timeout_s",), asked_for_its_timeout),
    doing(
        "ResponseBucket.put",
        lambda world: world.bucket.put("answers/a", b"1"),
        ("PutObject", {"Bucket": "responses-under-test", "Key": "answers/a", "Body": b"1"}),
    ),
    doing(
        "ResponseBucket.get",
        lambda world: world.bucket.get("answers/a"),
        ("GetObject", {"Bucket": "responses-under-test", "Key": "answers/a"}),
    ),
    Row(("secret_text",), asked_for_a_secret),
]
