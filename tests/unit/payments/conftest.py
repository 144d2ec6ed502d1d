"""The payments function on a real local provider and a mocked table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from moto import mock_aws

from functions.payments import logic
from tests.support.provider import API_KEY, Provider, running_provider

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "payments-of-the-tests"
IDEMPOTENCY_TABLE = "idempotency-of-the-tests"


@pytest.fixture(scope="session")
def provider_process() -> Iterator[Provider]:
    """The process."""
    with running_provider() as provider:
        yield provider


@pytest.fixture
def provider(provider_process: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The process, empty, and the function told of it."""
    provider_process.reset()
    monkeypatch.setenv("PROVIDER_URL", provider_process.url)
    monkeypatch.setenv("PROVIDER_API_KEY", API_KEY)
    logic._provider.cache_clear()
    yield provider_process
    logic._provider.cache_clear()


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[DynamoDBClient]:
    """The payments table and the idempotency table, empty, and the function told of them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    # Otherwise boto3 puts the account into the host name, which moto does not know.
    monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("PAYMENTS_TABLE", TABLE)
    monkeypatch.setenv("ONCEKEY_TABLE", IDEMPOTENCY_TABLE)
    monkeypatch.delenv("ONCEKEY_DISABLED", raising=False)
    with mock_aws():
        client: DynamoDBClient = boto3.client("dynamodb")
        client.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        )
        client.create_table(
            TableName=IDEMPOTENCY_TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        )
        logic._table.cache_clear()
        yield client
        logic._table.cache_clear()
