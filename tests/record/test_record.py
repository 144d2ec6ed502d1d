"""What a record says about time, and what it shows."""

from __future__ import annotations

import pytest

from oncekey.record.record import SETTLED, Due, Effects, Status
from tests.support.records import NOW_MS, NOW_S, STEPS, record


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED_RETRYABLE])
def test_a_settled_record_expires_exactly_at_its_second(status: Status) -> None:
    """Until the last millisecond before its second a record lives; from then on it is expired."""
    settled = record(status=status, expires_at_s=NOW_S)

    assert not settled.is_expired(NOW_S * 1000 - 1)
    assert settled.is_expired(NOW_S * 1000)
    assert settled.is_expired(NOW_S * 1000 + 1)


@pytest.mark.requirement("B9")
@pytest.mark.parametrize("status", [Status.IN_PROGRESS, Status.UNKNOWN])
def test_what_is_not_settled_never_expires(status: Status) -> None:
    """A record in progress or unknown is not expired, whatever it carries.

    Red when `is_expired` does not ask for the state.
    """
    assert not record(status=status, expires_at_s=1).is_expired(NOW_MS)


@pytest.mark.parametrize("status", Status)
def test_a_record_without_an_expiry_never_expires(status: Status) -> None:
    """An absent expiry means for ever, not at once."""
    assert not record(status=status, expires_at_s=None).is_expired(2**62)


def test_a_lease_is_over_after_its_last_millisecond() -> None:
    """At its end a lease still holds; a millisecond later it is over."""
    held = record(lease_until_ms=NOW_MS)

    assert not held.is_lease_over(NOW_MS - 1)
    assert not held.is_lease_over(NOW_MS)
    assert held.is_lease_over(NOW_MS + 1)


@pytest.mark.case(3)
def test_an_absent_lease_is_never_over() -> None:
    """A record without a lease is nobody's to take over.

    Red when an absent lease is read as 0.
    """
    assert not record(lease_until_ms=None).is_lease_over(2**62)


def test_only_what_has_ended_for_good_is_settled() -> None:
    """Completed, and failed with nothing done, are settled; the others are not."""
    assert {Status.COMPLETED, Status.FAILED_RETRYABLE} == SETTLED


@pytest.mark.parametrize("effects", Effects)
@pytest.mark.parametrize(
    ("steps", "is_in_doubt"),
    [("none", False), ("finished", False), ("started", True), ("finished and started", True)],
)
def test_a_record_is_in_doubt_while_a_step_is_started(
    effects: Effects, steps: str, is_in_doubt: bool
) -> None:
    """What is finished is known; what is started and not finished is not."""
    assert record(effects=effects, steps=STEPS[steps]).is_in_doubt is is_in_doubt


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(
    ("effects", "steps", "may"),
    [
        *((Effects.UNRECORDED, steps, False) for steps in STEPS),
        *((Effects.REPEATABLE, steps, True) for steps in STEPS),
        (Effects.RECORDED, "none", True),
        (Effects.RECORDED, "finished", True),
        (Effects.RECORDED, "started", False),
        (Effects.RECORDED, "finished and started", False),
    ],
)
def test_a_dead_run_is_followed_where_that_is_declared_or_exact(
    effects: Effects, steps: str, may: bool
) -> None:
    """Repeatable effects run again; recorded ones go on unless a step is in doubt; others do not.

    Red when `may_run_again` does not ask for the step in doubt, or for the kind of effects.
    """
    assert record(effects=effects, steps=STEPS[steps]).may_run_again is may


@pytest.mark.parametrize("status", Status)
def test_only_a_waiting_job_is_overdue(status: Status) -> None:
    """A job is overdue from its due time on, and stays so once a reconciler has moved that time.

    What runs, or has ended, waits for no worker.
    """
    is_waiting = status is Status.PENDING
    at_its_time = record(status=status, due=Due(shard="1", at_ms=NOW_MS), reconcile_attempts=0)
    moved = record(status=status, due=Due(shard="1", at_ms=NOW_MS + 9), reconcile_attempts=1)

    assert at_its_time.is_overdue(NOW_MS) is is_waiting
    assert not at_its_time.is_overdue(NOW_MS - 1)
    assert moved.is_overdue(NOW_MS) is is_waiting


def test_a_record_shows_no_key_answer_or_fingerprint() -> None:
    """A record in a log or a traceback names operation, state and attempt, and no secret."""
    shown = repr(record(status=Status.COMPLETED, response="4242secret", last_error="4242secret"))

    for secret in ("secret", record().key, record().fingerprint, record().tenant):
        assert secret not in shown
    assert f"{record()!s}" == repr(record())
    assert shown == (
        "Record(operation='POST /payments', operation_id='0f8fad5b-d9cb-469f-a165-70867728950e',"
        " status=COMPLETED, rev=7, attempt=3, owner='owner-1')"
    )
