"""The payments table: how its rows are named, and how one is found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from functions.shared import dynamodb
from functions.shared.settings import setting

if TYPE_CHECKING:
    from oncekey import Operation


class Status(StrEnum):
    """What is known of a payment."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    DECLINED = "declined"


# What the state of an intent means for its payment. Every other one means that the card was not
# charged, and will not be.
STATUS_OF_INTENT = {
    "succeeded": Status.SUCCEEDED,
    # A bank debit takes days. The provider's event says how it ended.
    "processing": Status.PENDING,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A payment as it stands in the table. `provider_id` is there once the provider has one."""

    payment_id: str
    status: Status
    amount: int
    currency: str
    provider_id: str | None


def table_name() -> str:
    """The table's name.

    Raises:
        NotConfigured: PAYMENTS_TABLE is not set.
    """
    return setting("PAYMENTS_TABLE")


def row_key(tenant: str, identifier: str) -> str:
    """The key of a tenant's row. No tenant's name can reach into another's: its length is told."""
    return f"{len(tenant)}#{tenant}#{identifier}"


def identifier(prefix: str, operation: Operation) -> str:
    """The id of what the operation makes, the same over all its attempts."""
    return f"{prefix}_{operation.operation_id.replace('-', '')}"


def find(tenant: str, payment_id: str) -> Row | None:
    """The payment of this id as of now, if there is one and it is the tenant's."""
    found = dynamodb.client().get_item(
        TableName=table_name(),
        Key={"pk": {"S": row_key(tenant, payment_id)}},
        ConsistentRead=True,
    )
    row = found.get("Item")
    if row is None:
        return None
    return Row(
        payment_id=row["payment_id"]["S"],
        status=Status(row["status"]["S"]),
        amount=int(row["amount"]["N"]),
        currency=row["currency"]["S"],
        provider_id=row["provider_id"]["S"] if "provider_id" in row else None,
    )
