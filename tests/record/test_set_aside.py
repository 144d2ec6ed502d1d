"""What a person is told of a message that the queue never accepts."""

from __future__ import annotations

import json

from oncekey.record.set_aside import SetAside
from tests.support.replacing import replace

ASIDE = SetAside(
    id="m-1",
    topic="payment.created",
    operation="POST /payments",
    operation_id="o-1",
    tenant="tenant-1",
    created_at_ms=1_000,
    reason="InvalidMessageContents",
    set_aside_at_ms=2_000,
)


def test_the_escalation_says_which_message_why_and_when() -> None:
    """Each field is in the text, but not the payload."""
    told = json.loads(ASIDE.escalation())

    assert told.pop("id")
    assert told == {
        "topic": "oncekey.set-aside",
        "message_id": "m-1",
        "message_topic": "payment.created",
        "operation": "POST /payments",
        "operation_id": "o-1",
        "tenant": "tenant-1",
        "reason": "InvalidMessageContents",
        "created_at_ms": 1_000,
        "set_aside_at_ms": 2_000,
    }


def test_an_escalation_that_is_sent_again_is_the_same_message() -> None:
    """Its id is that of one message set aside at one time, so that a reader can deduplicate."""
    others = [replace(ASIDE, id="m-2"), replace(ASIDE, set_aside_at_ms=2_001)]

    ids = [json.loads(each.escalation())["id"] for each in (ASIDE, ASIDE, *others)]

    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
