"""The refunds table: its rows, and writing a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functions.shared import dynamodb, payments_table
from functions.shared.settings import setting

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

# The progress of a refund. A state that is not listed here is open: any other may follow it. A
# succeeded refund may still fail, because the bank may return the money. The last two are final. So
# of two states in any order, the one with more progress is the later one.
# https://docs.stripe.com/refunds#failed-refunds
_WITHOUT_MONEY = ("failed", "canceled")
_ENDED = ("succeeded", *_WITHOUT_MONEY)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A refund's row. `status` is the provider's word.

    `told_at` is the time of the provider's event with this status, in epoch seconds. Open states
    follow each other in any order, so the time decides between two of them.
    """

    tenant: str
    refund_id: str
    payment_id: str
    operation_id: str
    amount: int
    status: str
    provider_id: str
    refunded_at: int
    told_at: int | None = None


def table_name() -> str:
    """The table's name.

    Raises:
        NotConfigured: REFUNDS_TABLE is not set.
    """
    return setting("REFUNDS_TABLE")


def write(row: Row) -> str:
    """Write `row`, unless the existing row has more progress. Returns the status in the table.

    The handler, the resolver and the provider's events may write it in any order, repeatedly.
    """
    item: dict[str, AttributeValueTypeDef] = {
        "pk": {"S": payments_table.row_key(row.tenant, row.refund_id)},
        "tenant": {"S": row.tenant},
        "refund_id": {"S": row.refund_id},
        "payment_id": {"S": row.payment_id},
        "operation_id": {"S": row.operation_id},
        "amount": {"N": str(row.amount)},
        "status": {"S": row.status},
        "provider_id": {"S": row.provider_id},
        "refunded_at": {"N": str(row.refunded_at)},
    }
    is_open = row.status not in _ENDED
    if is_open and row.told_at is not None:
        item["told_at"] = {"N": str(row.told_at)}
    table = dynamodb.client()
    condition, names, values = _has_not_come_further(row, is_open=is_open)
    try:
        table.put_item(
            TableName=table_name(),
            Item=item,
            ConditionExpression=f"attribute_not_exists(#pk) OR ({condition})",
            ExpressionAttributeNames={"#pk": "pk", **names},
            ExpressionAttributeValues=values,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except table.exceptions.ConditionalCheckFailedException as refused:
        # The stubs do not declare the members of this error.
        response: Any = refused.response
        standing: str = response["Item"]["status"]["S"]
        return standing
    return row.status


def _has_not_come_further(
    row: Row, *, is_open: bool
) -> tuple[str, dict[str, str], dict[str, AttributeValueTypeDef]]:
    """The condition that `row` may replace the existing row, with its names and values."""
    stay = _WITHOUT_MONEY if row.status in _WITHOUT_MONEY else _ENDED
    condition = f"NOT #status IN ({', '.join(f':{status}' for status in stay)})"
    names = {"#status": "status"}
    values: dict[str, AttributeValueTypeDef] = {f":{status}": {"S": status} for status in stay}
    if not is_open:
        return condition, names, values
    older = "attribute_not_exists(#told_at)"
    if row.told_at is not None:
        older = f"({older} OR #told_at <= :told_at)"
        values[":told_at"] = {"N": str(row.told_at)}
    return f"{condition} AND {older}", {**names, "#told_at": "told_at"}, values
