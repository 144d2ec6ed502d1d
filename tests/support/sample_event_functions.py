"""Lambda handlers of queues and streams that do what a test tells them to."""

from __future__ import annotations

import os
from multiprocessing.connection import Client
from typing import Any


def ask(event: dict[str, Any], context: Any) -> Any:
    """Shows a test the event, and does with it what the test says; see `sample_event_desk`."""
    with Client(("127.0.0.1", int(os.environ["DESK_PORT"])), authkey=b"test") as desk:
        desk.send((os.getpid(), context.function_name, event))
        what, value = desk.recv()
    if what == "fail":
        raise ValueError(value)
    if what == "leave":
        os._exit(7)
    if what == "spin":
        while True:
            pass
    return value


def forward(event: dict[str, Any], _context: Any) -> None:
    """Sends what was written to a table to a queue, in order, then deletes it there."""
    import boto3

    queue, table = os.environ["QUEUE_URL"], os.environ["OUTBOX_TABLE"]
    keys = [record["dynamodb"]["Keys"] for record in event["Records"]]
    entries: Any = [
        {
            "Id": str(number),
            "MessageBody": key["pk"]["S"],
            "MessageGroupId": "all",
            "MessageDeduplicationId": key["pk"]["S"],
        }
        for number, key in enumerate(keys)
    ]
    answer = boto3.client("sqs").send_message_batch(QueueUrl=queue, Entries=entries)
    if answer.get("Failed"):
        raise RuntimeError(f"not sent: {answer['Failed']}")
    for key in keys:
        boto3.client("dynamodb").delete_item(TableName=table, Key=key)


def finish(event: dict[str, Any], _context: Any) -> None:
    """Writes what it was told to a table."""
    import boto3

    for record in event["Records"]:
        boto3.client("dynamodb").put_item(
            TableName=os.environ["DONE_TABLE"], Item={"pk": {"S": record["body"]}}
        )
