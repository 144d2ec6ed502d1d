"""What each change of a record sets and clears, field by field. All other fields stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.changes import begun, ended, waiting
from oncekey.record.policy import LONGEST_WORK_S, Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.rules import applied
from oncekey.record.transitions import (
    Doubt,
    Ending,
    LateEffect,
    Lease,
    Reschedule,
    Retry,
    Seen,
    Settle,
    SettlePending,
    SettleStep,
    Transition,
    Waiting,
)
from tests.support.records import NOW_MS, NOW_S, record
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LATER = Due(shard="7", at_ms=NOW_MS + 5)
OTHER = Policy(encoding=Encoding.RESULT, retention_s=60)
BEFORE = replace(record(), expires_at_s=NOW_S + 9, request_digest="digest of the first event")
WAITING = Waiting(owner="next", due=LATER, effects=Effects.RECORDED, request_digest="of this one")
LEASE = Lease(owner="next", until_ms=NOW_MS + 3, due=LATER, effects=Effects.REPEATABLE)
ENDING = Ending(response="{}", response_version=4, completed_at_ms=NOW_MS, expires_at_s=NOW_S + 8)
HALF_DONE = Retry(reason="why", expires_at_s=None, due=LATER)
SEEN = Seen(owner="seen", rev=1)
NOTES_CLEARED = {"last_error": None, "reconcile_attempts": 0, "escalated_at_ms": None}


def changed(before: Record, after: Record) -> dict[str, Any]:
    """The fields that differ, as they are after."""
    return {
        name: value
        for name in Record.__annotations__
        if (value := getattr(after, name)) != getattr(before, name)
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            lambda: waiting(BEFORE, WAITING),
            {
                "status": Status.PENDING,
                "owner": "next",
                "attempt": BEFORE.attempt + 1,
                "effects": Effects.RECORDED,
                "due": LATER,
                "request_digest": "of this one",
                "expires_at_s": None,
                **NOTES_CLEARED,
            },
        ),
        (
            lambda: begun(replace(BEFORE, status=Status.PENDING), LEASE),
            {
                "owner": "next",
                "effects": Effects.REPEATABLE,
                "lease_until_ms": NOW_MS + 3,
                "due": LATER,
                "expires_at_s": None,
                **NOTES_CLEARED,
            },
        ),
        (
            lambda: ended(BEFORE, ENDING),
            {
                "status": Status.COMPLETED,
                "response": "{}",
                "response_version": 4,
                "completed_at_ms": NOW_MS,
                "expires_at_s": NOW_S + 8,
                "lease_until_ms": None,
                "due": None,
                "last_error": None,
                "request": None,
                "request_digest": None,
            },
        ),
        (
            lambda: ended(BEFORE, HALF_DONE),
            {
                "status": Status.FAILED_RETRYABLE,
                "expires_at_s": None,
                "lease_until_ms": None,
                "due": LATER,
                **NOTES_CLEARED,
                "last_error": "why",
            },
        ),
        (
            lambda: ended(BEFORE, Doubt(reason="why", due=LATER, escalated_at_ms=NOW_MS)),
            {
                "status": Status.UNKNOWN,
                "due": LATER,
                "last_error": "why",
                "escalated_at_ms": NOW_MS,
            },
        ),
    ],
    ids=["waits", "begins", "completed", "may run again", "unknown"],
)
def test_a_change_sets_and_clears_its_own_fields_alone(
    change: Callable[[], Record], expected: Mapping[str, Any]
) -> None:
    """A beginning clears the expiry and the reconciler's notes; an ending clears the lease, and a
    completion also what waits and the request; doubt keeps the lease.
    """
    assert changed(BEFORE, change()) == expected


@pytest.mark.parametrize("given", [None, OTHER])
def test_an_attempt_without_a_policy_keeps_the_one_on_record(given: Policy | None) -> None:
    """A worker or a settler that knows no policy must not remove the handler's."""
    kept = given or BEFORE.policy

    assert waiting(BEFORE, replace(WAITING, policy=given)).policy == kept
    assert begun(BEFORE, replace(LEASE, policy=given)).policy == kept


def test_doubt_keeps_an_escalation_that_it_does_not_repeat() -> None:
    """A record that a person was told of stays so."""
    after = ended(BEFORE, Doubt(reason="why", due=LATER))

    assert after.escalated_at_ms == BEFORE.escalated_at_ms


def test_a_failed_jobs_record_outlives_its_message() -> None:
    """A message lives 14 days in its queue and 14 as a dead letter; redriven, it must still find
    the record of its job. Other failures expire like answers.
    """
    job = Policy(encoding=None, retention_s=60, gone_for_s=30, is_queued=True)
    at_ms = NOW_S * 1000

    assert LONGEST_WORK_S == 28 * 24 * 3600
    assert job.expires_at_s(at_ms) == NOW_S + 90
    assert job.failure_expires_at_s(at_ms) == NOW_S + 90 + LONGEST_WORK_S
    assert replace(job, is_queued=False).failure_expires_at_s(at_ms) == NOW_S + 90


def test_an_expiry_is_rounded_up_to_its_second() -> None:
    """DynamoDB's expiry is in seconds. No record expires before its retention has passed."""
    policy = Policy(encoding=None, retention_s=60)

    assert policy.expires_at_s(NOW_S * 1000 + 1) == NOW_S + 61


@pytest.mark.parametrize(
    "settle",
    [
        lambda: Settle(pk="p", seen_owner="seen", new_owner="new", to=ENDING),
        lambda: SettleStep(pk="p", seen_owner="seen", new_owner="new", retry=HALF_DONE),
        lambda: SettlePending(pk="p", seen=SEEN, new_owner="new", ending=ENDING),
        lambda: LateEffect(pk="p", seen=SEEN, new_owner="new", ending=ENDING),
    ],
    ids=["settle", "settle a step", "settle what waits", "a late effect"],
)
def test_every_settlement_writes_an_owner_of_its_own(settle: Callable[[], Transition]) -> None:
    """A late owner must not take the settlement for its own write."""
    transition = settle()

    after = applied(transition, BEFORE)

    assert (after.owner, after.rev) == ("new", BEFORE.rev + 1)


@pytest.mark.parametrize("told_at_ms", [None, NOW_MS])
def test_a_visit_keeps_an_escalation_that_it_does_not_repeat(told_at_ms: int | None) -> None:
    """A turn sets when the record is due and how often it was visited, and nothing else."""
    turn = Reschedule(pk="p", seen=SEEN, due=LATER, attempts=9, escalated_at_ms=told_at_ms)

    after = applied(turn, BEFORE)

    expected = {"rev": BEFORE.rev + 1, "due": LATER, "reconcile_attempts": 9}
    told = {} if told_at_ms is None else {"escalated_at_ms": NOW_MS}
    assert changed(BEFORE, after) == expected | told
