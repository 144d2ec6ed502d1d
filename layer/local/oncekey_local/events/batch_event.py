"""The events that Lambda's pollers make of messages and of changes, of at most 6 MB. Pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oncekey_local.front.http_api_event import MAX_PAYLOAD_BYTES
from oncekey_local.functions.environment import REGION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Record = dict[str, Any]

# One record has no comma after it.
_ENVELOPE_BYTES = len('{"Records":[]}') - len(",")


def event_bytes(records: Iterable[Record]) -> bytes:
    """The event of a batch, as the JSON document that the function's runtime reads."""
    return json.dumps({"Records": list(records)}, separators=(",", ":")).encode()


def in_batches(records: Sequence[Record], batch_size: int) -> Iterator[list[Record]]:
    """The records in their order, in batches that are small enough for one invocation."""
    batch: list[Record] = []
    size_bytes = _ENVELOPE_BYTES
    for record in records:
        more_bytes = len(json.dumps(record, separators=(",", ":"))) + 1
        if batch and (len(batch) == batch_size or size_bytes + more_bytes > MAX_PAYLOAD_BYTES):
            yield batch
            batch, size_bytes = [], _ENVELOPE_BYTES
        batch.append(record)
        size_bytes += more_bytes
    if batch:
        yield batch


def message_record(message: Mapping[str, Any], queue_arn: str) -> Record:
    """A message, as SQS has handed it out, in the shape of Lambda's SQS event."""
    record: Record = {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }
    if "MD5OfMessageAttributes" in message:
        record["md5OfMessageAttributes"] = message["MD5OfMessageAttributes"]
    return record


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    names = {"StringValue": "stringValue", "BinaryValue": "binaryValue"}
    return {
        **{names[name]: value[name] for name in names if value.get(name) is not None},
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": value["DataType"],
    }


def change_record(change: Mapping[str, Any], stream_arn: str) -> Record:
    """A change, as DynamoDB's stream has handed it out, in the shape of Lambda's event."""
    return {
        "eventID": change["eventID"],
        "eventName": change["eventName"],
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": REGION,
        "dynamodb": change["dynamodb"],
        "eventSourceARN": stream_arn,
    }


def sequence_number(record: Mapping[str, Any]) -> str:
    """The position of a change in its stream."""
    return str(record["dynamodb"]["SequenceNumber"])


def discarded(
    batch: Sequence[Record],
    *,
    shard_id: str,
    function_arn: str,
    attempts: int,
    request_id: str,
    time_ms: int,
) -> dict[str, Any]:
    """Lambda's message to the on-failure queue of a stream. It names the records, without content.

    https://docs.aws.amazon.com/lambda/latest/dg/services-dynamodb-errors.html
    """
    first, last = batch[0], batch[-1]
    return {
        "requestContext": {
            "requestId": request_id,
            "functionArn": function_arn,
            "condition": "RetryAttemptsExhausted",
            "approximateInvokeCount": attempts,
        },
        "responseContext": {
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": "Unhandled",
        },
        "version": "1.0",
        "timestamp": _timestamp(time_ms / 1000),
        "DDBStreamBatchInfo": {
            "shardId": shard_id,
            "startSequenceNumber": sequence_number(first),
            "endSequenceNumber": sequence_number(last),
            "approximateArrivalOfFirstRecord": _arrival(first),
            "approximateArrivalOfLastRecord": _arrival(last),
            "batchSize": len(batch),
            "streamArn": first["eventSourceARN"],
        },
    }


def _arrival(record: Record) -> str:
    return _timestamp(record["dynamodb"]["ApproximateCreationDateTime"])


def _timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
