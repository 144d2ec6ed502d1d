"""The events of EventBridge's schedules, and what Lambda tells of runs that have failed: pure."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oncekey_local.front.http_api_event import ACCOUNT_ID
from oncekey_local.functions.environment import REGION
from oncekey_local.functions.runtime_api import OutcomeKind

if TYPE_CHECKING:
    from oncekey_local.functions.runtime_api import Outcome

# More may not fit into a message with all the rest.
_SAID_BYTES_MAX = 200_000


def event_bytes(*, rule_arn: str, event_id: str, time_ms: int) -> bytes:
    """One call of a schedule, as the JSON document that the function's runtime reads.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-events-structure.html
    """
    event = {
        "version": "0",
        "id": event_id,
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT_ID,
        "time": _timestamp(time_ms, "seconds"),
        "region": REGION,
        "resources": [rule_arn],
        "detail": {},
    }
    return json.dumps(event, separators=(",", ":")).encode()


def failed_run(
    event: bytes,
    outcome: Outcome,
    *,
    function_arn: str,
    attempts: int,
    request_id: str,
    time_ms: int,
) -> dict[str, Any]:
    """What Lambda tells the on-failure queue of a run that nobody waited for: event and error.

    https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html
    """
    said = outcome.payload if outcome.kind is OutcomeKind.FUNCTION_ERROR else b""
    if len(said) > _SAID_BYTES_MAX:
        said = b""
    return {
        "version": "1.0",
        "timestamp": _timestamp(time_ms, "milliseconds"),
        "requestContext": {
            "requestId": request_id,
            "functionArn": f"{function_arn}:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": attempts,
        },
        "requestPayload": json.loads(event),
        "responseContext": {
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": "Unhandled",
        },
        "responsePayload": json.loads(said) if said else None,
    }


def _timestamp(time_ms: int, timespec: str) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")
