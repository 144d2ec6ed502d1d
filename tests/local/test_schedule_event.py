"""The events of schedules, and when the next is due."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from oncekey_local.description import ScheduleTrigger
from oncekey_local.events.schedule_event import event_bytes, failed_run
from oncekey_local.events.schedule_pump import next_call_in_s
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from tests.support.events import load

SAMPLE = load("eventbridge_schedule")
ARN = "arn:aws:lambda:us-east-1:123456789012:function:payments-local-reconciler"


def time_ms(text: str) -> int:
    """A moment."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def sample() -> bytes:
    """The sample event, made anew."""
    return event_bytes(
        rule_arn=SAMPLE["resources"][0],
        event_id=SAMPLE["id"],
        time_ms=time_ms("2026-11-28T09:00:00.900"),
    )


def test_an_event_is_eventbridges() -> None:
    """The local runtime calls with the event that EventBridge would send, to the second."""
    assert json.loads(sample()) == SAMPLE


@pytest.mark.parametrize(
    ("kind", "payload", "said"),
    [
        (OutcomeKind.FUNCTION_ERROR, b'{"errorType":"E"}', {"errorType": "E"}),
        (OutcomeKind.FUNCTION_ERROR, b"", None),
        (OutcomeKind.FUNCTION_ERROR, b'"%s"' % (b"x" * 200_000), None),
        (OutcomeKind.TIMED_OUT, b"", None),
    ],
)
def test_a_failed_run_is_told_as_lambda_does(
    kind: OutcomeKind, payload: bytes, said: object
) -> None:
    """The queue is told the event, so that it can be sent again, and the error, if it fits."""
    told = failed_run(
        sample(),
        Outcome(kind=kind, payload=payload),
        function_arn=ARN,
        attempts=3,
        request_id="r",
        time_ms=time_ms("2026-11-28T09:01:00.007"),
    )

    assert told == {
        "version": "1.0",
        "timestamp": "2026-11-28T09:01:00.007Z",
        "requestContext": {
            "requestId": "r",
            "functionArn": f"{ARN}:$LATEST",
            "condition": "RetriesExhausted",
            "approximateInvokeCount": 3,
        },
        "requestPayload": SAMPLE,
        "responseContext": {
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": "Unhandled",
        },
        "responsePayload": said,
    }


@pytest.mark.parametrize(
    ("hour", "now", "left_s"),
    [
        (3, "2026-11-28T02:59:59.500", 0.5),
        (3, "2026-11-28T03:00:00.000", 86_400),
        (3, "2026-11-28T03:00:00.001", 86_399.999),
        (0, "2026-11-28T23:59:00.000", 60),
        (23, "2026-11-28T00:00:00.000", 82_800),
    ],
)
def test_a_daily_call_is_due_on_the_hour(hour: int, now: str, left_s: float) -> None:
    """A daily call comes at its hour UTC, and never twice within it."""
    trigger = ScheduleTrigger(daily_at_hour_utc=hour)

    assert next_call_in_s(trigger, None, time_ms(now)) == left_s


def test_a_call_every_so_often_waits_for_its_period() -> None:
    """The first call comes when a period is over, as EventBridge's does."""
    assert next_call_in_s(ScheduleTrigger(every_minutes=2), 120.0, time_ms("2026-11-28")) == 120
