"""The relay of the reference service: from the sample of its stream to the sample of its queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3

from functions.outbox_relay.handler import handler
from tests.support.events import load
from tests.support.reference_tables import physical

if TYPE_CHECKING:
    import pytest
    from mypy_boto3_sqs import SQSClient

    from tests.support.reference_tables import Tables


def test_a_message_goes_from_the_table_to_the_queue(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the stream tells of an outbox item is what the worker finds in its queue, word for word,
    and the item is deleted.
    """
    queue: SQSClient = boto3.client("sqs")
    url = queue.create_queue(QueueName="payments")["QueueUrl"]
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", url)
    monkeypatch.setenv("ONCEKEY_OUTBOX_TABLE", physical("outbox"))
    event = load("dynamodb_stream_outbox")
    item: Any = event["Records"][0]["dynamodb"]["NewImage"]
    tables.client.put_item(TableName=physical("outbox"), Item=item)

    answer = handler(event, None)

    received: Any = queue.receive_message(QueueUrl=url)
    (sent,) = received["Messages"]
    (expected,) = load("sqs_payment_requested")["Records"]
    assert answer == {"batchItemFailures": []}
    assert json.loads(sent["Body"]) == json.loads(expected["body"])
    assert sent["MD5OfBody"] == expected["md5OfBody"]
    assert tables.rows("outbox") == []
