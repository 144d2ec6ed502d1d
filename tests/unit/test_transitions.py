"""What single transitions mean for the attempts around them."""

from __future__ import annotations

import pytest

from oncekey.record import Effects, Status
from oncekey.transition_rules import applied, permitted
from oncekey.transitions import Complete, MarkUnknown, Release, Resume, Settle, TakeOver, Transition
from tests.support.records import NOW_MS, record
from tests.support.transition_rows import DOUBT, ENDING, LATER, LEASE, OUR_VERSION, PK, RETRY


@pytest.mark.requirement("D5")
def test_two_resumes_from_one_reading_do_not_both_win() -> None:
    """Of two requests that saw one failed record, the second finds that it has changed.

    Red when `Resume` is permitted without comparing owner and rev.
    """
    failed = record(status=Status.FAILED_RETRYABLE, lease_until_ms=None, due=None)
    first, second = (Resume(pk=PK, seen=OUR_VERSION, lease=LEASE) for _ in range(2))

    after = applied(first, failed)

    assert permitted(first, failed)
    assert not permitted(second, after)


@pytest.mark.case(4)
@pytest.mark.parametrize(
    "late",
    [
        Complete(pk=PK, owner="owner-1", ending=ENDING),
        Release(pk=PK, owner="owner-1", retry=RETRY),
        MarkUnknown(pk=PK, owner="owner-1", doubt=DOUBT),
    ],
    ids=lambda late: type(late).__name__,
)
def test_a_late_owner_changes_nothing_after_a_takeover(late: Transition) -> None:
    """Completion, release and doubt of an owner whose lease was taken over are all refused.

    Red when one of the three is permitted without comparing the owner.
    """
    dead = record(effects=Effects.REPEATABLE, lease_until_ms=NOW_MS - 1)
    taken = applied(TakeOver(pk=PK, seen=OUR_VERSION, lease=LEASE, now_ms=NOW_MS), dead)
    completed = applied(Complete(pk=PK, owner=LEASE.owner, ending=ENDING), taken)

    assert not permitted(late, taken)
    assert not permitted(late, completed)


def test_a_settlement_is_not_taken_for_the_owners_own_write() -> None:
    """Settling writes a fresh owner, so that the late owner sees another's completion."""
    unknown = record(status=Status.UNKNOWN)

    settled = applied(Settle(pk=PK, seen_owner="owner-1", new_owner="owner-9", to=ENDING), unknown)

    assert settled.owner == "owner-9"


def test_an_unknown_outcome_keeps_its_lease() -> None:
    """Marking an outcome unknown leaves lease and owner as evidence, and names the reason."""
    after = applied(MarkUnknown(pk=PK, owner="owner-1", doubt=DOUBT), record())

    assert after.lease_until_ms == record().lease_until_ms
    assert after.owner == "owner-1"
    assert (after.last_error, after.due) == ("lease-expired", LATER)


def test_a_new_attempt_is_the_next_of_the_same_operation() -> None:
    """A resumed operation keeps its id, counts the attempt, and takes the new lease."""
    failed = record(status=Status.FAILED_RETRYABLE, lease_until_ms=None, due=None)

    after = applied(Resume(pk=PK, seen=OUR_VERSION, lease=LEASE), failed)

    assert (after.operation_id, after.attempt) == (failed.operation_id, failed.attempt + 1)
    assert (after.owner, after.lease_until_ms, after.due) == (LEASE.owner, LEASE.until_ms, LATER)
    assert after.effects is LEASE.effects
    assert after.last_error is None


def test_an_applied_transition_without_a_record_is_a_bug() -> None:
    """Applying anything but a reserve to nothing says that the library is at fault."""
    with pytest.raises(AssertionError, match="Bug: Complete was applied to an absent record"):
        applied(Complete(pk=PK, owner="owner-1", ending=ENDING), None)
