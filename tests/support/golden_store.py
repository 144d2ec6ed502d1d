"""Tables and queues of the reference service in the local store, as a test sees and fills them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3

from infra.service import SERVICE
from infra.service_resources import OUTBOX, REQUESTED
from oncekey.store.dynamodb.author_writes import python_values
from oncekey_local.events.batch_event import change_record, message_record
from oncekey_local.functions.environment import queue_arn, queue_name, queue_url, table_name
from tests.support.forked_processes import connection
from tests.support.killed_process import empty

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

Item = dict[str, Any]
# One of a Lambda event, of a stream or of a queue.
Record = dict[str, Any]

_COUNTS = ("Messages", "MessagesNotVisible", "MessagesDelayed")


@dataclass
class GoldenStore:
    """The service's part of a local store."""

    url: str
    # Where the outbox's stream was when everything was forgotten.
    _beginning: str = ""

    def forget(self) -> None:
        """Empty tables and queues."""
        for table in SERVICE.tables:
            name = table_name(SERVICE, table.name)
            empty(self._dynamodb, name, table)
        self._beginning = self._end_of_stream()
        for queue in SERVICE.queues:
            self._make_queue(queue.dead_letters, {})
            policy = {
                "deadLetterTargetArn": queue_arn(SERVICE, queue.dead_letters),
                "maxReceiveCount": queue.max_receives,
            }
            attributes = {
                "VisibilityTimeout": str(SERVICE.visibility_timeout_s(queue)),
                "RedrivePolicy": json.dumps(policy),
            }
            self._make_queue(queue.name, attributes)

    def _make_queue(self, name: str, attributes: Any) -> None:
        """Anew: to purge a queue twice takes a minute."""
        with contextlib.suppress(self._sqs.exceptions.QueueDoesNotExist):
            self._sqs.delete_queue(QueueUrl=self._queue_url(name))
        self._sqs.create_queue(QueueName=queue_name(SERVICE, name), Attributes=attributes)

    def items(self, table: str) -> list[Item]:
        """Everything in a table, as Python values."""
        name = table_name(SERVICE, table)
        items = self._dynamodb.scan(TableName=name, ConsistentRead=True)["Items"]
        return [python_values(item) or {} for item in items]

    def written(self) -> list[Record]:
        """What the outbox's stream has of messages that were written since all was forgotten."""
        changes = self._streams.get_records(ShardIterator=self._beginning)["Records"]
        records = [change_record(change, self._stream_arn) for change in changes]
        as_sent: list[Record] = json.loads(json.dumps(records, default=datetime.timestamp))
        return [record for record in as_sent if record["eventName"] == "INSERT"]

    def _end_of_stream(self) -> str:
        arn = self._stream_arn
        (shard,) = self._streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
        iterator: str = self._streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="LATEST"
        )["ShardIterator"]
        return iterator

    @cached_property
    def _stream_arn(self) -> str:
        name = table_name(SERVICE, OUTBOX.name)
        return self._dynamodb.describe_table(TableName=name)["Table"]["LatestStreamArn"]

    def receive(self, most: int) -> list[Record]:
        """Messages to be charged, which are hidden until they are shown again or deleted."""
        received = self._sqs.receive_message(
            QueueUrl=self._queue_url(REQUESTED.name),
            MaxNumberOfMessages=most,
            MessageSystemAttributeNames=["All"],
        )
        arn = queue_arn(SERVICE, REQUESTED.name)
        return [message_record(message, arn) for message in received.get("Messages", [])]

    def send(self, body: str) -> None:
        """One more copy of a message to be charged."""
        self._sqs.send_message(QueueUrl=self._queue_url(REQUESTED.name), MessageBody=body)

    def show(self, handles: Iterable[str]) -> None:
        """End the hiding of what was received under these handles."""
        for handle in handles:
            self._sqs.change_message_visibility(
                QueueUrl=self._queue_url(REQUESTED.name), ReceiptHandle=handle, VisibilityTimeout=0
            )

    def delete(self, handle: str) -> None:
        """Acknowledge what was received under this handle."""
        self._sqs.delete_message(QueueUrl=self._queue_url(REQUESTED.name), ReceiptHandle=handle)

    def queued(self) -> dict[str, int]:
        """How many messages each queue has, seen or hidden; queues that have none are left out."""
        counts = {name: self._queued(name) for name in self._queue_names}
        return {name: count for name, count in counts.items() if count}

    def _queued(self, name: str) -> int:
        names: Any = [f"ApproximateNumberOf{count}" for count in _COUNTS]
        answer = self._sqs.get_queue_attributes(
            QueueUrl=self._queue_url(name), AttributeNames=names
        )
        return sum(int(count) for count in answer["Attributes"].values())

    @cached_property
    def _queue_names(self) -> list[str]:
        return [name for queue in SERVICE.queues for name in (queue.name, queue.dead_letters)]

    def _queue_url(self, name: str) -> str:
        return queue_url(SERVICE, name, self.url)

    @cached_property
    def _dynamodb(self) -> DynamoDBClient:
        client: DynamoDBClient = boto3.client("dynamodb", **connection(self.url))
        return client

    @cached_property
    def _sqs(self) -> SQSClient:
        client: SQSClient = boto3.client("sqs", **connection(self.url))
        return client

    @cached_property
    def _streams(self) -> Any:
        streams: Any = boto3.client("dynamodbstreams", **connection(self.url))
        return streams
