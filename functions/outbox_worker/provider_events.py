"""The handling of the provider's events: it finishes a payment's row, or settles a refund.

It needs no records. Every write is conditional, and gives the same result for repeated events and
for events in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from functions.refunds.models import Refund, answer_of
from functions.shared import dynamodb, payments_table, refunds_table
from functions.shared.payments_table import Status
from oncekey import Completed, InProgress, Settlement, settle
from oncekey.record.references import read_reference

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.type_defs import AttributeValueTypeDef

    from functions.shared.models import ProviderEvent

# The final states of an intent.
_ENDED = {
    "succeeded": Status.SUCCEEDED,
    "requires_payment_method": Status.DECLINED,
    "canceled": Status.DECLINED,
}

# `postpone` doubles it: two waits, 10 s and 20 s, are longer than a refund's lease (22 s + 5 s).
_ASK_AGAIN_S = 10

# If the row has an intent, only the events of this intent count.
_STILL_OPEN = (
    "(#status = :pending AND (attribute_not_exists(#provider_id) OR #provider_id = :provider_id))"
)
_DECLINED_BEFORE = (
    "(#status = :declined AND (attribute_not_exists(#provider_id) OR #provider_id = :provider_id))"
)


def apply(event: ProviderEvent) -> str:
    """Handle `event`, and return in a word what was done.

    Raises:
        NotConfigured: a table is not named.
        InProgress: the refund's handler may still be running; the message must be tried later.
        StoreError, ClientError, BotoCoreError: DynamoDB did not answer; the message must be tried
            again.
    """
    if event.type.startswith("payment_intent."):
        return _finish_payment(event)
    return _settle_refund(event)


def _finish_payment(event: ProviderEvent) -> str:
    status = _ENDED.get(event.status)
    if status is None:
        return "not-ended"
    changed: dict[str, AttributeValueTypeDef] = {
        "status": {"S": status.value},
        "provider_id": {"S": event.object_id},
        "charged_at": {"N": str(event.created)},
    }
    if status is Status.DECLINED:
        changed["reason"] = {"S": event.reason or event.status}
    values = {f":{name}": value for name, value in changed.items()}
    values[":pending"] = {"S": Status.PENDING.value}
    condition = _STILL_OPEN
    if status is Status.SUCCEEDED:
        # A failed intent may succeed later, and a payment declined without an intent may get one.
        # The status with the money counts, in whatever order the events arrive.
        condition = f"{_STILL_OPEN} OR {_DECLINED_BEFORE}"
        values[":declined"] = {"S": Status.DECLINED.value}
    table = dynamodb.client()
    key = payments_table.row_key(event.metadata["tenant"], event.metadata["payment_id"])
    try:
        table.update_item(
            TableName=payments_table.table_name(),
            Key={"pk": {"S": key}},
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changed),
            ConditionExpression=condition,
            ExpressionAttributeNames={f"#{name}": name for name in changed},
            ExpressionAttributeValues=values,
        )
    except table.exceptions.ConditionalCheckFailedException:
        # The worker or this event has finished the row before, or we have no such row.
        return "payment-known"
    return "payment-finished"


def _is_reference(text: str | None) -> TypeGuard[str]:
    try:
        read_reference(text or "")
    except ValueError:
        return False
    return True


def _settle_refund(event: ProviderEvent) -> str:
    metadata = event.metadata
    reference, refund_id = metadata.get("reference"), metadata.get("refund_id")
    if refund_id is None or not _is_reference(reference):
        # No record waits for this refund: it was made without one, or by somebody else.
        return "refund-without-record"
    status = refunds_table.write(
        refunds_table.Row(
            tenant=metadata["tenant"],
            refund_id=refund_id,
            payment_id=metadata["payment_id"],
            operation_id=metadata["operation_id"],
            amount=event.amount,
            status=event.status,
            provider_id=event.object_id,
            refunded_at=event.created,
            told_at=event.told_at,
        )
    )
    refund = Refund(
        refund_id=refund_id,
        payment_id=metadata["payment_id"],
        status=status,
        amount=event.amount,
    )
    settlement = settle(reference, Completed(answer_of(refund)))
    if settlement is Settlement.RUNNING:
        # Most events arrive before the handler ends. If the handler is dead, its lease ends soon.
        raise InProgress(
            operation="POST /refunds",
            operation_id=metadata["operation_id"],
            retry_after_s=_ASK_AGAIN_S,
        )
    return f"refund-{settlement.value}"
