"""The stores of the contract: the reference in memory, and DynamoDB on moto by either transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import TABLE, dynamodb_table, store_on
from tests.support.transition_rows import PK
from tests.support.wire import wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey import DynamoDBStore
    from oncekey.store.store import Store
    from tests.support.wire import Wire


@pytest.fixture(scope="module")
def client() -> Iterator[DynamoDBClient]:
    """A client of a table that each test fills by itself."""
    with dynamodb_table() as client:
        yield client


@pytest.fixture(scope="module")
def way(client: DynamoDBClient) -> Iterator[Wire]:
    """A socket that leads to the same table."""
    with wire() as made:
        yield made


@pytest.fixture(params=["memory", "sdk", "direct"])
def store(request: pytest.FixtureRequest, client: DynamoDBClient) -> Store:
    """A store of any kind, with nothing under the key of the contract's transitions."""
    if request.param == "memory":
        return MemoryStore()
    client.delete_item(TableName=TABLE, Key={"pk": {"S": PK}})
    return store_by(request.param, request, client)


@pytest.fixture
def dynamodb(client: DynamoDBClient) -> DynamoDBStore:
    """A store on DynamoDB."""
    return store_on(client)


def store_by(
    transport: str, request: pytest.FixtureRequest, client: DynamoDBClient
) -> DynamoDBStore:
    """A store on the table, by this transport."""
    if transport == "sdk":
        return store_on(client)
    way: Wire = request.getfixturevalue("way")
    return way.store()
