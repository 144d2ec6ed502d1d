"""The `due` index in DynamoDB's language, and the item that stores its number of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.store.due_index import MOST_ON_PAGE, DuePage
from oncekey.store.dynamodb.schema import DUE_INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping

# It cannot be the key of a record, because those begin with their version.
_SHARDS_KEY = {"pk": {"S": "due#shards"}}


def due_parameters(table: str, shard: str, until_ms: int, after: Any) -> dict[str, Any]:
    """The Query for a page of due records.

    It uses the keys of the index, so that nothing is read and then filtered out.
    """
    start = {} if after is None else {"ExclusiveStartKey": after}
    return {
        "TableName": table,
        "IndexName": DUE_INDEX,
        "KeyConditionExpression": "#due_shard = :shard AND #due_at <= :until_ms",
        "ProjectionExpression": "#pk",
        "ExpressionAttributeNames": {"#due_shard": "due_shard", "#due_at": "due_at", "#pk": "pk"},
        "ExpressionAttributeValues": {":shard": {"S": shard}, ":until_ms": {"N": str(until_ms)}},
        "Limit": MOST_ON_PAGE,
        **start,
    }


def due_page(answer: Mapping[str, Any]) -> DuePage:
    """The page in the answer of a Query."""
    return DuePage(
        keys=tuple(item["pk"]["S"] for item in answer.get("Items", [])),
        after=answer.get("LastEvaluatedKey"),
        read=answer.get("ScannedCount", 0),
    )


def put_off_parameters(
    table: str, pk: str, due_by_ms: int, to_ms: int, *, counts: bool
) -> dict[str, Any]:
    """The UpdateItem that moves the item `pk` to a later due time, and counts that."""
    return {
        "TableName": table,
        "Key": {"pk": {"S": pk}},
        "UpdateExpression": "SET #due_at = :to_ms ADD #put_off :once",
        "ConditionExpression": "#due_at <= :due_by_ms",
        "ExpressionAttributeNames": {"#due_at": "due_at", "#put_off": "put_off"},
        "ExpressionAttributeValues": {
            ":to_ms": {"N": str(to_ms)},
            ":due_by_ms": {"N": str(due_by_ms)},
            ":once": {"N": "1" if counts else "0"},
        },
        # All attributes: an emulator may leave out the counter if it did not change.
        "ReturnValues": "ALL_NEW",
    }


def times_put_off(answer: Mapping[str, Any]) -> int:
    """How often the item has been put off."""
    return int(answer["Attributes"]["put_off"]["N"])


def shards_parameters(table: str) -> dict[str, Any]:
    """The GetItem for the largest number of shards ever used."""
    return {"TableName": table, "Key": _SHARDS_KEY, "ConsistentRead": True}


def shards_in(answer: Mapping[str, Any]) -> int:
    """The largest number of shards on record."""
    return int(answer.get("Item", {}).get("shards", {}).get("N", "0"))


def note_shards_parameters(table: str, shards: int) -> dict[str, Any]:
    """The UpdateItem that stores `shards`, unless a larger number is stored."""
    return {
        "TableName": table,
        "Key": _SHARDS_KEY,
        "UpdateExpression": "SET #shards = :shards",
        "ConditionExpression": "attribute_not_exists(#shards) OR #shards < :shards",
        "ExpressionAttributeNames": {"#shards": "shards"},
        "ExpressionAttributeValues": {":shards": {"N": str(shards)}},
    }
