"""The rows of the contract's table for what is accepted now and worked on later."""

from __future__ import annotations

from oncekey.record.record import Record, Status
from oncekey.record.transitions import Begin, Enqueue, Reserve, SettlePending, TimeOut
from tests.support.records import NOW_MS
from tests.support.transition_rows import (
    ACCEPTED,
    ANSWERS,
    BEGINS,
    COMPLETED,
    ENDING,
    FAILED,
    LEASE,
    PENDING,
    PK,
    RECORDED_LEASE,
    RECORDED_WAITING,
    WAITING,
    WAITS,
    Row,
    changing,
)

PENDING_ROWS = [
    Row(
        name="absent, or settled and expired -> PENDING by reserve",
        build=lambda _: Reserve(record=ACCEPTED, now_ms=NOW_MS),
        to=Status.PENDING,
        from_status=COMPLETED | FAILED,
        from_absent=True,
        expired=True,
        changes=changing(*Record.fields_),
    ),
    Row(
        name="FAILED_RETRYABLE -> PENDING by a request",
        build=lambda seen: Enqueue(pk=PK, seen=seen, waiting=WAITING),
        to=Status.PENDING,
        from_status=FAILED,
        owner=True,
        rev=True,
        changes=changing(*WAITS),
    ),
    Row(
        name="FAILED_RETRYABLE -> PENDING by a request, recorded",
        build=lambda seen: Enqueue(pk=PK, seen=seen, waiting=RECORDED_WAITING),
        to=Status.PENDING,
        from_status=FAILED,
        owner=True,
        rev=True,
        changes=changing(*WAITS),
    ),
    Row(
        name="PENDING -> IN_PROGRESS by a worker",
        build=lambda seen: Begin(pk=PK, seen_owner=seen.owner, lease=LEASE),
        to=Status.IN_PROGRESS,
        from_status=PENDING,
        owner=True,
        nothing_done=True,
        changes=changing(*BEGINS),
    ),
    Row(
        name="PENDING -> IN_PROGRESS by a worker, recorded",
        build=lambda seen: Begin(pk=PK, seen_owner=seen.owner, lease=RECORDED_LEASE),
        to=Status.IN_PROGRESS,
        from_status=PENDING,
        owner=True,
        changes=changing(*BEGINS),
    ),
    Row(
        name="PENDING, unrecorded or never begun -> COMPLETED by a webhook or operator",
        build=lambda seen: SettlePending(pk=PK, seen=seen, new_owner="owner-9", ending=ENDING),
        to=Status.COMPLETED,
        from_status=PENDING,
        owner=True,
        rev=True,
        unrecorded_or_never_begun=True,
        changes=changing(*ANSWERS, "owner"),
    ),
    Row(
        name="PENDING, never begun -> COMPLETED (408) by whoever meets it too late",
        build=lambda seen: TimeOut(pk=PK, seen_owner=seen.owner, ending=ENDING),
        to=Status.COMPLETED,
        from_status=PENDING,
        owner=True,
        never_begun=True,
        changes=changing(*ANSWERS),
    ),
]
