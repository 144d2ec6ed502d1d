"""Every call of the store, with all of its parameters, in literals written apart from the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.transaction import Collected, Transaction
from oncekey.record.commit import Commit
from oncekey.record.counter import Count
from oncekey.record.message import Message
from oncekey.record.stored_answer import Blob, Place, StoredRef
from oncekey.record.transitions import Complete, Ending, Reserve
from oncekey.store.dynamodb.codec import record_from_item
from tests.support.dynamodb import TABLE

if TYPE_CHECKING:
    from tests.support.call_world import CallWorld

# An operation of AWS's, and its parameters.
Sent = tuple[str, dict[str, Any]]

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
PK = "v1#under-test"
TOKEN = "11111111-2222-5333-8444-555555555555"
OTHER_TOKENS = ("another-token", "a-third-token")
ITEM: dict[str, Any] = {
    "pk": {"S": PK},
    "status": {"S": "IN_PROGRESS"},
    "rev": {"N": "1"},
    "tenant": {"S": "acme"},
    "operation": {"S": "POST /payments"},
    "key": {"S": "a-key-of-sixteen"},
    "operation_id": {"S": ID},
    "fingerprint": {"S": "f1:0000"},
    "owner": {"S": "owner-1"},
    "attempt": {"N": "1"},
    "effects": {"S": "unrecorded"},
    "created_at": {"N": "1700000000000"},
    "lease_until": {"N": "1700000030000"},
    "due_shard": {"S": "3"},
    "due_at": {"N": "1700000090000"},
}
RESERVE = Reserve(record=record_from_item(ITEM), now_ms=1_700_000_000_000)
# What DynamoDB is told of a reserve, alone and in a transaction.
PUT = {
    "TableName": "idempotency-under-test",
    "Item": ITEM,
    "ConditionExpression": (
        "attribute_not_exists(#pk)"
        " OR (#status IN (:completed, :failed_retryable) AND #expires_at <= :now_s)"
    ),
    "ExpressionAttributeNames": {"#pk": "pk", "#status": "status", "#expires_at": "expires_at"},
    "ExpressionAttributeValues": {
        ":completed": {"S": "COMPLETED"},
        ":failed_retryable": {"S": "FAILED_RETRYABLE"},
        ":now_s": {"N": "1700000000"},
    },
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
COMPLETE = Complete(
    pk=PK,
    owner="owner-1",
    ending=Ending(response="{}", completed_at_ms=1_700_000_001_000, expires_at_s=1_700_086_401),
)
# The same of a completion.
UPDATE = {
    "TableName": "idempotency-under-test",
    "Key": {"pk": {"S": PK}},
    "UpdateExpression": (
        "SET #rev = #rev + :one, #status = :set_0, #response = :set_1, #response_version = :set_2,"
        " #completed_at = :set_3, #expires_at = :set_4"
        " REMOVE #lease_until, #due_shard, #due_at, #last_error, #request, #request_digest"
    ),
    "ConditionExpression": (
        "#status IN (:in_progress, :unknown) AND #owner = :owner"
        " AND attribute_not_exists(#steps.#started)"
    ),
}
OF_ITEM = StoredRef(place=Place.ITEM, name=f"{PK}#owner-1", digest="d")
OF_OBJECT = StoredRef(place=Place.OBJECT, name=f"answers/{PK}#owner-1", digest="d")
MESSAGE = Message(
    id="message-1",
    topic="payment.requested",
    payload='{"n":1}',
    operation_id=ID,
    operation="POST /payments",
    tenant="acme",
    created_at_ms=1_700_000_000_500,
    sequence=2,
)
QUERY = {
    "TableName": "idempotency-under-test",
    "IndexName": "due",
    "KeyConditionExpression": "#due_shard = :shard AND #due_at <= :until_ms",
    "ProjectionExpression": "#pk",
    "ExpressionAttributeNames": {"#due_shard": "due_shard", "#due_at": "due_at", "#pk": "pk"},
    "ExpressionAttributeValues": {":shard": {"S": "3"}, ":until_ms": {"N": "1700000000000"}},
    "Limit": 100,
}


def got(pk: str) -> Sent:
    """A read of one item, as of now."""
    parameters = {"TableName": "idempotency-under-test", "Key": {"pk": {"S": pk}}}
    return "GetItem", parameters | {"ConsistentRead": True}


def put_off(once: str) -> Sent:
    """What is under a key is moved on in the index."""
    return "UpdateItem", {
        "TableName": "idempotency-under-test",
        "Key": {"pk": {"S": PK}},
        "UpdateExpression": "SET #due_at = :to_ms ADD #put_off :once",
        "ConditionExpression": "#due_at <= :due_by_ms",
        "ExpressionAttributeNames": {"#due_at": "due_at", "#put_off": "put_off"},
        "ExpressionAttributeValues": {
            ":to_ms": {"N": "9"},
            ":due_by_ms": {"N": "5"},
            ":once": {"N": once},
        },
        "ReturnValues": "ALL_NEW",
    }


def whole_commit(world: CallWorld) -> Commit:
    """A completion with one of everything that a transaction can hold."""
    world.client.put_item(TableName=TABLE, Item=ITEM)
    collected = Collected()
    transaction = Transaction(collected, lambda _: None)
    transaction.put("ledger-under-test", {"id": "a"}, condition="attribute_not_exists(id)")
    transaction.update(
        "ledger-under-test",
        {"id": "b"},
        "ADD #n :n",
        names={"#n": "n"},
        values={":n": 1},
    )
    transaction.delete("ledger-under-test", {"id": "c"})
    transaction.check(
        "ledger-under-test", {"id": "d"}, "#n < :n", names={"#n": "n"}, values={":n": 1}
    )
    world.client.put_item(TableName="ledger-under-test", Item={"id": {"S": "d"}, "n": {"N": "0"}})
    world.sent.calls.clear()
    return Commit(
        transition=COMPLETE,
        token=TOKEN,
        writes=tuple(collected.writes),
        messages=(MESSAGE,),
        companion=Blob(at=OF_ITEM, data=b"packed", expires_at_s=1_700_086_401),
        expiring=((StoredRef(place=Place.ITEM, name=f"{PK}#a-result", digest="d"), 1_700_090_001),),
        counts=(
            Count(
                name="q1#counter",
                tenant="acme",
                limit=10,
                expires_at_s=1_700_099_000,
                runs_out_at_s=1_700_095_000,
            ),
        ),
    )


OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
LEDGER_KEY = {"TableName": "ledger-under-test"}
# After the record's own action: the author's in their order, messages, answer, results, counts.
ACTIONS: list[dict[str, Any]] = [
    {
        "Put": {
            **LEDGER_KEY,
            "Item": {"id": {"S": "a"}},
            "ConditionExpression": "attribute_not_exists(id)",
            **OLD,
        }
    },
    {
        "Update": {
            **LEDGER_KEY,
            "Key": {"id": {"S": "b"}},
            "UpdateExpression": "ADD #n :n",
            "ExpressionAttributeNames": {"#n": "n"},
            "ExpressionAttributeValues": {":n": {"N": "1"}},
            **OLD,
        }
    },
    {"Delete": {**LEDGER_KEY, "Key": {"id": {"S": "c"}}, **OLD}},
    {
        "ConditionCheck": {
            **LEDGER_KEY,
            "Key": {"id": {"S": "d"}},
            "ConditionExpression": "#n < :n",
            "ExpressionAttributeNames": {"#n": "n"},
            "ExpressionAttributeValues": {":n": {"N": "1"}},
            **OLD,
        }
    },
    {
        "Put": {
            "TableName": "outbox-under-test",
            "Item": {
                "id": {"S": "message-1"},
                "topic": {"S": "payment.requested"},
                "operation_id": {"S": ID},
                "operation": {"S": "POST /payments"},
                "tenant": {"S": "acme"},
                "created_at": {"N": "1700000000500"},
                "sequence": {"N": "2"},
                "payload": {"S": '{"n":1}'},
            },
            "ConditionExpression": "attribute_not_exists(#id)",
            "ExpressionAttributeNames": {"#id": "id"},
        }
    },
    {
        "Put": {
            "TableName": "idempotency-under-test",
            "Item": {
                "pk": {"S": f"{PK}#owner-1"},
                "data": {"B": b"packed"},
                "expires_at": {"N": "1700086401"},
            },
        }
    },
    {
        "Update": {
            "TableName": "idempotency-under-test",
            "Key": {"pk": {"S": f"{PK}#a-result"}},
            "UpdateExpression": "SET #expires_at = :expires_at",
            "ExpressionAttributeNames": {"#expires_at": "expires_at"},
            "ExpressionAttributeValues": {":expires_at": {"N": "1700090001"}},
        }
    },
    {
        "Update": {
            "TableName": "idempotency-under-test",
            "Key": {"pk": {"S": "q1#counter"}},
            "UpdateExpression": (
                "SET #expires_at = :expires_at, #tenant = :tenant ADD #count :change, #bucket :one"
            ),
            "ConditionExpression": "attribute_not_exists(#count) OR #count < :limit",
            "ExpressionAttributeNames": {
                "#count": "count",
                "#expires_at": "expires_at",
                "#tenant": "tenant",
                "#bucket": "until_1700095000",
            },
            "ExpressionAttributeValues": {
                ":limit": {"N": "10"},
                ":change": {"N": "1"},
                ":expires_at": {"N": "1700099000"},
                ":tenant": {"S": "acme"},
                ":one": {"N": "1"},
            },
            **OLD,
        }
    },
]
# A count that takes off what has run out: it is refused where that is not as it was seen.
FREEING = Count(
    name="q1#counter", tenant="acme", limit=10, expires_at_s=9, taken_off=((5, 2), (6, 1))
)
FREED = {
    "Update": {
        "TableName": "idempotency-under-test",
        "Key": {"pk": {"S": "q1#counter"}},
        "UpdateExpression": (
            "SET #expires_at = :expires_at, #tenant = :tenant ADD #count :change"
            " REMOVE #off_0, #off_1"
        ),
        "ConditionExpression": "#count < :limit AND #off_0 = :off_0 AND #off_1 = :off_1",
        "ExpressionAttributeNames": {
            "#count": "count",
            "#expires_at": "expires_at",
            "#tenant": "tenant",
            "#off_0": "until_5",
            "#off_1": "until_6",
        },
        "ExpressionAttributeValues": {
            ":limit": {"N": "13"},
            ":change": {"N": "-2"},
            ":expires_at": {"N": "9"},
            ":tenant": {"S": "acme"},
            ":off_0": {"N": "2"},
            ":off_1": {"N": "1"},
        },
        **OLD,
    }
}


def shards_noted(world: CallWorld) -> list[Sent]:
    """The shards are written when they have become more, and read every time."""
    world.store.most_due_shards(16)
    world.store.most_due_shards(16)
    noted = {
        "TableName": "idempotency-under-test",
        "Key": {"pk": {"S": "due#shards"}},
        "UpdateExpression": "SET #shards = :shards",
        "ConditionExpression": "attribute_not_exists(#shards) OR #shards < :shards",
        "ExpressionAttributeNames": {"#shards": "shards"},
        "ExpressionAttributeValues": {":shards": {"N": "16"}},
    }
    return [got("due#shards"), ("UpdateItem", noted), got("due#shards")]


def written(world: CallWorld) -> list[Sent]:
    """A record is reserved and completed."""
    world.store.write(RESERVE)
    world.store.write(COMPLETE)
    return [("PutItem", PUT), ("UpdateItem", COMPLETED)]


NAMES_OF_COMPLETION = (
    *("rev", "status", "response", "response_version", "completed_at", "expires_at"),
    *("lease_until", "due_shard", "due_at", "last_error", "request", "request_digest"),
    *("owner", "steps", "started"),
)
COMPLETED: dict[str, Any] = UPDATE | {
    "ExpressionAttributeNames": {f"#{name}": name for name in NAMES_OF_COMPLETION},
    "ExpressionAttributeValues": {
        ":one": {"N": "1"},
        ":in_progress": {"S": "IN_PROGRESS"},
        ":unknown": {"S": "UNKNOWN"},
        ":owner": {"S": "owner-1"},
        ":set_0": {"S": "COMPLETED"},
        ":set_1": {"S": "{}"},
        ":set_2": {"N": "1"},
        ":set_3": {"N": "1700000001000"},
        ":set_4": {"N": "1700086401"},
    },
    **OLD,
}


def committed(world: CallWorld) -> list[Sent]:
    """A reserve with a count, a completion with one of everything, writes without a record."""
    world.store.commit(whole_commit(world))
    counted = Commit(transition=RESERVE, token=OTHER_TOKENS[0], counts=(FREEING,))
    world.store.commit(counted)
    bare = Commit(transition=None, token=OTHER_TOKENS[1], messages=(MESSAGE,))
    world.store.commit(bare)
    return [
        (
            "TransactWriteItems",
            {"TransactItems": actions, "ClientRequestToken": its_token},
        )
        for its_token, actions in (
            (TOKEN, [{"Update": COMPLETED}, *ACTIONS]),
            (OTHER_TOKENS[0], [{"Put": PUT}, FREED]),
            (OTHER_TOKENS[1], [ACTIONS[4]]),
        )
    ]


def kept(world: CallWorld) -> list[Sent]:
    """An answer beside its record, the result of a step, and an object."""
    world.store.save(Blob(at=OF_ITEM, data=b"1", expires_at_s=1_700_086_401))
    world.store.save(Blob(at=OF_ITEM, data=b"2", expires_at_s=0))
    world.store.save(Blob(at=OF_OBJECT, data=b"3", expires_at_s=1_700_086_401))
    table = {"TableName": "idempotency-under-test"}
    key = {"pk": {"S": f"{PK}#owner-1"}}
    expiring = key | {"data": {"B": b"1"}, "expires_at": {"N": "1700086401"}}
    kept_object = {"Bucket": "responses-under-test", "Key": f"answers/{PK}#owner-1", "Body": b"3"}
    return [
        ("PutItem", table | {"Item": expiring}),
        ("PutItem", table | {"Item": key | {"data": {"B": b"2"}}}),
        ("PutObject", kept_object),
    ]


def fetched(world: CallWorld) -> list[Sent]:
    """What was kept is read, as of now."""
    world.store.fetch(OF_ITEM)
    world.store.fetch(OF_OBJECT)
    there = {"Bucket": "responses-under-test", "Key": f"answers/{PK}#owner-1"}
    return [got(f"{PK}#owner-1"), ("GetObject", there)]
