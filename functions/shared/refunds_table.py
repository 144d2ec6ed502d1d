"""The refunds table: what a row is, and how one is written."""

from __future__ import annotations

from dataclasses import dataclass

from functions.shared import dynamodb, payments_table
from functions.shared.settings import setting

# The one state of a refund that others follow.
_PENDING = "pending"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A refund as it stands in the table. `status` is the provider's word."""

    tenant: str
    refund_id: str
    payment_id: str
    operation_id: str
    amount: int
    status: str
    provider_id: str
    refunded_at: int


def table_name() -> str:
    """The table's name.

    Raises:
        NotConfigured: REFUNDS_TABLE is not set.
    """
    return setting("REFUNDS_TABLE")


def write(row: Row) -> None:
    """Write `row`, unless what is there has come further.

    The handler writes it, or whoever learns of the refund after the handler has died; they say the
    same, in any order and however often.
    """
    table = dynamodb.client()
    try:
        table.put_item(
            TableName=table_name(),
            Item={
                "pk": {"S": payments_table.row_key(row.tenant, row.refund_id)},
                "tenant": {"S": row.tenant},
                "refund_id": {"S": row.refund_id},
                "payment_id": {"S": row.payment_id},
                "operation_id": {"S": row.operation_id},
                "amount": {"N": str(row.amount)},
                "status": {"S": row.status},
                "provider_id": {"S": row.provider_id},
                "refunded_at": {"N": str(row.refunded_at)},
            },
            ConditionExpression="attribute_not_exists(#pk) OR #status = :pending",
            ExpressionAttributeNames={"#pk": "pk", "#status": "status"},
            ExpressionAttributeValues={":pending": {"S": _PENDING}},
        )
    except table.exceptions.ConditionalCheckFailedException:
        return
