"""Deliveries of the queue of payments, made of the sample event."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from oncekey.clock import SystemClock
from tests.support.events import load

if TYPE_CHECKING:
    from collections.abc import Mapping

Event = dict[str, Any]

(_RECORD,) = load("sqs_payment_requested")["Records"]
MESSAGE: dict[str, Any] = json.loads(_RECORD["body"])


def message(payload: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """The sample's message as it stands in the queue, published now, with these changes."""
    body = {**MESSAGE, "created_at_ms": SystemClock().now_ms(), **changes}
    body["payload"] = {**MESSAGE["payload"], **(payload or {})}
    return json.dumps(body)


def delivery(
    *bodies: str, receives: int = 1, handle: str = "handle", queue_arn: str | None = None
) -> Event:
    """One event with a record for each body; the records' ids are `record-0` and so on."""
    records = []
    for number, body in enumerate(bodies):
        record = copy.deepcopy(_RECORD)
        record.update(messageId=f"record-{number}", receiptHandle=handle, body=body)
        record["attributes"]["ApproximateReceiveCount"] = str(receives)
        record["eventSourceARN"] = queue_arn or record["eventSourceARN"]
        records.append(record)
    return {"Records": records}


def failed(answer: Mapping[str, Any]) -> list[str]:
    """The ids of the records that a partial answer names."""
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]
