"""Named schedules of recorded effects: those that broke weaker designs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.flow.commands import Transact
from oncekey.record.outcome import Ran, Reason
from oncekey.record.record import Effects, Status
from oncekey.settings import Settings
from tests.simulation.scenario import Caller, Plan, Step, Work
from tests.simulation.traces import (
    TO_CALL,
    TO_CHECKPOINT,
    TO_COMMIT,
    TO_MARK,
    TO_SETTLE,
    TO_TURN,
    answer,
    applied,
    assert_safe,
    committed,
    effects,
    finish,
    outcome,
    play,
    refusal,
    steps,
    steps_begun,
    stored,
    world_of,
)
from tests.support.replacing import replace

if TYPE_CHECKING:
    from oncekey.record.commit import Commit
    from tests.simulation.world import World

A, B, C = (Caller(name=name, effects=Effects.RECORDED) for name in "ABC")
OTHER = replace(B, name="OTHER", body="b")
KEYED = Work(steps=(Step(is_idempotent=True),))
IN_PHASES = Work(commits=True)
TEN_MINUTES_MS = 600_000


def settle(world: World, name: str) -> None:
    """A reconciler comes when the record is due, and a caller after it."""
    play(world, "advance due")
    finish(world, world.add("reconciler-at-last").name, name)


@pytest.mark.requirement("E6")
def test_a_late_mark_is_not_released_by_who_read_the_record_before_it() -> None:
    """A reconciler that read a record without steps changes nothing once a late mark has landed:
    the step is in doubt, and is settled as what it is.

    Red when ExpireLease or TakeOver goes by what was read (`reconciler-goes-by-what-it-read`).
    """
    world = world_of(A, B, C)
    steps(world, "A", TO_MARK)
    play(world, "kill A", "advance due")
    reconciler = world.add("reconciler").name
    steps(world, reconciler, TO_TURN)
    steps(world, "B", 2)

    play(world, "land A")
    before = stored(world)
    finish(world, reconciler, "B")

    assert before.is_in_doubt
    assert (applied(world, reconciler), applied(world, "B")) == ([], ["ExpireLease"])
    assert refusal(world, "B") is Reason.OUTCOME_UNKNOWN
    assert stored(world).steps == before.steps
    settle(world, "C")
    assert steps_begun(world) == ["C charge"]
    assert (effects(world), committed(world)) == (1, ["final"])
    assert_safe(world)


@pytest.mark.requirement("C2", "E1")
@pytest.mark.parametrize("fault", ["fail", "break", "delay"])
def test_a_commit_that_was_never_made_is_not_answered_as_made(fault: str) -> None:
    """After a finished step, a commit that never arrives is told as such, and not as the handler's
    201; the next run does not repeat the step, and commits.

    Red when the handler's answer is given though its commit was not confirmed
    (`unconfirmed-is-answered`).
    """
    world = world_of(A, B)
    steps(world, "A", TO_COMMIT)
    while not world.actors["A"].is_over:
        is_commit = isinstance(world.actors["A"].command, Transact)
        play(world, f"{fault} A" if is_commit else "step A")

    assert refusal(world, "A") is Reason.STORE_UNAVAILABLE
    assert committed(world) == []
    assert [step.name for step in stored(world).steps.finished] == ["charge"]

    play(world, *["advance lease"] * (stored(world).status is Status.IN_PROGRESS))
    finish(world, "B")

    assert isinstance(outcome(world, "B"), Ran)
    assert (steps_begun(world), committed(world)) == (["A charge"], ["final"])
    assert_safe(world)


def test_a_handler_that_caught_the_stop_is_not_answered_either() -> None:
    """A recovery point that was not confirmed ends the run, whatever the handler makes of it.

    The next one commits it, once.
    """
    world = world_of(replace(A, plan=Plan.STUBBORN), B, work=IN_PHASES)
    steps(world, "A", TO_MARK)
    play(world, "break A")

    finish(world, "A", "B")

    assert refusal(world, "A") is Reason.STORE_UNAVAILABLE
    assert isinstance(outcome(world, "B"), Ran)
    assert (steps_begun(world), committed(world)) == (["B charge"], ["created", "final"])
    assert_safe(world)


@pytest.mark.requirement("C2")
@pytest.mark.case(42)
def test_a_commit_that_is_sent_twice_is_applied_once() -> None:
    """A commit whose answer was lost is sent again, with a token that this store does not look at:
    business write and message are there once, and the caller is told so.

    Red when business writes are applied without the record's condition
    (`commits-without-a-fence`).
    """
    world = world_of(A)
    steps(world, "A", TO_COMMIT)
    play(world, "lose A")

    finish(world, "A")

    told = outcome(world, "A")
    assert isinstance(told, Ran)
    assert told.expires_at_s == stored(world).expires_at_s is not None
    assert committed(world) == ["final"]
    assert applied(world, "A") == ["Reserve", "StartStep", "FinishStep", "Complete"]
    assert_safe(world)


@pytest.mark.requirement("E6", "C2")
def test_what_a_resolver_finds_does_not_skip_the_business_writes() -> None:
    """A step that is found to be done finishes the step alone: the run that follows makes the
    business writes, and does not repeat the step.

    Red when a settlement may complete a recorded operation (`recorded-settled-as-a-whole`).
    """
    world = world_of(A, B, C)
    steps(world, "A", TO_CHECKPOINT)
    play(world, "kill A", "advance lease")
    finish(world, "B")
    assert stored(world).status is Status.UNKNOWN
    play(world, "advance due")

    finish(world, world.add("reconciler").name)

    assert stored(world).status is Status.FAILED_RETRYABLE
    assert committed(world) == []
    finish(world, "C")
    assert "charge by A" in answer(world, "C")
    assert (steps_begun(world), committed(world)) == (["A charge"], ["final"])
    assert_safe(world)


@pytest.mark.requirement("E2")
def test_what_was_never_executed_lets_the_run_finish() -> None:
    """A step that proves that nothing happened is not in doubt: the run calls it again, or answers.

    Red when NotExecuted leaves the mark: nothing could then be completed.
    """
    again, declined = replace(A, plan=Plan.AGAIN), replace(A, plan=Plan.DECLINED)
    for caller, ran in ((again, 1), (declined, 0)):
        world = world_of(caller)

        finish(world, "A")

        told = outcome(world, "A")
        assert isinstance(told, Ran)
        assert told.value.status == (201 if ran else 402)
        assert (effects(world), committed(world)) == (ran, ["final"] * ran)
        marks = ["StartStep", "ClearStep"] + ["StartStep", "FinishStep"] * ran
        assert applied(world, "A") == ["Reserve", *marks, "Complete"]
        assert_safe(world)


def test_a_late_clearing_leaves_the_next_mark() -> None:
    """The write that cleared a mark arrives once more, and does not clear that of the next call."""
    world = world_of(replace(A, plan=Plan.AGAIN), B)
    steps(world, "A", TO_CALL)
    play(world, "delay A", "step A", "step A")
    before = stored(world)
    assert before.is_in_doubt

    play(world, "land A")

    assert stored(world) == before
    finish(world, "A", "B")
    assert answer(world, "B") == answer(world, "A")
    assert effects(world) == 1
    assert_safe(world)


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("is_over", [True, False])
def test_a_second_settlement_does_not_land_on_the_next_attempt(is_over: bool) -> None:
    """Two reconcilers were told that nothing had happened, the first one in a turn before the
    second's, and the second let the next attempt begin. What the first one says is of an attempt
    that is no longer there.

    Red when SettleStep does not name the owner that was asked about (`step-settled-for-anybody`).
    """
    world = world_of(replace(A, plan=Plan.FAIL_BEFORE), replace(B, plan=Plan.FAIL_AFTER), C)
    finish(world, "A")
    play(world, "advance due")
    first, second = (world.add(name).name for name in ("reconciler-1", "reconciler-2"))
    steps(world, first, TO_SETTLE)
    play(world, "advance due")
    finish(world, second)
    steps(world, "B", TO_CHECKPOINT + 1)
    if is_over:
        finish(world, "B")
    before = stored(world)
    assert before.is_in_doubt

    finish(world, first)

    assert stored(world) == before
    finish(world, "B")
    settle(world, "C")
    assert "charge by B" in answer(world, "C")
    assert (effects(world), committed(world)) == (1, ["final"])
    assert_safe(world)


def commit_of(world: World, name: str) -> Commit:
    """The commit that an actor with one idempotent step sends, held back."""
    steps(world, name, TO_COMMIT - 1)
    command = world.actors[name].command
    assert isinstance(command, Transact)
    return command.commit


@pytest.mark.case(11)
@pytest.mark.parametrize("is_busted", [True, False])
def test_a_key_that_is_free_again_begins_another_operation(is_busted: bool) -> None:
    """The same key after its expiry, or after its record was removed, with another body, within the
    ten minutes for which DynamoDB knows a token: nothing that is derived is the same.

    Red when the operation id, and so token, message id or downstream key, is derived from the key
    (`operation-id-from-key`).
    """
    world = world_of(A, OTHER, work=KEYED, settings=Settings(retention_s=60))
    began_ms = world.time.now_ms()
    first = commit_of(world, "A")
    finish(world, "A")
    if is_busted:
        world.store.records.clear()
    else:
        play(world, "advance retention")

    second = commit_of(world, "OTHER")
    finish(world, "OTHER")

    assert world.time.now_ms() - began_ms < TEN_MINUTES_MS
    assert first.token != second.token
    assert first.messages[0].id != second.messages[0].id
    assert first.messages[0].operation_id != second.messages[0].operation_id
    assert effects(world) == 2
    assert committed(world) == ["final", "final"]
    assert "charge by OTHER" in answer(world, "OTHER")
    assert_safe(world)


@pytest.mark.requirement("E2")
def test_an_idempotent_step_shows_the_same_key_in_every_attempt() -> None:
    """A call whose answer was lost is recognised by the provider when the next attempt repeats it.

    Red when the downstream key is not the same over the attempts (`key-of-the-attempt`).
    """
    world = world_of(A, B, work=KEYED)
    steps(world, "A", TO_MARK)
    play(world, "lose A")

    finish(world, "A", "B")

    assert steps_begun(world) == ["A charge", "B charge"]
    assert effects(world) == 1
    assert "charge by A" in answer(world, "B")
    assert_safe(world)
