"""What an existing record means for a request, over every combination."""

from __future__ import annotations

import itertools

import pytest

from oncekey.record.judgement import Verdict, judge
from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Effects, Record, Status
from tests.support.records import EXPIRIES, LEASES, NOW_MS, STEPS, record
from tests.support.replacing import replace

OURS, OTHER = "owner-1", "owner-2"
SAME, DIFFERENT = "f1:asked", "f1:else"

COMBINATIONS = list(
    itertools.product(
        Status, LEASES, EXPIRIES, (SAME, DIFFERENT), (OURS, OTHER), Effects, Effects, STEPS
    )
)


def judged(stored: Record, *, owner: str = OTHER, fingerprint: str = SAME) -> Verdict:
    """The verdict for a request of a handler that declares what the record declares."""
    return judge(
        stored, owner=owner, fingerprint=fingerprint, effects=stored.effects, now_ms=NOW_MS
    )


def expected(
    status: str,
    lease: str,
    expiry: str,
    fingerprint: str,
    owner: str,
    stored: str,
    declared: str,
    steps: str,
) -> str:
    """The rules in the order of the contract, in names alone: expired, ours, other request, state.

    `stored` is what the dead attempt's author declared, `declared` what the present one does.
    """
    may_run_again = stored == declared == "repeatable" or (
        stored == declared == "recorded" and "started" not in steps
    )
    half_done = "finished" in steps
    settled = status in {"COMPLETED", "FAILED_RETRYABLE"}
    if settled and expiry in {"exactly now", "past"}:
        return "expired"
    if status == "IN_PROGRESS" and owner == OURS and lease != "over":
        return "ours"
    if fingerprint == DIFFERENT:
        return "key-reused"
    if status == "FAILED_RETRYABLE" and half_done and declared != "recorded":
        return "unknown"
    if status != "IN_PROGRESS":
        return {
            "PENDING": "pending",
            "COMPLETED": "replay",
            "FAILED_RETRYABLE": "resume",
            "UNKNOWN": "unknown",
        }[status]
    if lease != "over":
        return "running"
    return "take-over" if may_run_again else "lease-expired"


@pytest.mark.requirement("D1")
def test_every_combination_has_the_verdict_of_the_contract() -> None:
    """Every combination is judged as the contract orders: expired, ours, other request, state.

    Red when the order of two questions in `judge` is swapped, or any one of them is left out.
    """
    wrong = []
    for combination in COMBINATIONS:
        status, lease, expiry, fingerprint, owner, stored, declared, steps = combination
        found = judge(
            record(
                status=status,
                lease_until_ms=LEASES[lease],
                expires_at_s=EXPIRIES[expiry],
                effects=stored,
                steps=STEPS[steps],
            ),
            owner=owner,
            fingerprint=fingerprint,
            effects=declared,
            now_ms=NOW_MS,
        )
        if found != expected(*combination):
            wrong.append((*combination, found))

    assert len(COMBINATIONS) == 5 * 4 * 4 * 2 * 2 * 3 * 3 * 4
    assert wrong == []


def test_every_verdict_is_reached() -> None:
    """No verdict is dead: each is the right one for some combination."""
    reached = {expected(*combination) for combination in COMBINATIONS}

    # An answer that is gone needs a policy that says so: `test_a_gone_answer`.
    assert reached == set(Verdict) - {Verdict.GONE}


@pytest.mark.requirement("D4")
@pytest.mark.parametrize(
    "dead",
    [record(), record(effects=Effects.RECORDED, steps=STEPS["finished and started"])],
    ids=["unrecorded", "recorded, a step in doubt"],
)
def test_an_expired_lease_is_no_permission_to_run_again(dead: Record) -> None:
    """The lease of an attempt is over that may have had an effect nobody knows of: it is unknown.

    Red when `_judge_in_progress` takes over without asking what the dead attempt declared, or
    whether a step of it is in doubt.
    """
    dead = replace(dead, lease_until_ms=NOW_MS - 1)

    for declared in Effects:
        verdict = judge(dead, owner=OTHER, fingerprint=SAME, effects=declared, now_ms=NOW_MS)
        assert verdict is Verdict.LEASE_EXPIRED


@pytest.mark.requirement("D4")
def test_a_handler_that_is_no_longer_repeatable_takes_nothing_over() -> None:
    """A dead repeatable attempt is in doubt when the handler's present author declares effects.

    Red when `_judge_in_progress` looks at the record's declaration alone.
    """
    dead = record(effects=Effects.REPEATABLE, lease_until_ms=NOW_MS - 1)

    verdict = judge(dead, owner=OTHER, fingerprint=SAME, effects=Effects.UNRECORDED, now_ms=NOW_MS)

    assert verdict is Verdict.LEASE_EXPIRED


@pytest.mark.requirement("E1")
def test_half_done_work_is_resumed_by_nobody_who_knows_nothing_of_steps() -> None:
    """A handler that is no longer declared as recorded would run the finished steps again.

    Red when `_judge_failed` does not ask what the present handler declares.
    """
    half_done = record(
        status=Status.FAILED_RETRYABLE, effects=Effects.RECORDED, steps=STEPS["finished"]
    )

    verdicts = {
        declared: judge(half_done, owner=OTHER, fingerprint=SAME, effects=declared, now_ms=NOW_MS)
        for declared in Effects
    }

    assert verdicts == {
        Effects.UNRECORDED: Verdict.UNKNOWN,
        Effects.REPEATABLE: Verdict.UNKNOWN,
        Effects.RECORDED: Verdict.RESUME,
    }


@pytest.mark.case(3)
def test_an_absent_lease_never_means_that_it_is_over() -> None:
    """A record in progress without a lease is still running, however old it is.

    Red when `is_lease_over` reads an absent lease as 0.
    """
    stored = record(lease_until_ms=None, effects=Effects.REPEATABLE, created_at_ms=0)

    assert judged(stored) is Verdict.RUNNING


@pytest.mark.case(29)
@pytest.mark.parametrize("status", Status)
def test_another_request_is_told_so_in_every_state(status: Status) -> None:
    """The same key with another request is refused whatever the record's state.

    Red when `judge` asks for the state before the fingerprint.
    """
    stored = record(status=status, lease_until_ms=NOW_MS - 1)

    assert judged(stored, fingerprint=DIFFERENT) is Verdict.KEY_REUSED


@pytest.mark.case(46)
@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED_RETRYABLE])
def test_an_expired_record_counts_as_absent_though_it_is_still_there(status: Status) -> None:
    """A settled record past its expiry is as if absent, even for another request.

    Red when `judge` leaves expiry to the table's own deletion.
    """
    stored = record(status=status, lease_until_ms=None, expires_at_s=NOW_MS // 1000)

    assert judged(stored) is Verdict.EXPIRED
    assert judged(stored, fingerprint=DIFFERENT) is Verdict.EXPIRED


def test_two_identical_requests_do_not_both_hold_the_lease() -> None:
    """The same fingerprint does not make an attempt the owner; only its own token does.

    Red when `_holds_open_lease` compares fingerprints in place of owners.
    """
    stored = record()

    assert judged(stored, owner=OTHER, fingerprint=SAME) is Verdict.RUNNING
    assert judged(stored, owner=OURS, fingerprint=SAME) is Verdict.OURS


@pytest.mark.case(9)
def test_our_own_write_is_recognised_when_its_answer_was_lost() -> None:
    """A record in progress under our owner with an open lease is ours: we hold it.

    Red when `judge` no longer compares the owner.
    """
    assert judged(record(), owner=OURS) is Verdict.OURS


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (Status.PENDING, Verdict.PENDING),
        (Status.UNKNOWN, Verdict.UNKNOWN),
        (Status.COMPLETED, Verdict.REPLAY),
        (Status.FAILED_RETRYABLE, Verdict.RESUME),
    ],
)
def test_our_owner_gives_no_right_outside_progress(status: Status, verdict: Verdict) -> None:
    """Once somebody has judged a record, its owner's late write is no permission to run."""
    assert judged(record(status=status), owner=OURS) is verdict


def test_our_owner_gives_no_right_after_the_lease() -> None:
    """A reserve of ours that landed after its own lease is in doubt like anybody else's."""
    late = record(lease_until_ms=NOW_MS - 1)

    assert judged(late, owner=OURS) is Verdict.LEASE_EXPIRED


def gone(
    stored: Record,
    *,
    gone_after_ms: int | None = 60_000,
    owner: str = OTHER,
    fingerprint: str = SAME,
) -> Verdict:
    """The verdict on a record of no policy, by a handler that gives answers for `gone_after_ms`."""
    return judge(
        replace(stored, policy=None),
        owner=owner,
        fingerprint=fingerprint,
        effects=stored.effects,
        now_ms=NOW_MS,
        gone_after_ms=gone_after_ms,
    )


@pytest.mark.requirement("B14")
def test_a_gone_answer_is_no_longer_given_and_its_key_not_yet_free() -> None:
    """From the very end of the stated time a completed record is gone, until it expires.

    Red when the boundary moves, the time counts from anything but the completion, or an expired
    record is gone for ever.
    """
    completed = record(status=Status.COMPLETED, lease_until_ms=None, expires_at_s=NOW_MS)

    assert gone(replace(completed, completed_at_ms=NOW_MS - 60_000 + 1)) is Verdict.REPLAY
    ended = replace(completed, completed_at_ms=NOW_MS - 60_000)
    assert gone(ended) is Verdict.GONE
    assert gone(ended, gone_after_ms=None) is Verdict.REPLAY
    assert gone(replace(ended, expires_at_s=NOW_MS // 1000)) is Verdict.EXPIRED


@pytest.mark.requirement("B14")
@pytest.mark.parametrize(("owner", "fingerprint"), [(OURS, SAME), (OTHER, DIFFERENT)])
def test_a_gone_answer_is_gone_for_every_request(owner: str, fingerprint: str) -> None:
    """Nobody is told of another request under a key whose answer is no longer given.

    Red when the owner or the fingerprint is compared first.
    """
    ended = record(
        status=Status.COMPLETED, lease_until_ms=None, completed_at_ms=0, expires_at_s=None
    )

    assert gone(ended, owner=owner, fingerprint=fingerprint) is Verdict.GONE


@pytest.mark.requirement("B14")
@pytest.mark.fault("K6.6")
@pytest.mark.parametrize("gone_after_ms", [None, 1, 10**9])
def test_a_record_says_itself_until_when_its_answer_is_given(gone_after_ms: int | None) -> None:
    """The policy of the record decides whether its key is gone, whatever the present handler says.

    Red when the handler's own options are asked.
    """
    policy = Policy(encoding=Encoding.HTTP, retention_s=60, gone_for_s=30)
    completed = record(
        status=Status.COMPLETED, lease_until_ms=None, completed_at_ms=NOW_MS - 1, policy=policy
    )

    def verdict(expires_at_s: int) -> Verdict:
        return judge(
            replace(completed, expires_at_s=expires_at_s),
            owner=OTHER,
            fingerprint=SAME,
            effects=completed.effects,
            now_ms=NOW_MS,
            gone_after_ms=gone_after_ms,
        )

    now_s = NOW_MS // 1000
    assert verdict(now_s + 31) is Verdict.REPLAY
    assert verdict(now_s + 30) is Verdict.GONE
    assert verdict(now_s) is Verdict.EXPIRED


@pytest.mark.requirement("B14")
@pytest.mark.parametrize("status", [status for status in Status if status != "COMPLETED"])
def test_only_an_answer_can_be_gone(status: Status) -> None:
    """What runs, is in doubt or may run again is never gone, however long ago it was completed.

    Red when the state is not asked for.
    """
    old = record(status=status, completed_at_ms=0, expires_at_s=None)

    assert gone(old) is gone(old, gone_after_ms=None)
    assert gone(record(status=Status.COMPLETED, completed_at_ms=None)) is Verdict.REPLAY
