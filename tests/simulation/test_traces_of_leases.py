"""Named schedules: duplicates, dead and late owners, and what they may change."""

from __future__ import annotations

import pytest

from oncekey.record.outcome import Failed, Ran, Reason, Replayed
from oncekey.record.record import Effects, Status
from tests.simulation.scenario import Caller, Plan
from tests.simulation.traces import (
    TO_BEGIN,
    TO_COMPLETE,
    TO_RESERVE,
    TO_RETURN,
    answer,
    applied,
    assert_safe,
    effects,
    finish,
    outcome,
    play,
    refusal,
    runs,
    steps,
    stored,
    world_of,
)

A, B, C = (Caller(name=name) for name in "ABC")
OTHER = Caller(name="OTHER", body="b")
REPEATABLE_A, REPEATABLE_B, REPEATABLE_C = (
    Caller(name=name, effects=Effects.REPEATABLE) for name in "ABC"
)
LATE_ENDS = [Plan.SUCCEED, Plan.FAIL_AFTER, Plan.NOT_EXECUTED, Plan.UNAVAILABLE]


@pytest.mark.case(1)
@pytest.mark.requirement("A4")
def test_a_duplicate_refused_while_running_changes_nothing() -> None:
    """A duplicate of a running request is refused and writes nothing; a third one is, too.

    Red when a refused request deletes or changes the record (the mutation `refusals-write`).
    """
    world = world_of(A, B, C)
    steps(world, "A", TO_RETURN)
    before = stored(world)

    finish(world, "B", "C")

    assert stored(world) == before
    assert (refusal(world, "B"), refusal(world, "C")) == (Reason.RUNNING, Reason.RUNNING)
    finish(world, "A")
    assert runs(world) == ["A"]
    assert_safe(world)


@pytest.mark.case(1)
@pytest.mark.requirement("A5")
def test_another_request_under_a_completed_key_changes_nothing() -> None:
    """Another request under a used key is refused and writes nothing; the first still replays.

    Red when the judgement ignores the fingerprint, or a refused request changes the record.
    """
    world = world_of(A, OTHER, C)
    finish(world, "A")
    before = stored(world)

    finish(world, "OTHER", "C")

    assert stored(world) == before
    assert refusal(world, "OTHER") is Reason.KEY_REUSED
    assert isinstance(outcome(world, "C"), Replayed)
    assert answer(world, "C") == answer(world, "A")
    assert runs(world) == ["A"]
    assert_safe(world)


@pytest.mark.case(4)
@pytest.mark.parametrize("plan", LATE_ENDS)
def test_a_worker_that_outlives_its_lease_changes_nothing(plan: Plan) -> None:
    """The result of whoever took over survives the late owner, however that one ends.

    Red when Complete or Release are unconditional, or look at neither the owner nor the state.
    """
    late = Caller(name="A", effects=Effects.REPEATABLE, plan=plan)
    world = world_of(late, REPEATABLE_B, REPEATABLE_C, killed_in_time=False)
    steps(world, "A", TO_RETURN)
    play(world, "advance lease")
    finish(world, "B")
    before = stored(world)

    finish(world, "A", "C")

    assert stored(world) == before
    assert applied(world, "A") == ["Reserve"]
    assert answer(world, "C") == answer(world, "B")
    if plan is Plan.SUCCEED:
        assert answer(world, "A") == answer(world, "B")
    assert_safe(world)


@pytest.mark.case(4)
@pytest.mark.parametrize("plan", LATE_ENDS)
def test_a_late_worker_changes_nothing_of_one_that_still_runs(plan: Plan) -> None:
    """A late end meets the attempt that took over, is refused, and leaves that one its lease.

    Red when Complete or Release ignore the owner (the mutation `owner-ignored`).
    """
    late = Caller(name="A", effects=Effects.REPEATABLE, plan=plan)
    world = world_of(late, REPEATABLE_B, killed_in_time=False)
    steps(world, "A", TO_RETURN)
    play(world, "advance lease")
    steps(world, "B", TO_RETURN + 1)
    before = stored(world)

    finish(world, "A")

    assert stored(world) == before
    if plan is Plan.SUCCEED:
        assert refusal(world, "A") is Reason.RUNNING
    finish(world, "B")
    assert stored(world).response == answer(world, "B")
    assert_safe(world)


@pytest.mark.case(14)
@pytest.mark.requirement("D4")
def test_a_dead_unrecorded_owner_leaves_an_unknown_outcome() -> None:
    """After its lease a dead attempt is unknown, is never run again, and a settlement answers it.

    Red when an expired lease lets unrecorded effects run again (`unrecorded-taken-over`).
    """
    world = world_of(A, B, C)
    steps(world, "A", TO_RETURN)
    play(world, "advance lease")

    finish(world, "B", "C")

    assert stored(world).status is Status.UNKNOWN
    assert {refusal(world, "B"), refusal(world, "C")} == {Reason.OUTCOME_UNKNOWN}
    assert (runs(world), effects(world)) == (["A"], 1)
    play(world, "advance due")
    finish(world, world.add("reconciler").name, world.add(Caller(name="D")).name)
    assert isinstance(outcome(world, "D"), Replayed)
    assert effects(world) == 1
    assert_safe(world)


@pytest.mark.case(13, 19)
@pytest.mark.requirement("E3")
def test_a_dead_repeatable_owner_is_taken_over_at_the_first_call() -> None:
    """After the lease, not before, the first call takes over at once, without waiting.

    Red when a takeover waits, needs a second call, or looks at another time than the stored lease.
    """
    world = world_of(REPEATABLE_A, REPEATABLE_B, REPEATABLE_C)
    steps(world, "A", TO_RETURN)
    play(world, "kill A")
    finish(world, "B")
    assert refusal(world, "B") is Reason.RUNNING
    play(world, "advance lease")
    began_ms = world.time.now_ms()

    finish(world, "C")

    assert applied(world, "C") == ["TakeOver", "Complete"]
    assert isinstance(outcome(world, "C"), Ran)
    assert world.time.now_ms() == began_ms
    assert_safe(world)


@pytest.mark.requirement("D5")
def test_a_retryable_failure_is_run_again_by_exactly_one() -> None:
    """Of two retries that both saw the failure, one resumes and the other is told that it runs.

    Red when Resume is not conditional on the version seen and the state.
    """
    world = world_of(Caller(name="A", plan=Plan.NOT_EXECUTED), B, C)
    finish(world, "A")
    assert stored(world).status is Status.FAILED_RETRYABLE
    steps(world, "B", 2)
    steps(world, "C", 2)

    play(world, "step B", "step C")
    finish(world, "B", "C")

    assert refusal(world, "A") is Reason.NOT_EXECUTED
    assert refusal(world, "C") is Reason.RUNNING
    assert runs(world) == ["A", "B"]
    assert stored(world).attempt == 2
    assert_safe(world)


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("plan", [Plan.FAIL_AFTER, Plan.FAIL_BEFORE, Plan.TIME_OUT])
def test_an_exception_proves_nothing(plan: Plan) -> None:
    """An exception that proves nothing leaves an unknown outcome, which is not run again.

    Red when an exception of an unrecorded handler releases the key (`exceptions-release`).
    """
    world = world_of(Caller(name="A", plan=plan), B)

    finish(world, "A", "B")

    assert isinstance(outcome(world, "A"), Failed)
    assert refusal(world, "B") is Reason.OUTCOME_UNKNOWN
    assert runs(world) == ["A"]
    assert_safe(world)


@pytest.mark.requirement("A7", "B5")
def test_of_two_reserves_in_one_millisecond_one_wins() -> None:
    """Both decided to reserve an absent key; one runs, the other gets a proper answer.

    Red when Reserve is not conditional (the mutation `reserve-unconditional`).
    """
    world = world_of(A, B)
    steps(world, "A", TO_RESERVE)
    steps(world, "B", TO_RESERVE)

    play(world, "step B", "step A")
    finish(world, "A", "B")

    assert refusal(world, "A") is Reason.RUNNING
    assert runs(world) == ["B"]
    assert_safe(world)


@pytest.mark.case(6)
def test_identical_requests_have_owners_of_their_own() -> None:
    """Two identical requests never both conclude that the record is theirs.

    Red when the owner is derived from the request (the mutation `owner-from-request`).
    """
    world = world_of(A, B)
    steps(world, "A", TO_BEGIN)
    owner = stored(world).owner

    finish(world, "B")
    finish(world, "A")

    assert stored(world).owner == owner
    assert runs(world) == ["A"]
    assert_safe(world)


def test_a_living_owner_of_a_former_life_neither_overwrites_nor_gets_the_new_one() -> None:
    """A late owner whose record was settled, expired and reserved anew changes nothing.

    It gets its own answer, and no promise that this is kept.
    """
    world = world_of(A, B, OTHER, killed_in_time=False)
    steps(world, "A", TO_COMPLETE)
    play(world, "advance lease")
    finish(world, "B", world.add("webhook").name)
    assert stored(world).status is Status.COMPLETED
    play(world, "advance retention")
    finish(world, "OTHER")
    before = stored(world)

    finish(world, "A")

    assert stored(world) == before
    assert stored(world).response == answer(world, "OTHER")
    told = outcome(world, "A")
    assert isinstance(told, Ran)
    assert told.value.by == "A"
    assert told.expires_at_s is None
    assert_safe(world)


def test_a_stalled_reserve_that_is_applied_after_its_lease_is_not_run() -> None:
    """Whoever learns that its reserve was applied only after the lease does not run.

    The platform kills such a caller; outside it, or with a shortened lease, nothing does.
    """
    world = world_of(A, killed_in_time=False)
    steps(world, "A", TO_RESERVE)
    world.advance(A.remaining_ms + world.scenario.settings.lease_margin_ms + 1)

    finish(world, "A")

    assert runs(world) == []
