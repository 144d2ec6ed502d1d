"""The client tokens of transactions, as DynamoDB compares and honours them."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.aws_engine import mocked_aws

TABLE = "rows"


def put(client: Any, row_id: str, *, token: str, condition: str | None = None) -> None:
    """Put one row in a transaction under a client token."""
    one: dict[str, Any] = {"TableName": TABLE, "Item": {"id": {"S": row_id}}}
    if condition is not None:
        one["ConditionExpression"] = condition
    client.transact_write_items(TransactItems=[{"Put": one}], ClientRequestToken=token)


def table() -> Any:
    """A client of an empty table."""
    client = boto3.client("dynamodb")
    client.create_table(
        TableName=TABLE,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return client


@pytest.mark.parametrize("honours_tokens", [False, True])
def test_one_token_for_two_transactions_is_refused(*, honours_tokens: bool) -> None:
    """Another transaction under a token that was used is refused, and nothing is applied."""
    with mocked_aws(honours_tokens=honours_tokens):
        client = table()
        put(client, "a", token="one")

        with pytest.raises(ClientError, match="IdempotentParameterMismatchException"):
            put(client, "b", token="one")
        assert client.scan(TableName=TABLE)["Items"] == [{"id": {"S": "a"}}]


def test_one_token_for_another_transaction_is_refused_after_a_cancellation() -> None:
    """A token belongs to the transaction that was asked for under it, applied or not."""
    with mocked_aws():
        client = table()
        with pytest.raises(ClientError, match="TransactionCanceledException"):
            put(client, "a", token="one", condition="attribute_exists(id)")

        with pytest.raises(ClientError, match="IdempotentParameterMismatchException"):
            put(client, "a", token="one")


@pytest.mark.parametrize("honours_tokens", [False, True])
def test_a_repeated_transaction_is_answered_again_where_tokens_are_honoured(
    *, honours_tokens: bool
) -> None:
    """The same transaction under the same token succeeds once more without being applied."""
    with mocked_aws(honours_tokens=honours_tokens):
        client = table()
        put(client, "a", token="one", condition="attribute_not_exists(id)")

        if honours_tokens:
            put(client, "a", token="one", condition="attribute_not_exists(id)")
            return
        with pytest.raises(ClientError, match="ConditionalCheckFailed"):
            put(client, "a", token="one", condition="attribute_not_exists(id)")


@pytest.mark.parametrize("token", ["", "x" * 37])
def test_a_token_of_a_wrong_length_is_refused(token: str) -> None:
    """A token has 1 to 36 characters."""
    with mocked_aws():
        table()
        client = boto3.client("dynamodb", config=Config(parameter_validation=False))
        with pytest.raises(ClientError, match="ClientRequestToken has 1 to 36 characters"):
            put(client, "a", token=token)
