"""Mistakes that users make, registered with the text that they are told."""

from __future__ import annotations

import inspect
import itertools
from typing import TYPE_CHECKING, Any

from oncekey import idempotent, idempotent_function, single_tenant
from oncekey.testing import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mypy_boto3_dynamodb import DynamoDBClient

TENANT = single_tenant()
_numbers = itertools.count()


class Made:
    """One mistake: the function that makes it, and the fixtures that it takes."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.make = function
        self.__name__ = function.__name__.strip("_")
        self.fixtures = [*inspect.signature(function).parameters]


class Mistakes:
    """The mistakes that one table of the page of errors lists, in its order."""

    def __init__(self, heading: str) -> None:
        self.heading = heading
        self._made: list[tuple[str, Made]] = []

    def told(self, text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
        """Register a function that makes a mistake, and what its author is told."""

        def register(function: Callable[..., object]) -> Callable[..., object]:
            self._made.append((text, Made(function)))
            return function

        return register

    def __iter__(self) -> Iterator[tuple[str, Made]]:
        """The texts, and the mistakes that they tell."""
        return iter(self._made)

    @staticmethod
    def said(made: Made, given: Mapping[str, Any]) -> str:
        """The exception that the mistake ends in; empty if it raises none."""
        try:
            made.make(**given)
        except Exception as error:  # noqa: BLE001 -- whatever its author is told
            return str(error)
        return ""


def handler(event: Any, context: Any) -> dict[str, Any]:
    """A handler that does nothing."""
    return {"statusCode": 201, "body": ""}


def answered(event: Any, *, then: Any = handler, **options: Any) -> Any:
    """The answer to `event` of a handler, which is `then`, with these options."""
    # The log tells some mistakes once for each operation.
    defaults = {"operation": f"POST /mistake/{next(_numbers)}", "tenant": TENANT}
    if "store" not in options:
        defaults["store"] = MemoryStore()
    return idempotent(**{**defaults, **options})(then)(event, None)


def function(
    *, key: Any, tenant: Any = TENANT
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator of a function with this key."""
    name = f"mistake {next(_numbers)}"
    return idempotent_function(operation=name, key=key, tenant=tenant, store=MemoryStore())


def table_without_index(client: DynamoDBClient, *, key: str) -> None:
    """Make the table `another`, with this key and no index."""
    client.create_table(
        TableName="another",
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
