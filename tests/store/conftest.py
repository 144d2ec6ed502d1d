"""The stores of the contract: the reference in memory, and DynamoDB on moto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import TABLE, dynamodb_table, store_on
from tests.support.transition_rows import PK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.store.store import Store


@pytest.fixture(scope="module")
def client() -> Iterator[DynamoDBClient]:
    """A client of a table that each test fills by itself."""
    with dynamodb_table() as client:
        yield client


@pytest.fixture(params=["memory", "dynamodb"])
def store(request: pytest.FixtureRequest, client: DynamoDBClient) -> Store:
    """A store of either kind, with nothing under the key of the contract's transitions."""
    if request.param == "memory":
        return MemoryStore()
    client.delete_item(TableName=TABLE, Key={"pk": {"S": PK}})
    return store_on(client)
