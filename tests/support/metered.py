"""What requests cost in DynamoDB's units, from the items before and after each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3

from tests.benchmarks import units
from tests.benchmarks.units import Units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient


class Meter:
    """The units that the requests of `client` cost, since this was last asked.

    `keys` is the partition key of each table.
    """

    def __init__(self, client: DynamoDBClient, keys: Mapping[str, str]) -> None:
        self._keys = keys
        self._total = Units()
        self._requests: list[tuple[str, list[tuple[str, Any, Any]]]] = []
        # It looks at items by a client of its own, which nobody meters.
        self._look = boto3.client("dynamodb", region_name=client.meta.region_name)
        events: Any = client.meta.events
        events.register("provide-client-params.dynamodb.*", self._before)
        events.register("after-call.dynamodb.*", self._after)

    def take(self) -> Units:
        """What was spent."""
        total, self._total = self._total, Units()
        return total

    def _before(self, params: dict[str, Any], model: Any, **_: object) -> None:
        if model.name == "Scan":
            return
        each_one = [params]
        if model.name == "TransactWriteItems":
            each_one = [next(iter(action.values())) for action in params["TransactItems"]]
        touched: list[tuple[str, Any, Any]] = []
        for each in each_one:
            table, name = each["TableName"], self._keys[each["TableName"]]
            key = {name: (each.get("Key") or each["Item"])[name]}
            touched.append((table, key, self._item(table, key)))
        self._requests.append((model.name, touched))

    def _after(self, model: Any, **_: object) -> None:
        if model.name == "Scan":
            return
        operation, touched = self._requests.pop()
        times = 2 if operation == "TransactWriteItems" else 1
        for table, key, before in touched:
            if operation == "GetItem":
                self._total += units.read(before)
            else:
                after = self._item(table, key)
                self._total += units.written(before, after, times=times)

    def _item(self, table: str, key: Any) -> Any:
        return self._look.get_item(TableName=table, Key=key).get("Item")
