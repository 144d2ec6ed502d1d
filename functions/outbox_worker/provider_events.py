"""What follows from an event of the provider's: a payment's row is finished, a refund settled.

Nothing here needs a record of its own: every write is on condition, and says the same whenever and
in whatever order the events come.
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

# Every other state of an intent is on the way to one of these.
_ENDED = {
    "succeeded": Status.SUCCEEDED,
    "requires_payment_method": Status.DECLINED,
    "canceled": Status.DECLINED,
}

# `postpone` doubles it: two such waits, 10 s and 20 s, outlast the lease of a refund, 22 s and 5 s.
_ASK_AGAIN_S = 10

# Of a row that has an intent, only that intent's events count.
_STILL_OPEN = (
    "(#status = :pending AND (attribute_not_exists(#provider_id) OR #provider_id = :provider_id))"
)
_DECLINED_BEFORE = (
    "(#status = :declined AND (attribute_not_exists(#provider_id) OR #provider_id = :provider_id))"
)


def apply(event: ProviderEvent) -> str:
    """Do what follows from `event`; what that was, in a word.

    Raises:
        NotConfigured: a table is not named.
        InProgress: the refund's own handler may still be at it; the same message again, later.
        StoreError, ClientError, BotoCoreError: DynamoDB did not answer; the same message again.
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
        # An intent that failed may have succeeded since, and a payment that counts as declined
        # without an intent may have got one: in whichever order, the money counts.
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
        # Ended before, by the worker or by this event; or it is no row of ours.
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
        # No record waits for it: it was made without one, or by somebody else.
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
        # Most events are faster than the handler is done. If it is dead, its lease says so soon.
        raise InProgress(
            operation="POST /refunds",
            operation_id=metadata["operation_id"],
            retry_after_s=_ASK_AGAIN_S,
        )
    return f"refund-{settlement.value}"
