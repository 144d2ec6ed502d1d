"""Messages, changes and events as the events with which Lambda's event sources call a function.

https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html
https://docs.aws.amazon.com/lambda/latest/dg/with-kinesis.html
https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html

Ids are computed from the content. So an event that is made again is the same event delivered again,
as Lambda delivers it after a failure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from oncekey.outbox.envelope import sealed
from oncekey.record.message import Message
from oncekey.store.dynamodb.author_writes import low_level
from oncekey.store.dynamodb.outbox import message_item
from oncekey.testing.gateway_shapes import ACCOUNT_ID, REGION, Event

Change = Literal["INSERT", "MODIFY", "REMOVE"]
Text = str | bytes | Mapping[str, Any] | Sequence[Any]

_NOW_S = 1_796_083_200
_IDS = uuid.UUID("6f1d3c1e-0b0c-4d55-9a63-7a4f5a1f0d11")
_FIRST_SEQUENCE_NUMBER = 4421584500000000017450439091


def sqs_event(
    messages: Sequence[Message | str | Mapping[str, Any]],
    *,
    queue: str = "queue-under-test",
    receives: int = 1,
    group: str | None = None,
) -> Event:
    """The event with which SQS calls a worker.

    Args:
        messages: a `Message` of a store (`MemoryStore.messages`) as a relay sends it, text as it
            is, and a mapping as JSON.
        queue: the queue's name.
        receives: how often each message has been received, with this time.
        group: the message group, of a FIFO queue.

    Raises:
        TypeError: `messages` is one message and no list.
    """
    _check_list("messages", messages)
    fifo = "" if group is None or queue.endswith(".fifo") else ".fifo"
    records = []
    for number, message in enumerate(messages):
        body = sealed(message) if isinstance(message, Message) else _text(message)
        attributes = {
            "ApproximateReceiveCount": str(receives),
            "SentTimestamp": str(_NOW_S * 1_000),
            "SenderId": "AROAEXAMPLEEXAMPLEEX:sender-under-test",
            "ApproximateFirstReceiveTimestamp": str(_NOW_S * 1_000 + 20),
        }
        if group is not None:
            attributes["MessageGroupId"] = group
            attributes["MessageDeduplicationId"] = hashlib.sha256(body.encode()).hexdigest()
            attributes["SequenceNumber"] = str(18_849_496_460_467_696_128 + number)
        records.append(
            {
                "messageId": _id(queue, number, body),
                "receiptHandle": _id("receipt", queue, number, body, receives),
                "body": body,
                "attributes": attributes,
                "messageAttributes": {},
                "md5OfBody": hashlib.md5(body.encode(), usedforsecurity=False).hexdigest(),
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT_ID}:{queue}{fifo}",
                "awsRegion": REGION,
            }
        )
    return {"Records": records}


def dynamodb_stream_event(
    items: Sequence[Message | Mapping[str, Any]],
    *,
    keys: Sequence[str] = ("id",),
    change: Change = "INSERT",
    old: Sequence[Mapping[str, Any]] = (),
    table: str = "table-under-test",
) -> Event:
    """The event with which a table's stream (new and old images) calls a function.

    Args:
        items: the items after the change; of a REMOVE, the items that were deleted. An item is a
            mapping with plain Python values, or a `Message` of a store, as the outbox table has it.
        keys: the names of the key's attributes.
        change: what happened to each item.
        old: the items before a MODIFY, in the same order.
        table: the table's name.

    Raises:
        TypeError: `items` is one item and no list.
        ValueError: a stream has no such change.
    """
    _check_list("items", items)
    if change not in get_args(Change):
        raise ValueError(f"change is one of {', '.join(get_args(Change))}, not {change!r}")
    records = []
    for number, item in enumerate(items):
        image = message_item(item) if isinstance(item, Message) else _typed(item)
        images: dict[str, Any] = {"OldImage" if change == "REMOVE" else "NewImage": image}
        if change == "MODIFY" and old:
            images["OldImage"] = _typed(old[number])
        sequence_number = str(_FIRST_SEQUENCE_NUMBER + number)
        records.append(
            {
                "eventID": uuid.UUID(_id(table, number, change, json.dumps(images))).hex,
                "eventName": change,
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "dynamodb": {
                    "ApproximateCreationDateTime": float(_NOW_S),
                    "Keys": {name: image[name] for name in keys},
                    **images,
                    "SequenceNumber": sequence_number,
                    "SizeBytes": len(json.dumps(images)),
                    "StreamViewType": "NEW_AND_OLD_IMAGES",
                },
                "eventSourceARN": (
                    f"arn:aws:dynamodb:{REGION}:{ACCOUNT_ID}:table/{table}"
                    "/stream/2026-11-27T08:00:00.000"
                ),
            }
        )
    return {"Records": records}


def kinesis_event(
    data: Sequence[Text], *, partition_key: str = "partition-1", stream: str = "stream-under-test"
) -> Event:
    """The event with which a Kinesis stream calls a function.

    `data` has one entry for each record: bytes and text as they are, a mapping or a list as JSON.

    Raises:
        TypeError: `data` is one entry and no list.
    """
    _check_list("data", data)
    records = []
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT_ID}:stream/{stream}"
    for number, each in enumerate(data):
        raw = each if isinstance(each, bytes) else _text(each).encode()
        sequence_number = f"495903382714{number:044d}"
        records.append(
            {
                "kinesis": {
                    "kinesisSchemaVersion": "1.0",
                    "partitionKey": partition_key,
                    "sequenceNumber": sequence_number,
                    "data": base64.b64encode(raw).decode("ascii"),
                    "approximateArrivalTimestamp": float(_NOW_S),
                },
                "eventSource": "aws:kinesis",
                "eventVersion": "1.0",
                "eventID": f"shardId-000000000000:{sequence_number}",
                "eventName": "aws:kinesis:record",
                "invokeIdentityArn": f"arn:aws:iam::{ACCOUNT_ID}:role/function-under-test",
                "awsRegion": REGION,
                "eventSourceARN": arn,
            }
        )
    return {"Records": records}


def eventbridge_event(
    detail_type: str = "Scheduled Event",
    detail: Mapping[str, Any] | None = None,
    *,
    source: str = "aws.events",
    event_id: str | None = None,
    resources: Sequence[str] = (),
) -> Event:
    """The event with which an EventBridge rule calls a function; by default, that of a schedule.

    `event_id` is by default computed from the rest.
    """
    content = dict(detail or {})
    if not resources and source == "aws.events":
        resources = (f"arn:aws:events:{REGION}:{ACCOUNT_ID}:rule/rule-under-test",)
    return {
        "version": "0",
        "id": event_id or _id(detail_type, source, json.dumps(content)),
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT_ID,
        "time": "2026-12-01T00:00:00Z",
        "region": REGION,
        "resources": list(resources),
        "detail": content,
    }


def _check_list(name: str, given: object) -> None:
    # A text would be sent letter by letter.
    if isinstance(given, str | bytes | bytearray | Mapping | Message):
        raise TypeError(f"{name} is a list, not {type(given).__name__}")


def _text(value: str | Mapping[str, Any] | Sequence[Any]) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _id(*parts: object) -> str:
    return str(uuid.uuid5(_IDS, json.dumps(parts)))


def _typed(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _as_json(value) for name, value in low_level(item).items()}


def _as_json(typed: Mapping[str, Any]) -> dict[str, Any]:
    """A value in DynamoDB's notation as the event has it: bytes are base64."""
    ((kind, value),) = typed.items()
    match kind:
        case "B":
            value = base64.b64encode(value).decode("ascii")
        case "BS":
            value = [base64.b64encode(each).decode("ascii") for each in value]
        case "M":
            value = {name: _as_json(each) for name, each in value.items()}
        case "L":
            value = [_as_json(each) for each in value]
    return {kind: value}
