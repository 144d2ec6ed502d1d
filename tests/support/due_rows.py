"""The rows of the contract's table for what is looked at and stays what it is."""

from __future__ import annotations

from oncekey.record.transitions import Reschedule
from tests.support.records import NOW_MS
from tests.support.transition_rows import (
    FAILED,
    LATER,
    LOOKED_AT,
    PENDING,
    PK,
    UNKNOWN,
    Row,
    changing,
)

DUE_ROWS = [
    Row(
        name="UNKNOWN, PENDING, half done -> the same, due later, by the reconciler",
        build=lambda seen: Reschedule(pk=PK, seen=seen, due=LATER, attempts=3),
        to=None,
        from_status=UNKNOWN | FAILED | PENDING,
        owner=True,
        rev=True,
        due=True,
        changes=changing(*LOOKED_AT),
    ),
    Row(
        name="UNKNOWN, PENDING, half done -> the same, escalated, by the reconciler",
        build=lambda seen: Reschedule(
            pk=PK, seen=seen, due=LATER, attempts=3, escalated_at_ms=NOW_MS
        ),
        to=None,
        from_status=UNKNOWN | FAILED | PENDING,
        owner=True,
        rev=True,
        due=True,
        changes=changing(*LOOKED_AT),
    ),
]
