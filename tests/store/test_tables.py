"""`create_tables` makes the tables that the layer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import WaiterError

from infra.service_resources import IDEMPOTENCY, OUTBOX
from oncekey.store.dynamodb import schema
from oncekey.testing import create_tables
from oncekey_local.store.tables import create_table_request
from tests.support.aws_engine import mocked_aws

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey_local.description import Table


@pytest.fixture
def client() -> Iterator[DynamoDBClient]:
    """A client of an account without tables."""
    with mocked_aws():
        yield boto3.client("dynamodb", region_name="eu-central-1")


def test_the_named_tables_are_there_with_their_ttl(client: DynamoDBClient) -> None:
    """Each named table is active; records and audit entries expire, and messages do not."""
    create_tables(client, "records", outbox="outbox", audit="audit")

    expiring = {
        name: client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
        for name in ("records", "outbox", "audit")
    }
    assert sorted(client.list_tables()["TableNames"]) == ["audit", "outbox", "records"]
    assert {name: told.get("AttributeName") for name, told in expiring.items()} == {
        "records": "expires_at",
        "outbox": None,
        "audit": "expires_at",
    }
    assert client.describe_table(TableName="outbox")["Table"]["StreamSpecification"] == {
        "StreamEnabled": True,
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    }


def test_a_table_that_exists_is_left_as_it_is(client: DynamoDBClient) -> None:
    """A second call creates what is missing, and deletes nothing."""
    create_tables(client, "records")
    client.put_item(TableName="records", Item={"pk": {"S": "kept"}})

    create_tables(client, "records", audit="audit")

    assert client.scan(TableName="records")["Count"] == 1
    assert sorted(client.list_tables()["TableNames"]) == ["audit", "records"]


def test_a_table_that_is_not_active_is_waited_for_a_minute(
    client: DynamoDBClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that stays in creation is looked at each second, and an error says so after a minute.

    Red when a slow table is given up earlier, or waited for much longer.
    """
    paused_s: list[float] = []
    monkeypatch.setattr("botocore.waiter.time.sleep", paused_s.append)

    def creating(**_: object) -> Any:
        return AWSResponse("", 200, HTTPHeaders(), None), {"Table": {"TableStatus": "CREATING"}}

    client.meta.events.register("before-call.dynamodb.DescribeTable", creating)

    with pytest.raises(WaiterError):
        create_tables(client, "records")
    assert sum(paused_s) in {59, 60}


@pytest.mark.parametrize(
    ("described", "made"), [(IDEMPOTENCY, schema.IDEMPOTENCY), (OUTBOX, schema.OUTBOX)]
)
def test_a_description_makes_the_same_table(described: Table, made: schema.TableSchema) -> None:
    """The tables of the local runtime's description have the schema of `create_tables`."""
    assert create_table_request("name", described) == made.create_request("name")
    assert (described.ttl_attribute or "") == made.ttl_attribute
