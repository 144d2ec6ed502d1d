"""What each transition leaves in the table, attribute by attribute, in literals of DynamoDB's own.

Written apart from the rules and from the expressions, so that both cannot be wrong together: every
item below has every attribute, and a row names each that changes. All others stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Due, Effects
from oncekey.record.steps import FinishedStep, StartedStep
from oncekey.record.transitions import (
    Begin,
    ClearStep,
    Complete,
    Doubt,
    Ending,
    Enqueue,
    ExpireLease,
    FinishStep,
    LateEffect,
    Lease,
    MarkUnknown,
    Release,
    Reschedule,
    Resume,
    Retry,
    Seen,
    Settle,
    SettlePending,
    SettleStep,
    StartStep,
    TakeOver,
    TimeOut,
    Transition,
    Waiting,
)
from oncekey.store.dynamodb.codec import record_from_item
from oncekey.store.store import Written
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import TABLE, store_on

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PK = "v1#an-item-with-every-attribute"
NOW_MS = 1_700_000_000_000
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"

# Every attribute, each with a value that no transition writes.
WHOLE: dict[str, Any] = {
    "pk": {"S": PK},
    "status": {"S": "?"},
    "rev": {"N": "7"},
    "tenant": {"S": "acme"},
    "principal": {"S": "alice"},
    "operation": {"S": "POST /payments"},
    "key": {"S": "a-key-of-sixteen"},
    "operation_id": {"S": ID},
    "fingerprint": {"S": "f1:0000"},
    "owner": {"S": "old-owner"},
    "attempt": {"N": "1"},
    "effects": {"S": "repeatable"},
    "created_at": {"N": str(NOW_MS - 90_000)},
    "lease_until": {"N": str(NOW_MS - 10_000)},
    "completed_at": {"N": str(NOW_MS - 5_000)},
    "expires_at": {"N": str(NOW_MS // 1000 + 77)},
    "due_shard": {"S": "3"},
    "due_at": {"N": str(NOW_MS - 1_000)},
    "response": {"S": "an old answer"},
    "response_version": {"N": "9"},
    "reconcile_attempts": {"N": "4"},
    "last_error": {"S": "an old error"},
    "escalated_at": {"N": str(NOW_MS - 2_000)},
    "request": {"S": "a kept request"},
    "request_digest": {"S": "an old digest"},
}
MARK = {
    "M": {"name": {"S": "charge"}, "position": {"N": "0"}, "mark": {"N": "2"}, "at": {"N": "11"}}
}
HELD = {"M": {"position": {"N": "0"}, "at": {"N": "12"}, "result": {"S": "held"}}}


def steps(*, started: Any = None, **finished: Any) -> dict[str, Any]:
    """The attribute of a recorded operation's steps."""
    fields: dict[str, Any] = {"finished": {"M": finished}}
    return {"M": fields if started is None else fields | {"started": started}}


RECORDED = {"effects": {"S": "recorded"}, "steps": steps()}
IN_DOUBT = {"effects": {"S": "recorded"}, "steps": steps(started=MARK)}

SEEN = Seen(owner="old-owner", rev=7)
DUE = Due(shard="5", at_ms=NOW_MS + 60_000)
DUE_SET = {"due_shard": {"S": "5"}, "due_at": {"N": str(NOW_MS + 60_000)}}
TURNS = ("reconcile_attempts", "escalated_at")

ENDING = Ending(
    response="the answer", completed_at_ms=NOW_MS, expires_at_s=1_800_000_000, response_version=2
)
ENDING_SET = {
    "status": {"S": "COMPLETED"},
    "response": {"S": "the answer"},
    "response_version": {"N": "2"},
    "completed_at": {"N": str(NOW_MS)},
    "expires_at": {"N": "1800000000"},
}
ENDING_REMOVED = ("lease_until", "due_shard", "due_at", "last_error", "request", "request_digest")

RETRY = Retry(reason="a reason", expires_at_s=1_800_000_001)
RETRY_SET = {
    "status": {"S": "FAILED_RETRYABLE"},
    "last_error": {"S": "a reason"},
    "expires_at": {"N": "1800000001"},
}
RETRY_REMOVED = ("lease_until", "due_shard", "due_at", *TURNS)

HALF_DONE = Retry(reason="a reason", expires_at_s=None, due=DUE)
HALF_DONE_SET = {
    "status": {"S": "FAILED_RETRYABLE"},
    "last_error": {"S": "a reason"},
    **DUE_SET,
}
HALF_DONE_REMOVED = ("lease_until", "expires_at", *TURNS)

DOUBT = Doubt(reason="a doubt", due=DUE)
DOUBT_SET = {"status": {"S": "UNKNOWN"}, "last_error": {"S": "a doubt"}, **DUE_SET}
ESCALATED = Doubt(reason="a doubt", due=DUE, escalated_at_ms=NOW_MS)
ESCALATED_SET = DOUBT_SET | {"escalated_at": {"N": str(NOW_MS)}}

LEASE = Lease(owner="new-owner", until_ms=NOW_MS + 30_000, due=DUE, effects=Effects.REPEATABLE)
RECORDED_LEASE = Lease(
    owner="new-owner", until_ms=NOW_MS + 30_000, due=DUE, effects=Effects.RECORDED
)
BEGIN_SET = {
    "status": {"S": "IN_PROGRESS"},
    "owner": {"S": "new-owner"},
    "effects": {"S": "repeatable"},
    "lease_until": {"N": str(NOW_MS + 30_000)},
    **DUE_SET,
}
RECORDED_BEGIN_SET = BEGIN_SET | {"effects": {"S": "recorded"}}
BEGIN_REMOVED = ("expires_at", "last_error", *TURNS)
NEXT = {"attempt": {"N": "2"}}
FRESH = {"owner": {"S": "new-owner"}}

CHARGED = FinishedStep(name="charge", position=0, at_ms=NOW_MS, result="charged")
CHARGED_VALUE = {
    "M": {"position": {"N": "0"}, "at": {"N": str(NOW_MS)}, "result": {"S": "charged"}}
}
DECLINED = FinishedStep(name="charge", position=0, at_ms=NOW_MS, result="no", is_final=True)
DECLINED_VALUE = {
    "M": {
        "position": {"N": "0"},
        "at": {"N": str(NOW_MS)},
        "result": {"S": "no"},
        "final": {"BOOL": True},
    }
}
POINT = FinishedStep(name="made", position=1, at_ms=NOW_MS)
POINT_VALUE = {"M": {"position": {"N": "1"}, "at": {"N": str(NOW_MS)}}}
STARTING = StartedStep(name="charge", position=1, mark=5, at_ms=NOW_MS)
STARTING_VALUE = {
    "M": {
        "name": {"S": "charge"},
        "position": {"N": "1"},
        "mark": {"N": "5"},
        "at": {"N": str(NOW_MS)},
    }
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A transition from an item of this `status`, what it sets, and what it removes."""

    name: str
    status: str
    by: Transition
    sets: dict[str, Any]
    removes: tuple[str, ...] = ()
    before: dict[str, Any] | None = None  # what the item has otherwise than `WHOLE`


ROWS = [
    Row(
        name="resume",
        status="FAILED_RETRYABLE",
        by=Resume(pk=PK, seen=SEEN, lease=LEASE),
        sets=BEGIN_SET | NEXT,
        removes=BEGIN_REMOVED,
    ),
    Row(
        name="resume of recorded work keeps what is finished",
        status="FAILED_RETRYABLE",
        before={"effects": {"S": "recorded"}, "steps": steps(hold=HELD)},
        by=Resume(pk=PK, seen=SEEN, lease=RECORDED_LEASE),
        sets=RECORDED_BEGIN_SET | NEXT | {"steps": steps(hold=HELD)},
        removes=BEGIN_REMOVED,
    ),
    Row(
        name="takeover",
        status="IN_PROGRESS",
        by=TakeOver(pk=PK, seen=SEEN, lease=LEASE, now_ms=NOW_MS),
        sets=BEGIN_SET | NEXT,
        removes=BEGIN_REMOVED,
    ),
    Row(
        name="begin",
        status="PENDING",
        by=Begin(pk=PK, seen_owner="old-owner", lease=LEASE),
        sets=BEGIN_SET,
        removes=BEGIN_REMOVED,
    ),
    Row(
        name="enqueue",
        status="FAILED_RETRYABLE",
        by=Enqueue(
            pk=PK,
            seen=SEEN,
            waiting=Waiting(
                owner="new-owner", due=DUE, effects=Effects.REPEATABLE, request_digest="a digest"
            ),
        ),
        sets={
            "status": {"S": "PENDING"},
            "effects": {"S": "repeatable"},
            "request_digest": {"S": "a digest"},
            **FRESH,
            **NEXT,
            **DUE_SET,
        },
        removes=("expires_at", "last_error", *TURNS),
    ),
    Row(
        name="time out",
        status="PENDING",
        by=TimeOut(pk=PK, seen_owner="old-owner", ending=ENDING),
        sets=ENDING_SET,
        removes=ENDING_REMOVED,
    ),
    Row(
        name="a dead attempt becomes unknown: its owner and its lease stay",
        status="IN_PROGRESS",
        by=ExpireLease(pk=PK, seen=SEEN, now_ms=NOW_MS, to=DOUBT),
        sets=DOUBT_SET,
    ),
    Row(
        name="a dead attempt becomes retryable: its owner stays",
        status="IN_PROGRESS",
        by=ExpireLease(pk=PK, seen=SEEN, now_ms=NOW_MS, to=RETRY),
        sets=RETRY_SET,
        removes=RETRY_REMOVED,
    ),
    Row(
        name="a dead attempt is half done",
        status="IN_PROGRESS",
        before={"effects": {"S": "recorded"}, "steps": steps(hold=HELD)},
        by=ExpireLease(pk=PK, seen=SEEN, now_ms=NOW_MS, to=HALF_DONE),
        sets=HALF_DONE_SET,
        removes=HALF_DONE_REMOVED,
    ),
    Row(
        name="complete",
        status="IN_PROGRESS",
        by=Complete(pk=PK, owner="old-owner", ending=ENDING),
        sets=ENDING_SET,
        removes=ENDING_REMOVED,
    ),
    Row(
        name="complete, late",
        status="UNKNOWN",
        by=Complete(pk=PK, owner="old-owner", ending=ENDING),
        sets=ENDING_SET,
        removes=ENDING_REMOVED,
    ),
    Row(
        name="release",
        status="IN_PROGRESS",
        by=Release(pk=PK, owner="old-owner", retry=RETRY),
        sets=RETRY_SET,
        removes=RETRY_REMOVED,
    ),
    Row(
        name="mark unknown: the lease stays",
        status="IN_PROGRESS",
        before=IN_DOUBT,
        by=MarkUnknown(pk=PK, owner="old-owner", doubt=DOUBT),
        sets=DOUBT_SET,
    ),
    Row(
        name="mark unknown and escalated",
        status="IN_PROGRESS",
        by=MarkUnknown(pk=PK, owner="old-owner", doubt=ESCALATED),
        sets=ESCALATED_SET,
    ),
    Row(
        name="settle as completed: the owner is a fresh one",
        status="UNKNOWN",
        by=Settle(pk=PK, seen_owner="old-owner", new_owner="new-owner", to=ENDING),
        sets=ENDING_SET | FRESH,
        removes=ENDING_REMOVED,
    ),
    Row(
        name="settle as not executed: the owner is a fresh one",
        status="UNKNOWN",
        by=Settle(pk=PK, seen_owner="old-owner", new_owner="new-owner", to=RETRY),
        sets=RETRY_SET | FRESH,
        removes=RETRY_REMOVED,
    ),
    Row(
        name="a late effect: the owner is a fresh one",
        status="FAILED_RETRYABLE",
        by=LateEffect(pk=PK, seen=SEEN, new_owner="new-owner", ending=ENDING),
        sets=ENDING_SET | FRESH,
        removes=ENDING_REMOVED,
    ),
    Row(
        name="settle what no worker has begun: the owner is a fresh one",
        status="PENDING",
        by=SettlePending(pk=PK, seen=SEEN, new_owner="new-owner", ending=ENDING),
        sets=ENDING_SET | FRESH,
        removes=ENDING_REMOVED,
    ),
    Row(
        name="settle a step as finished",
        status="UNKNOWN",
        before=IN_DOUBT,
        by=SettleStep(
            pk=PK, seen_owner="old-owner", new_owner="new-owner", retry=HALF_DONE, finished=CHARGED
        ),
        sets=HALF_DONE_SET | FRESH | {"steps": steps(charge=CHARGED_VALUE)},
        removes=HALF_DONE_REMOVED,
    ),
    Row(
        name="settle a step as never executed",
        status="UNKNOWN",
        before=IN_DOUBT,
        by=SettleStep(
            pk=PK, seen_owner="old-owner", new_owner="new-owner", retry=RETRY, cleared="charge"
        ),
        sets=RETRY_SET | FRESH | {"steps": steps()},
        removes=RETRY_REMOVED,
    ),
    Row(
        name="look again",
        status="UNKNOWN",
        by=Reschedule(pk=PK, seen=SEEN, due=DUE, attempts=5),
        sets={"reconcile_attempts": {"N": "5"}, **DUE_SET},
    ),
    Row(
        name="look again, escalated",
        status="UNKNOWN",
        by=Reschedule(pk=PK, seen=SEEN, due=DUE, attempts=5, escalated_at_ms=NOW_MS),
        sets={"reconcile_attempts": {"N": "5"}, "escalated_at": {"N": str(NOW_MS)}, **DUE_SET},
    ),
    Row(
        name="start a step",
        status="IN_PROGRESS",
        before={"effects": {"S": "recorded"}, "steps": steps(hold=HELD)},
        by=StartStep(pk=PK, owner="old-owner", step=STARTING),
        sets={"steps": steps(started=STARTING_VALUE, hold=HELD)},
    ),
    Row(
        name="finish a marked step",
        status="IN_PROGRESS",
        before={"effects": {"S": "recorded"}, "steps": steps(started=MARK, hold=HELD)},
        by=FinishStep(pk=PK, owner="old-owner", step=CHARGED, mark=2),
        sets={"steps": steps(charge=CHARGED_VALUE, hold=HELD)},
    ),
    Row(
        name="finish an idempotent step with a final answer",
        status="IN_PROGRESS",
        before=RECORDED,
        by=FinishStep(pk=PK, owner="old-owner", step=DECLINED, mark=None),
        sets={"steps": steps(charge=DECLINED_VALUE)},
    ),
    Row(
        name="reach a recovery point",
        status="IN_PROGRESS",
        before={"effects": {"S": "recorded"}, "steps": steps(hold=HELD)},
        by=FinishStep(pk=PK, owner="old-owner", step=POINT, mark=None),
        sets={"steps": steps(hold=HELD, made=POINT_VALUE)},
    ),
    Row(
        name="clear a step",
        status="IN_PROGRESS",
        before={"effects": {"S": "recorded"}, "steps": steps(started=MARK, hold=HELD)},
        by=ClearStep(
            pk=PK,
            owner="old-owner",
            step=StartedStep(name="charge", position=0, mark=2, at_ms=11),
        ),
        sets={"steps": steps(hold=HELD)},
    ),
]


def before(row: Row) -> dict[str, Any]:
    """The item that the row's transition meets."""
    return WHOLE | {"status": {"S": row.status}} | (row.before or {})


def after(row: Row) -> dict[str, Any]:
    """The item that it must leave."""
    item = before(row) | {"rev": {"N": "8"}} | row.sets
    return {name: value for name, value in item.items() if name not in row.removes}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_transition_leaves_exactly_this_item(client: DynamoDBClient, row: Row) -> None:
    """A transition sets and removes the attributes of its row, and leaves all others as they were.

    Red when a write forgets an attribute, clears one that stays, or keeps the owner where a fresh
    one fences a late owner off: in DynamoDB's expressions and in the rules alike.
    """
    client.put_item(TableName=TABLE, Item=before(row))
    reference = MemoryStore()
    reference.records[PK] = record_from_item(before(row))

    assert store_on(client).write(row.by) == Written()
    assert reference.write(row.by) == Written()

    left = client.get_item(TableName=TABLE, Key={"pk": {"S": PK}})["Item"]
    assert left == after(row)
    assert reference.records[PK] == record_from_item(after(row))


def test_every_transition_of_an_existing_record_has_its_row() -> None:
    """A new transition is stated here as well."""
    others = {kind.__name__ for kind in Transition.__args__} - {"Reserve"}

    assert {type(row.by).__name__ for row in ROWS} == others
