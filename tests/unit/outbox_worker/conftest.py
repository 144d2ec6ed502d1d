"""A queue whose messages the worker can put off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

    from tests.support.reference_tables import Tables


@dataclass
class Work:
    """The queue of payments, and the messages that were received of it."""

    client: SQSClient
    url: str

    def receive(self) -> list[str]:
        """The receipt handles of what is visible now."""
        received = self.client.receive_message(QueueUrl=self.url, VisibilityTimeout=600)
        return [message["ReceiptHandle"] for message in received.get("Messages", [])]

    def add(self) -> str:
        """Send a message and receive it; its receipt handle."""
        self.client.send_message(QueueUrl=self.url, MessageBody="{}")
        (handle,) = self.receive()
        return handle


@pytest.fixture
def work(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> Work:
    """An empty queue beside the tables, and the function told of it."""
    assert tables
    client: SQSClient = boto3.client("sqs")
    url = client.create_queue(QueueName="payments")["QueueUrl"]
    monkeypatch.setenv("ONCEKEY_QUEUE_URL", url)
    return Work(client, url)
