"""The same work on a FIFO queue, in the relay's groups: nothing overtakes what has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3

from functions.outbox_worker.handler import handler
from oncekey.outbox.relay import OutboxRelay
from oncekey.store.dynamodb.outbox import OutboxTable
from oncekey.store.sqs import SqsQueue
from oncekey_local.events.batch_event import message_record
from tests.support.events import load
from tests.support.queue_events import failed
from tests.support.reference_tables import PAYMENT_ID, physical

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables


def test_what_comes_after_a_failure_waits_for_it(provider: Provider, tables: Tables) -> None:
    """With `OutboxRelay(group=...)` and a FIFO queue, a tenant's payments are charged in order: one
    that fails holds up those behind it, and no other tenant's.
    """
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName="payments.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    relay = OutboxRelay(
        table=OutboxTable(physical("outbox")),
        queue=SqsQueue(url),
        group=lambda message: message.tenant,
    )
    for number, tenant in enumerate(("tenant-1", "tenant-1", "tenant-2")):
        tables.add_payment(tenant=tenant)
        relay(change(tenant, f"message-{number}", number), None)
    received: Any = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    )
    records = [
        message_record(message, "arn:aws:sqs:::payments.fifo") for message in received["Messages"]
    ]
    provider.arm(fail=1)

    answer = handler({"Records": records}, None)

    assert failed(answer) == [record["messageId"] for record in records[:2]]
    statuses = {row["tenant"]: row["status"] for row in tables.rows("payments")}
    assert statuses == {"tenant-1": "pending", "tenant-2": "succeeded"}
    # The failed one, and that of the other tenant.
    assert provider.counts()["calls"] == 2


def change(tenant: str, message_id: str, number: int) -> dict[str, Any]:
    """What the stream tells of a message of this tenant."""
    event = load("dynamodb_stream_outbox")
    (record,) = event["Records"]
    assert PAYMENT_ID in record["dynamodb"]["NewImage"]["payload"]["S"]
    record["dynamodb"]["NewImage"] |= {"id": {"S": message_id}, "tenant": {"S": tenant}}
    record["dynamodb"]["SequenceNumber"] = str(number)
    return event
