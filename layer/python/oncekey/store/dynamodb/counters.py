"""Counters of keys in DynamoDB. Each is one item of the idempotency table.

`oncekey.record.counter` has the same rules in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.record.counter import Counter

if TYPE_CHECKING:
    from oncekey.record.counter import Count
    from oncekey.store.dynamodb.codec import Item

_BUCKET = "until_"
_BELOW = "#count < :limit"
_ABSENT_OR_BELOW = f"attribute_not_exists(#count) OR {_BELOW}"


def count_update(table: str, count: Count) -> dict[str, Any]:
    """The Update of `count` in a transaction. A refusal returns the stored counter."""
    names = {"#count": "count", "#expires_at": "expires_at", "#tenant": "tenant"}
    values: Item = {
        ":limit": _number(count.limit + count.freed),
        ":change": _number(1 - count.freed),
        ":expires_at": _number(count.expires_at_s),
        ":tenant": {"S": count.tenant},
    }
    condition = _BELOW if count.taken_off else _ABSENT_OR_BELOW
    update = "SET #expires_at = :expires_at, #tenant = :tenant ADD #count :change"
    if count.runs_out_at_s is not None:
        update += ", #bucket :one"
        names["#bucket"] = f"{_BUCKET}{count.runs_out_at_s}"
        values[":one"] = _number(1)
    for number, (at_s, keys) in enumerate(count.taken_off):
        update += f"{' REMOVE' if number == 0 else ','} #off_{number}"
        condition += f" AND #off_{number} = :off_{number}"
        names[f"#off_{number}"] = f"{_BUCKET}{at_s}"
        values[f":off_{number}"] = _number(keys)
    return {
        "TableName": table,
        "Key": {"pk": {"S": count.name}},
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def counter_from_item(item: Item) -> Counter:
    """The counter in an item.

    Raises:
        StoreError: the item is not a counter.
    """
    try:
        return Counter(
            count=int(item["count"]["N"]),
            buckets={
                int(name.removeprefix(_BUCKET)): int(value["N"])
                for name, value in item.items()
                if name.startswith(_BUCKET)
            },
            expires_at_s=int(item["expires_at"]["N"]),
        )
    except (KeyError, ValueError) as error:
        raise StoreError(f"the stored counter cannot be read ({error})", transient=False) from error


def _number(value: int) -> dict[str, str]:
    return {"N": str(value)}
