"""Named schedules: lost answers, a store that is down, late arrivals, and callers that wait."""

from __future__ import annotations

import pytest

from oncekey.flow.commands import Write
from oncekey.record.outcome import Failed, Ran, Reason, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.transitions import Complete
from oncekey.settings import Settings
from tests.simulation.scenario import Caller, Plan
from tests.simulation.traces import (
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
REPEATABLE_A, REPEATABLE_B = (Caller(name=name, effects=Effects.REPEATABLE) for name in "AB")
PROVEN = Caller(name="A", plan=Plan.NOT_EXECUTED)
FAILING = Caller(name="A", plan=Plan.FAIL_AFTER)
WAITING = Settings(in_progress="wait", wait_up_to_ms=2_000)


@pytest.mark.case(9)
def test_a_lost_reserve_answer_is_recognised() -> None:
    """A reserve that landed though its answer was lost is ours: the handler runs once.

    Red when the judgement does not know its own owner.
    """
    world = world_of(A, B)
    steps(world, "A", TO_RESERVE)
    play(world, "lose A")

    finish(world, "A", "B")

    assert applied(world, "A") == ["Reserve", "Complete"]
    assert runs(world) == ["A"]
    assert answer(world, "B") == answer(world, "A")
    assert_safe(world)


def test_a_lost_reserve_answer_is_not_ours_after_the_lease() -> None:
    """A reserve that is recognised only after its lease is unknown, and nothing runs."""
    world = world_of(A, killed_in_time=False)
    steps(world, "A", TO_RESERVE)
    play(world, "lose A", "advance lease")

    finish(world, "A")

    assert runs(world) == []
    assert refusal(world, "A") is Reason.OUTCOME_UNKNOWN
    assert_safe(world)


def test_a_lost_reserve_answer_is_not_ours_once_unknown() -> None:
    """A reserve that somebody has marked unknown by now is not run by its owner."""
    world = world_of(A, B, killed_in_time=False)
    steps(world, "A", TO_RESERVE)
    play(world, "lose A", "advance lease")
    finish(world, "B")
    assert stored(world).status is Status.UNKNOWN

    finish(world, "A")

    assert runs(world) == []
    assert refusal(world, "A") is Reason.OUTCOME_UNKNOWN
    assert_safe(world)


@pytest.mark.case(9)
def test_a_lost_completion_answer_is_recognised() -> None:
    """A completion that landed though its answer was lost is ours: its caller is promised so.

    Red when a refused completion does not compare the owner that it met.
    """
    world = world_of(A)
    steps(world, "A", TO_COMPLETE)
    play(world, "lose A")

    finish(world, "A")

    told = outcome(world, "A")
    assert isinstance(told, Ran)
    assert told.expires_at_s == stored(world).expires_at_s is not None
    assert applied(world, "A") == ["Reserve", "Complete"]
    assert_safe(world)


def test_a_lost_resume_answer_is_recognised() -> None:
    """A resume that landed though its answer was lost is ours: the handler runs once more."""
    world = world_of(PROVEN, B)
    finish(world, "A")
    steps(world, "B", 2)
    play(world, "lose B")

    finish(world, "B")

    assert applied(world, "B") == ["Resume", "Complete"]
    assert runs(world) == ["A", "B"]
    assert_safe(world)


def test_a_lost_take_over_answer_is_recognised() -> None:
    """A takeover that landed though its answer was lost is ours: the handler runs once more."""
    world = world_of(REPEATABLE_A, REPEATABLE_B)
    steps(world, "A", TO_RETURN)
    play(world, "advance lease")
    steps(world, "B", 2)
    play(world, "lose B")

    finish(world, "B")

    assert applied(world, "B") == ["TakeOver", "Complete"]
    assert runs(world) == ["A", "B"]
    assert_safe(world)


def test_a_lost_mark_unknown_answer_changes_nothing() -> None:
    """An outcome that was marked unknown, though that answer was lost, is marked once."""
    world = world_of(FAILING, B)
    steps(world, "A", TO_COMPLETE)
    play(world, "lose A")
    before = stored(world)

    finish(world, "A", "B")

    assert stored(world) == before
    assert isinstance(outcome(world, "A"), Failed)
    assert refusal(world, "B") is Reason.OUTCOME_UNKNOWN
    assert_safe(world)


def test_a_late_completion_still_answers_an_unknown_outcome() -> None:
    """A completion that was given up on completes its own record, marked unknown meanwhile."""
    world = world_of(A, B, C)
    steps(world, "A", TO_COMPLETE)
    play(world, "delay A", "kill A", "advance lease")
    finish(world, "B")
    assert stored(world).status is Status.UNKNOWN

    play(world, "land A")
    finish(world, "C")

    assert stored(world).status is Status.COMPLETED
    assert isinstance(outcome(world, "C"), Replayed)
    assert answer(world, "C").endswith("/1/A")
    assert_safe(world)


@pytest.mark.parametrize("is_delayed", [True, False])
def test_a_completion_after_a_settlement_changes_nothing(is_delayed: bool) -> None:
    """What was settled stays, and the late owner, if it lives, is given what is stored."""
    world = world_of(A, B, C, killed_in_time=False)
    steps(world, "A", TO_COMPLETE)
    if is_delayed:
        play(world, "delay A", "kill A")
    play(world, "advance lease")
    finish(world, "B", world.add("webhook").name)
    before = stored(world)
    assert before.status is Status.COMPLETED

    if is_delayed:
        play(world, "land A")
    else:
        finish(world, "A")
        assert isinstance(outcome(world, "A"), Replayed)
        assert answer(world, "A") == before.response

    assert stored(world) == before
    assert_safe(world)


def test_an_answer_that_cannot_be_stored_costs_the_record_and_not_the_answer() -> None:
    """The caller gets the true answer without a promise, and the record is left in doubt.

    Whatever else the store would still accept: the key is not released.
    """
    world = world_of(A, B)
    steps(world, "A", TO_COMPLETE)
    while not world.actors["A"].is_over:
        command = world.actors["A"].command
        is_completion = isinstance(command, Write) and isinstance(command.transition, Complete)
        play(world, "fail A" if is_completion else "step A")

    told = outcome(world, "A")
    assert isinstance(told, Ran)
    assert (told.value.by, told.expires_at_s) == ("A", None)
    assert stored(world).status is Status.IN_PROGRESS
    finish(world, "B")
    assert refusal(world, "B") is Reason.RUNNING
    assert effects(world) == 1
    assert_safe(world)


@pytest.mark.requirement("C9")
@pytest.mark.parametrize("fault", ["fail", "break", "lose", "delay"])
def test_a_store_that_is_down_at_the_start_lets_nothing_run(fault: str) -> None:
    """A store that never answers the reserve is a refusal, and no handler runs.

    Red when a handler runs without a durable reservation.
    """
    world = world_of(A)
    steps(world, "A", TO_RESERVE)
    while not world.actors["A"].is_over:
        play(world, f"{fault} A")

    assert refusal(world, "A") is Reason.STORE_UNAVAILABLE
    assert runs(world) == []
    assert_safe(world)


def test_a_reserve_that_lands_after_it_was_given_up_never_runs() -> None:
    """Its caller got 503; whoever comes then gets 409s, before the lease and after."""
    world = world_of(A, B, C)
    steps(world, "A", TO_RESERVE)
    while not world.actors["A"].is_over:
        play(world, "delay A")
    play(world, "land A")

    finish(world, "B")
    play(world, "advance lease")
    finish(world, "C")

    assert refusal(world, "A") is Reason.STORE_UNAVAILABLE
    assert refusal(world, "B") is Reason.RUNNING
    assert refusal(world, "C") is Reason.OUTCOME_UNKNOWN
    assert runs(world) == []
    assert_safe(world)


@pytest.mark.requirement("A2")
def test_the_key_is_reserved_before_the_handler_begins() -> None:
    """No effect comes before the reservation is durable.

    Red when the handler is invoked before or beside the reserve.
    """
    world = world_of(A)
    steps(world, "A", TO_RESERVE)
    assert (world.record, effects(world)) == (None, 0)

    steps(world, "A", 1)

    assert stored(world).status is Status.IN_PROGRESS
    assert effects(world) == 0
    finish(world, "A")
    assert effects(world) == 1
    assert_safe(world)


@pytest.mark.requirement("A11")
def test_five_calls_in_flight_get_one_answer() -> None:
    """The same call five times in flight: one effect, and one answer for all.

    Red when a waiter runs beside the first, or is answered by anything but the stored answer.
    """
    callers = [Caller(name=name) for name in "ABCDE"]
    world = world_of(*callers, settings=WAITING)
    for caller in callers:
        steps(world, caller.name, TO_RESERVE + 1)
    assert not any(actor.is_over for actor in world.actors.values())

    finish(world, *"ABCDE")

    assert len({answer(world, caller.name) for caller in callers}) == 1
    assert (runs(world), effects(world)) == (["A"], 1)
    assert_safe(world)


@pytest.mark.case(7)
def test_a_waiter_replays_after_the_completion() -> None:
    """A repeat that waits gets the first answer as soon as that is stored.

    Red when overlapping calls both run, or the waiter does not look again.
    """
    world = world_of(A, B, settings=WAITING)
    steps(world, "A", TO_RETURN)
    steps(world, "B", 3)
    assert not world.actors["B"].is_over

    finish(world, "A", "B")

    assert isinstance(outcome(world, "B"), Replayed)
    assert answer(world, "B") == answer(world, "A")
    assert runs(world) == ["A"]
    assert_safe(world)


def test_a_waiter_resumes_after_a_release() -> None:
    """A repeat that waits runs, once the first is proven not to have been executed."""
    world = world_of(PROVEN, B, settings=WAITING)
    steps(world, "A", TO_RETURN)
    steps(world, "B", 3)

    finish(world, "A", "B")

    assert applied(world, "B") == ["Resume", "Complete"]
    assert runs(world) == ["A", "B"]
    assert_safe(world)


def test_a_waiter_is_refused_at_the_end_of_its_wait() -> None:
    """A repeat waits as long as it was told to, and is then refused like any other."""
    world = world_of(A, B, settings=WAITING)
    steps(world, "A", TO_RETURN)
    began_ms = world.time.now_ms()

    finish(world, "B")

    assert refusal(world, "B") is Reason.RUNNING
    assert world.time.now_ms() - began_ms == WAITING.wait_up_to_ms
    assert_safe(world)
