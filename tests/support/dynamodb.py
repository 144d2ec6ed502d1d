"""The idempotency table of the description, on moto in this process, and what is sent to it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import boto3
from moto import mock_aws

from infra.service import IDEMPOTENCY
from oncekey import DynamoDBStore
from oncekey_local.tables import create_table_request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "idempotency-under-test"


@contextlib.contextmanager
def dynamodb_table() -> Iterator[DynamoDBClient]:
    """A client of an empty idempotency table, for one thread (moto is not atomic between threads).

    The client validates every parameter, which the library's own one leaves out to save time.
    """
    with mock_aws():
        client: DynamoDBClient = boto3.client("dynamodb", region_name="eu-central-1")
        client.create_table(**create_table_request(TABLE, IDEMPOTENCY))
        yield client


def store_on(client: DynamoDBClient) -> DynamoDBStore:
    """A store on the table, through `client`."""
    return DynamoDBStore(TABLE, client=client)


def items(client: DynamoDBClient) -> list[dict[str, Any]]:
    """Everything in the table."""
    return list(client.scan(TableName=TABLE)["Items"])


class Recorder:
    """The operations that a client sends, in order, with their parameters."""

    def __init__(self, client: DynamoDBClient) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        client.meta.events.register("provide-client-params.dynamodb.*", self._record)

    def _record(self, params: dict[str, Any], model: Any, **_: object) -> None:
        self.calls.append((model.name, params))

    @property
    def operations(self) -> list[str]:
        """Their names."""
        return [name for name, _ in self.calls]


class AnswerLost(Exception):
    """The connection broke after the request was applied."""


class LossyTransport:
    """Applies requests and then drops the answers, or refuses requests before they are applied.

    `lose` and `refuse` name how many of the next calls of an operation that befalls.
    """

    def __init__(self, client: DynamoDBClient) -> None:
        self._lose: dict[str, int] = {}
        self._refuse: dict[str, int] = {}
        client.meta.events.register("before-call.dynamodb.*", self._before)
        client.meta.events.register("after-call.dynamodb.*", self._after)

    def lose(self, operation: str, count: int = 1) -> None:
        """Apply the next `count` calls of `operation` and drop their answers."""
        self._lose[operation] = count

    def refuse(self, operation: str, count: int = 1) -> None:
        """Drop the next `count` calls of `operation` before they are applied."""
        self._refuse[operation] = count

    def _before(self, model: Any, **_: object) -> None:
        if self._take(self._refuse, model.name):
            raise ConnectionError("no route to the store")

    def _after(self, model: Any, **_: object) -> None:
        if self._take(self._lose, model.name):
            raise AnswerLost

    @staticmethod
    def _take(counts: dict[str, int], operation: str) -> bool:
        left = counts.get(operation, 0)
        counts[operation] = max(0, left - 1)
        return left > 0
