"""A great many settled records in a table on moto, and what is read of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class _Key(DynamoType):
    """A key that compares fast: each of moto's queries sorts all items."""

    def __init__(self, text: str) -> None:
        super().__init__({"S": text})
        self.text = text

    def __lt__(self, other: Any) -> bool:
        """As its text does."""
        return self.text < (other.text if type(other) is _Key else other.value)

    def __hash__(self) -> int:
        """The same as ever."""
        return super().__hash__()


def multiply(table: str, pk: str, number: int, *, key: str = "pk") -> list[str]:
    """Copy the item under `pk` so many times, each under a `key` of its own; these keys.

    Into moto's own dictionary, and in the order of the keys: anything else takes minutes.
    """
    items: dict[DynamoType, Any] = (
        dynamodb_backends[DEFAULT_ACCOUNT_ID]["eu-central-1"].tables[table].items
    )
    whole = items[DynamoType({"S": pk})]
    attributes = whole.attrs
    keys = [f"{pk}-{each:06d}" for each in range(number)]
    for text in keys:
        item = copy.copy(whole)
        item.hash_key = _Key(text)
        # The copy of a mapping that counts its size at every change, once made.
        item.attrs = type(attributes)(attributes)
        dict.__setitem__(item.attrs, key, item.hash_key)
        items[item.hash_key] = item
    return keys


class Reads:
    """What a client has read: the scanned count of every Query and Scan, and how many items."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.scanned = 0
        self.queries = 0
        self.items = 0
        events = client.meta.events
        for operation in ("Query", "Scan"):
            events.register(f"after-call.dynamodb.{operation}", self._add)
        events.register("after-call.dynamodb.GetItem", self._add_item)

    def _add(self, parsed: dict[str, Any], **_: object) -> None:
        self.queries += 1
        self.scanned += parsed["ScannedCount"]

    def _add_item(self, **_: object) -> None:
        self.items += 1
