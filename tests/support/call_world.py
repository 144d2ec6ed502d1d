"""Tables, a bucket, queues and a secret on moto, and every call that is made to them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import boto3

from oncekey import DynamoDBStore
from oncekey.store.dynamodb.outbox import OutboxTable
from oncekey.store.s3 import ResponseBucket
from oncekey.store.sqs import SqsQueue
from tests.support.dynamodb import (
    BUCKET,
    TABLE,
    Recorder,
    dynamodb_table,
    make_response_bucket,
    make_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OUTBOX = "outbox-under-test"
LEDGER = "ledger-under-test"
SECRET = "secret-under-test"


class CallWorld:
    """The layer's classes on clients that validate every parameter; `sent` is what they send."""

    def __init__(self, client: Any) -> None:
        for table in (LEDGER, OUTBOX):
            make_table(client, table)
        s3: Any = make_response_bucket()
        self.sqs: Any = boto3.client("sqs", region_name="eu-central-1")
        secrets: Any = boto3.client("secretsmanager", region_name="eu-central-1")
        secrets.create_secret(Name=SECRET, SecretString="kept")
        self.secrets = secrets
        self.client = client
        self.urls = {
            "work": self.sqs.create_queue(QueueName="work")["QueueUrl"],
            "work.fifo": self.sqs.create_queue(
                QueueName="work.fifo", Attributes={"FifoQueue": "true"}
            )["QueueUrl"],
        }
        self.bucket = ResponseBucket(BUCKET, client=s3)
        self.store = DynamoDBStore(TABLE, client=client, bucket=self.bucket, outbox=OUTBOX)
        self.outbox = OutboxTable(OUTBOX, client=client)
        self.sent = Recorder(client, s3, self.sqs, secrets)

    def queue(self, name: str = "work") -> SqsQueue:
        """One of the queues."""
        return SqsQueue(self.urls[name], client=self.sqs)

    def received(self, count: int = 1) -> list[str]:
        """The handles of so many messages, which are in nobody's hands but ours."""
        for _ in range(count):
            self.sqs.send_message(QueueUrl=self.urls["work"], MessageBody="{}")
        handles: list[str] = []
        while len(handles) < count:
            answer = self.sqs.receive_message(QueueUrl=self.urls["work"], MaxNumberOfMessages=10)
            handles += [each["ReceiptHandle"] for each in answer["Messages"]]
        self.sent.calls.clear()
        return handles


@contextlib.contextmanager
def call_world() -> Iterator[CallWorld]:
    """Such a world of its own."""
    with dynamodb_table() as client:
        yield CallWorld(client)
