"""Creates the layer's tables, for tests and for an endpoint of one's own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.schema import AUDIT, IDEMPOTENCY, OUTBOX

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.store.dynamodb.schema import TableSchema

_SECONDS_AT_MOST = 60


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
    for name, schema in ((records, IDEMPOTENCY), (outbox, OUTBOX), (audit, AUDIT)):
        if name is not None:
            with contextlib.suppress(client.exceptions.ResourceInUseException):
                _create(client, name, schema)


def _create(client: DynamoDBClient, name: str, schema: TableSchema) -> None:
    client.create_table(**schema.create_request(name))
    waiting: Any = {"Delay": 1, "MaxAttempts": _SECONDS_AT_MOST}
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig=waiting)
    expiry = schema.ttl_request(name)
    if expiry is not None:
        client.update_time_to_live(**expiry)
