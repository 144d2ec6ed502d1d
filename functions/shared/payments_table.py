"""The payments table: the keys of its rows, and reading a row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from functions.shared import dynamodb
from functions.shared.settings import setting

if TYPE_CHECKING:
    from oncekey import Operation


class Status(StrEnum):
    """The status of a payment."""

    PENDING = "pending"
    SUCCEEDED = "succeeded"
    DECLINED = "declined"


# The status of a payment for each state of its intent. In any other state, the card was not charged
# and will not be.
STATUS_OF_INTENT = {
    "succeeded": Status.SUCCEEDED,
    # A bank debit takes days. The provider's event says how it ended.
    "processing": Status.PENDING,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A payment's row. `provider_id` is None until the provider has an intent."""

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
    """The key of a tenant's row. The length of the tenant's name in it keeps keys unique."""
    return f"{len(tenant)}#{tenant}#{identifier}"


def identifier(prefix: str, operation: Operation) -> str:
    """The id of the object that the operation makes, the same in all its attempts."""
    return f"{prefix}_{operation.operation_id.replace('-', '')}"


def find(tenant: str, payment_id: str) -> Row | None:
    """The tenant's payment of this id now (a strongly consistent read), if there is one."""
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
