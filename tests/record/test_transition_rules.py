"""Every transition over every record: permitted exactly by its row, and what it leaves."""

from __future__ import annotations

import pytest

from oncekey.record.record import Effects, Record, Status
from oncekey.record.rules import applied, permitted
from oncekey.record.transitions import Reserve
from tests.support.due_rows import DUE_ROWS
from tests.support.records import NOW_MS, NOW_S, STEPS, every_record, record
from tests.support.transition_rows import (
    COMPLETED,
    ENDING,
    FAILED,
    FRESH,
    OUR_VERSION,
    RETRY,
    VERSIONS,
    Row,
)
from tests.support.transition_table import NEVER, TABLE

every_row = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
every_write = pytest.mark.parametrize("row", TABLE + DUE_ROWS, ids=lambda row: row.name)


def possible(stored: Record) -> bool:
    """Whether a record can arise.

    What is settled has an expiry, unless it is half done, and no lease; of the rest, what waits has
    neither, what runs or is unknown has a lease, and somebody is to look at all of it.
    """
    settled = stored.status in COMPLETED | FAILED
    half_done = stored.status in FAILED and bool(stored.steps.finished)
    expires = stored.expires_at_s is not None
    has_no_lease = settled or stored.status is Status.PENDING
    expected = (settled and not half_done, has_no_lease)
    is_looked_at = stored.due is not None or (settled and not half_done)
    return is_looked_at and expected == (expires, stored.lease_until_ms is None)


def outcomes(row: Row) -> list[tuple[Record, Record]]:
    """Every possible record that the row permits, and what it leaves of it."""
    transition = row.build(OUR_VERSION)
    return [
        (before, applied(transition, before))
        for before in every_record()
        if possible(before) and permitted(transition, before)
    ]


@pytest.mark.requirement("D5")
@pytest.mark.parametrize("row", TABLE + DUE_ROWS + NEVER, ids=lambda row: row.name)
def test_a_transition_is_permitted_exactly_when_its_row_says_so(row: Row) -> None:
    """Over every record and every version seen, a transition is permitted exactly by its row.

    Red when `permitted` leaves out any one of status, owner, rev, lease, expiry,
    effects, or the step in doubt, its mark or its absence.
    """
    wrong = [
        (stored, named)
        for named, version in VERSIONS.items()
        for stored in (None, *every_record())
        if permitted(row.build(version), stored) != row.permits(stored, version)
    ]

    assert wrong == []


@every_write
def test_a_row_permits_some_record(row: Row) -> None:
    """No row of the table is dead."""
    assert row.from_absent or outcomes(row)


@every_row
def test_a_transition_leads_where_its_row_says(row: Row) -> None:
    """After a permitted transition the record has the row's state."""
    assert {after.status for _, after in outcomes(row)} == {row.to}


@pytest.mark.case(30)
@every_write
def test_a_transition_changes_its_named_fields_only(row: Row) -> None:
    """A transition keeps every field that it does not name: fingerprint, key, creation and all.

    Red when `applied` builds the record anew, or an update drops the fingerprint.
    """
    changed = {
        field.name
        for before, after in outcomes(row)
        for field in Record.fields_.values()
        if getattr(before, field.name) != getattr(after, field.name)
    }

    assert changed <= row.changes


@every_write
def test_every_write_counts(row: Row) -> None:
    """A write to a living record makes its rev one more; a new life begins at 1."""
    revs = {after.rev for _, after in outcomes(row)}

    assert revs == ({1} if row.from_absent else {record().rev + 1})


@pytest.mark.requirement("B9")
@every_row
def test_only_settled_records_carry_an_expiry(row: Row) -> None:
    """After a transition the record carries an expiry exactly if it is settled and not half done.

    Red when a resumed record keeps its expiry, or an unknown or a half-done one gets one.
    """
    settled = row.to in COMPLETED | FAILED and not row.half_done

    assert {after.expires_at_s is not None for _, after in outcomes(row)} == {settled}


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("status", [Status.IN_PROGRESS, Status.UNKNOWN])
def test_nothing_in_doubt_is_reserved_afresh(status: Status) -> None:
    """A record in progress or unknown is never treated as expired, whatever it carries.

    Red when `is_expired` does not ask whether the record is settled.
    """
    stored = record(status=status, expires_at_s=1)

    assert not permitted(Reserve(record=FRESH, now_ms=NOW_MS), stored)


@every_row
def test_what_is_settled_leaves_the_index_and_all_else_stays_in_it(row: Row) -> None:
    """Settling removes the due entry and the lease; whoever must look at the rest finds it.

    What is half done stays in the index.
    """
    settled = row.to in COMPLETED | FAILED

    assert {after.due is None for _, after in outcomes(row)} == {settled and not row.half_done}
    if settled:
        assert {after.lease_until_ms for _, after in outcomes(row)} == {None}


@pytest.mark.case(18)
@pytest.mark.parametrize(
    "row", [row for row in TABLE if row.to in COMPLETED | FAILED], ids=lambda row: row.name
)
def test_an_expiry_counts_from_its_own_transition(row: Row) -> None:
    """The record's expiry is the one that this transition states, never an inherited one.

    Red when `ended` keeps an expiry that the record has already.
    """
    stated: dict[Status | None, int | None] = {
        Status.COMPLETED: ENDING.expires_at_s,
        Status.FAILED_RETRYABLE: RETRY.expires_at_s,
    }
    old = record(
        status=next(iter(row.from_status)),
        attempt=1,
        expires_at_s=NOW_S - 1,
        lease_until_ms=NOW_MS - 1,
        effects=Effects.REPEATABLE if Effects.REPEATABLE in row.effects else Effects.RECORDED,
        steps=STEPS["started" if row.doubt else "none"],
    )
    transition = row.build(OUR_VERSION)

    assert permitted(transition, old)
    assert applied(transition, old).expires_at_s == (None if row.half_done else stated[row.to])
