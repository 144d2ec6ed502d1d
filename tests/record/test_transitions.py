"""What single transitions mean for the attempts around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Effects, Record, Status
from oncekey.record.rules import applied, permitted
from oncekey.record.steps import Steps
from oncekey.record.transitions import (
    ClearStep,
    Complete,
    FinishStep,
    MarkUnknown,
    Release,
    Resume,
    Settle,
    SettleStep,
    StartStep,
    TakeOver,
    Transition,
    seen,
)
from tests.support.records import FINISHED, NOW_MS, REACHED, STARTED, STEPS, record
from tests.support.replacing import replace
from tests.support.transition_rows import (
    CHARGED,
    DOUBT,
    ENDING,
    ESCALATED,
    HALF_DONE,
    LATER,
    LEASE,
    OTHER_STEP,
    OUR_VERSION,
    PK,
    RECORDED_LEASE,
    RETRY,
)

if TYPE_CHECKING:
    from oncekey.record.steps import FinishedStep
    from oncekey.record.transitions import Lease


def recorded(steps: str, status: Status = Status.IN_PROGRESS) -> Record:
    """A record of recorded effects, its lease over, with these of the steps."""
    return record(
        status=status,
        effects=Effects.RECORDED,
        steps=STEPS[steps],
        lease_until_ms=None if status is Status.FAILED_RETRYABLE else NOW_MS - 1,
    )


def settling(**step: Any) -> SettleStep:
    """A resolver's settlement of a step."""
    return SettleStep(pk=PK, seen_owner="owner-1", new_owner="owner-9", retry=HALF_DONE, **step)


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


@pytest.mark.case(4)
@pytest.mark.parametrize(
    "late",
    [
        StartStep(pk=PK, owner="owner-1", step=OTHER_STEP),
        FinishStep(pk=PK, owner="owner-1", step=CHARGED, mark=STARTED.mark),
        FinishStep(pk=PK, owner="owner-1", step=CHARGED, mark=None),
        ClearStep(pk=PK, owner="owner-1", step=STARTED),
        Complete(pk=PK, owner="owner-1", ending=ENDING),
    ],
    ids=["start", "finish", "finish unmarked", "clear", "complete"],
)
def test_a_late_owner_writes_no_step_of_its_successor(late: Transition) -> None:
    """After a takeover no write of the old run is permitted, though the marks count from 1 again.

    Red when a step's write is permitted by its mark, without comparing the owner.
    """
    over = TakeOver(pk=PK, seen=OUR_VERSION, lease=RECORDED_LEASE, now_ms=NOW_MS)
    taken = applied(over, recorded("finished"))
    again = applied(StartStep(pk=PK, owner=RECORDED_LEASE.owner, step=STARTED), taken)

    assert not permitted(late, taken)
    assert not permitted(late, again)


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("lease", [RECORDED_LEASE, LEASE], ids=["recorded", "repeatable"])
def test_a_new_attempt_knows_what_the_old_one_has_finished(lease: Lease) -> None:
    """A takeover and a resume keep every finished step and every recovery point.

    Red when `begun` drops the steps.
    """
    over = TakeOver(pk=PK, seen=OUR_VERSION, lease=lease, now_ms=NOW_MS)
    resume = Resume(pk=PK, seen=OUR_VERSION, lease=lease)

    taken = applied(over, recorded("finished"))
    resumed = applied(resume, recorded("finished", Status.FAILED_RETRYABLE))

    assert taken.steps == resumed.steps == Steps(finished=(FINISHED, REACHED))


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("status", [Status.IN_PROGRESS, Status.UNKNOWN])
def test_with_a_step_in_doubt_its_owner_may_say_nothing_but_unknown(status: Status) -> None:
    """Neither an answer nor a proof settles a step that may have happened.

    Red when `Complete` or `Release` does not ask for the step in doubt.
    """
    doubtful = recorded("finished and started", status)

    assert not permitted(Complete(pk=PK, owner="owner-1", ending=ENDING), doubtful)
    assert not permitted(Release(pk=PK, owner="owner-1", retry=RETRY), doubtful)
    marked = permitted(MarkUnknown(pk=PK, owner="owner-1", doubt=DOUBT), doubtful)
    assert marked is (status is Status.IN_PROGRESS)


def test_doubt_keeps_the_step_that_it_is_about() -> None:
    """A resolver finds on the record which step it is asked for, and what was done before it."""
    doubtful = recorded("finished and started")

    after = applied(MarkUnknown(pk=PK, owner="owner-1", doubt=DOUBT), doubtful)

    assert after.steps == doubtful.steps


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(
    ("step", "finished"),
    [
        ({"finished": CHARGED}, (FINISHED, REACHED, CHARGED)),
        ({"cleared": "charge"}, (FINISHED, REACHED)),
    ],
    ids=["it happened", "it did not"],
)
def test_a_settled_step_is_gone_on_from(
    step: dict[str, Any], finished: tuple[FinishedStep, ...]
) -> None:
    """A settlement settles the step and nothing else: the run that follows makes the writes.

    The record then runs again, under whoever resumes it; its old owner has no say any more.
    Red when `SettleStep` leaves the owner or the mark, or completes the record.
    """
    unknown = recorded("finished and started", Status.UNKNOWN)

    settled = applied(settling(**step), unknown)
    resumed = applied(Resume(pk=PK, seen=seen(settled), lease=RECORDED_LEASE), settled)

    assert settled.owner == "owner-9"
    assert settled.status is Status.FAILED_RETRYABLE
    assert settled.steps == Steps(finished=finished)
    assert not permitted(Complete(pk=PK, owner="owner-1", ending=ENDING), settled)
    assert resumed.steps == settled.steps


@pytest.mark.parametrize(
    ("steps", "named"), [("finished and started", "charge"), ("finished", None)]
)
def test_only_the_step_in_doubt_is_settled(steps: str, named: str | None) -> None:
    """A settlement names the step that is in doubt, or none where none is, or it is refused."""
    unknown = recorded(steps, Status.UNKNOWN)

    for name in ("charge", "other", FINISHED.name):
        happened = settling(finished=replace(CHARGED, name=name))
        assert permitted(happened, unknown) is (name == named)
        assert permitted(settling(cleared=name), unknown) is (name == named)
    assert permitted(settling(), unknown) is (named is None)


def test_of_two_settlements_of_one_step_one_is_made() -> None:
    """Of two resolvers that saw the same doubt, the second finds that it is settled."""
    unknown = recorded("started", Status.UNKNOWN)
    happened, did_not = settling(finished=CHARGED), settling(cleared="charge")

    assert not permitted(did_not, applied(happened, unknown))
    assert not permitted(happened, applied(did_not, unknown))


@pytest.mark.requirement("B9")
def test_what_is_half_done_never_expires_and_stays_due() -> None:
    """Finished steps are evidence of what was done: somebody must look, and nothing is evicted.

    Red when a half-done retry gets an expiry or leaves the index.
    """
    after = applied(Release(pk=PK, owner="owner-1", retry=HALF_DONE), recorded("finished"))

    assert (after.expires_at_s, after.due) == (None, LATER)
    assert not after.is_expired(2**62)
    assert after.steps == STEPS["finished"]


@pytest.mark.parametrize("before_ms", [None, NOW_MS - 10_000])
def test_only_an_escalation_says_when_a_person_was_called(before_ms: int | None) -> None:
    """An escalated doubt states its time; another one leaves what the record says."""
    stored = record(escalated_at_ms=before_ms)

    escalated = applied(MarkUnknown(pk=PK, owner="owner-1", doubt=ESCALATED), stored)
    plain = applied(MarkUnknown(pk=PK, owner="owner-1", doubt=DOUBT), stored)

    assert escalated.escalated_at_ms == NOW_MS
    assert plain.escalated_at_ms == before_ms


def test_an_applied_transition_without_a_record_is_a_bug() -> None:
    """Applying anything but a reserve to nothing says that the library is at fault."""
    with pytest.raises(AssertionError, match="Bug: Complete was applied to an absent record"):
        applied(Complete(pk=PK, owner="owner-1", ending=ENDING), None)
