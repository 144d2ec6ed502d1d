"""The tables of the reference service on moto in this process, and what its functions are told."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer

from functions.shared import dynamodb, payments_table
from infra.service import SERVICE
from oncekey.outbox.envelope import sealed
from oncekey.store.dynamodb.outbox import message_from_item
from oncekey_local.store.tables import create_table_request
from tests.support.aws_engine import mocked_aws
from tests.support.shared_clients import shared_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

PAYMENT_ID = "pay_0f8fad5bd9cb469fa16570867728950e"
PENDING: dict[str, Any] = {
    "tenant": "tenant-1",
    "payment_id": PAYMENT_ID,
    "operation_id": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "customer_id": "cus_1",
    "amount": 1200,
    "currency": "eur",
    "status": "pending",
}
ENVIRONMENT = {
    "ONCEKEY_TABLE": "idempotency",
    "ONCEKEY_OUTBOX_TABLE": "outbox",
    "PAYMENTS_TABLE": "payments",
    "REFUNDS_TABLE": "refunds",
    "REPORTS_TABLE": "reports",
}


def physical(name: str) -> str:
    """The name that moto knows the described table by."""
    return f"{name}-of-the-tests"


@dataclass(frozen=True)
class Tables:
    """All tables of the description."""

    client: DynamoDBClient

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Everything in a table, as Python values."""
        read = TypeDeserializer().deserialize
        return [
            {attribute: read(value) for attribute, value in item.items()}
            for item in self.client.scan(TableName=physical(name))["Items"]
        ]

    def messages(self) -> list[str]:
        """The messages of the outbox, as the relay sends them."""
        items = self.client.scan(TableName=physical("outbox"))["Items"]
        return [sealed(message_from_item(item)) for item in items]

    def records(self) -> list[dict[str, Any]]:
        """The records of operations, without what else stands beside them."""
        return [row for row in self.rows("idempotency") if "status" in row]

    def add_payment(self, **changes: Any) -> None:
        """Put a payment, pending unless `changes` say otherwise."""
        row = {name: value for name, value in {**PENDING, **changes}.items() if value is not None}
        row["pk"] = payments_table.row_key(row["tenant"], row["payment_id"])
        self.add("payments", row)

    def add(self, name: str, row: dict[str, Any]) -> None:
        """Put a row of texts and numbers."""
        self.client.put_item(
            TableName=physical(name),
            Item={
                name: {"N": str(value)} if isinstance(value, int) else {"S": value}
                for name, value in row.items()
            },
        )

    def drop(self, name: str) -> None:
        """Take a table away."""
        self.client.delete_table(TableName=physical(name))


@contextlib.contextmanager
def reference_tables() -> Iterator[Tables]:
    """The tables, empty."""
    with mocked_aws(), shared_client("dynamodb") as client:
        for table in SERVICE.tables:
            client.create_table(**create_table_request(physical(table.name), table))
        dynamodb.client.cache_clear()
        yield Tables(client)
        dynamodb.client.cache_clear()
