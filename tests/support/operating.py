"""The tables of a service on moto, and the operator's commands on them, in this process."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3

from infra.service_resources import OUTBOX
from oncekey import DynamoDBStore
from oncekey.store.dynamodb.schema import AUDIT as SCHEMA
from oncekey_local import cli
from oncekey_local.store.tables import create_table_request
from tests.support.dynamodb import TABLE, dynamodb_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

REGION = "eu-central-1"
AUDIT, MESSAGES = "audit-under-test", "outbox-under-test"


@dataclass
class Operating:
    """Commands on the tables of one service. `out` and `err` are what the last one has printed."""

    client: DynamoDBClient
    capsys: pytest.CaptureFixture[str]
    out: str = ""
    err: str = ""
    queue_url: str = ""
    store: DynamoDBStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = DynamoDBStore(TABLE, client=self.client, outbox=MESSAGES)

    def run(self, command: str, *arguments: str, table: str = TABLE) -> int:
        """The exit status of `oncekey COMMAND ...` on these tables."""
        queue = ("--queue-url", self.queue_url) if self.queue_url else ()
        where = ("--table", table, "--outbox-table", MESSAGES, "--audit-table", AUDIT)
        status = cli.main([command, *arguments, *where, "--region", REGION, *queue])
        self.out, self.err = self.capsys.readouterr()
        return status

    def json(self, command: str, *arguments: str) -> Any:
        """What it prints for programs."""
        assert self.run(command, *arguments, "--json") in {0, 1}, self.err
        return json.loads(self.out)

    def audited(self) -> list[tuple[str, str, str]]:
        """The action, the outcome and the reason of each audit line, in order."""
        lines: list[Any] = self.client.scan(TableName=AUDIT)["Items"]
        lines.sort(key=lambda each: each["at"]["S"])
        return [tuple(each[name]["S"] for name in ("action", "outcome", "why")) for each in lines]


@contextlib.contextmanager
def operating(capsys: pytest.CaptureFixture[str]) -> Iterator[Operating]:
    """The tables of a service, all empty."""
    with dynamodb_table() as client:
        client.create_table(**create_table_request(MESSAGES, OUTBOX))
        client.create_table(**SCHEMA.create_request(AUDIT))
        yield Operating(client, capsys)


def queue_with_dead_letters(*, is_fifo: bool = False) -> tuple[SQSClient, str, str]:
    """A client, and the URLs of a queue and of its dead-letter queue."""
    sqs: SQSClient = boto3.client("sqs", region_name=REGION)
    end = ".fifo" if is_fifo else ""
    kind: dict[QueueAttributeNameType, str] = {"FifoQueue": "true"} if is_fifo else {}
    dead = sqs.create_queue(QueueName=f"dead{end}", Attributes=kind)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 10}
    kind["RedrivePolicy"] = json.dumps(policy)
    work = sqs.create_queue(QueueName=f"work{end}", Attributes=kind)["QueueUrl"]
    return sqs, work, dead
