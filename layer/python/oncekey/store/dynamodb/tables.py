"""The tables that the layer reads and writes: their keys, their index, their TTL and their stream.

The constructs of `oncekey_cdk` make the same tables; tests compare the two.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient

    Request = Mapping[str, Any]

TTL_ATTRIBUTE = "expires_at"
_SECONDS_AT_MOST = 60

# The parameters of CreateTable, without the name.
RECORDS: Request = {
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "due_shard", "AttributeType": "S"},
        {"AttributeName": "due_at", "AttributeType": "N"},
    ],
    # Open records, by the time when somebody must look at them.
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "due",
            "KeySchema": [
                {"AttributeName": "due_shard", "KeyType": "HASH"},
                {"AttributeName": "due_at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}
OUTBOX: Request = {
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    # The relay reads it.
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
}
AUDIT: Request = {
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "at", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "at", "AttributeType": "S"},
    ],
}


def create_tables(
    client: DynamoDBClient, records: str, *, outbox: str | None = None, audit: str | None = None
) -> None:
    """Create the table of records, and the others that are named. Then all of them are active.

    A table that exists already is left as it is. `client` is boto3's, for any endpoint: moto, a
    DynamoDB on your machine, or AWS. For production, create the tables as you create all others, so
    that they have backups and alarms.

    Args:
        client: boto3's client for DynamoDB.
        records: the name of the table that ONCEKEY_TABLE names.
        outbox: the name of the table that ONCEKEY_OUTBOX_TABLE names, for messages.
        audit: the name of the table for notes of who settled what.

    Raises:
        botocore.exceptions.ClientError: DynamoDB refused a table.
        botocore.exceptions.WaiterError: a table was not active within a minute.
    """
    for name, request in ((records, RECORDS), (outbox, OUTBOX), (audit, AUDIT)):
        if name is not None:
            with contextlib.suppress(client.exceptions.ResourceInUseException):
                _create(client, name, request)


def _create(client: DynamoDBClient, name: str, request: Any) -> None:
    client.create_table(TableName=name, **request)
    waiting: Any = {"Delay": 1, "MaxAttempts": _SECONDS_AT_MOST}
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=waiting)
    if request is not OUTBOX:
        # Messages stay until they are sent.
        client.update_time_to_live(
            TableName=name,
            TimeToLiveSpecification={"AttributeName": TTL_ATTRIBUTE, "Enabled": True},
        )
