"""Named schedules of recorded effects: dead and stale owners, and who comes after them."""

from __future__ import annotations

import pytest

from oncekey.record.outcome import Reason, Replayed
from oncekey.record.record import Effects, Status
from tests.simulation.scenario import ONE_STEP, Caller, Plan, Step, Work
from tests.simulation.traces import (
    TO_BEGIN,
    TO_CALL,
    TO_CHECKPOINT,
    TO_COMMIT,
    TO_MARK,
    TO_SETTLE,
    answer,
    applied,
    assert_safe,
    committed,
    effects,
    finish,
    outcome,
    play,
    refusal,
    runs,
    steps,
    steps_begun,
    stored,
    world_of,
)
from tests.support.replacing import replace

A, B, C = (Caller(name=name, effects=Effects.RECORDED) for name in "ABC")
KEYED = Work(steps=(Step(is_idempotent=True),))
THREE_STEPS = Work(steps=(Step("reserve"), Step("ship", is_idempotent=True), Step("charge")))

# Where the owner stalls: before its handler, its mark, its call, its checkpoint, and its commit.
STALLS = {
    "before its handler": (ONE_STEP, TO_BEGIN),
    "before its mark": (ONE_STEP, TO_MARK),
    "before its commit": (ONE_STEP, TO_COMMIT),
    "before its handler, idempotent": (KEYED, TO_BEGIN),
    "before its checkpoint, idempotent": (KEYED, TO_MARK + 1),
    "before its commit, idempotent": (KEYED, TO_MARK + 2),
    "before its second step": (THREE_STEPS, TO_COMMIT),
    "before its third step": (THREE_STEPS, TO_COMMIT + 1),
}


@pytest.mark.requirement("E6", "E2")
@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("stall", STALLS)
def test_a_stale_owner_commits_nothing_and_starts_no_further_step(
    stall: str, is_over: bool
) -> None:
    """An owner that resumes after a takeover, whether the next attempt has ended or not, changes
    nothing, calls no step, and is told what became of the operation.

    Red when the lease is not looked at before a step (`lease-not-looked-at`), or a commit is
    applied without the record's condition (`commits-without-a-fence`).
    """
    work, moves = STALLS[stall]
    world = world_of(A, B, C, work=work, killed_in_time=False)
    steps(world, "A", moves)
    play(world, "advance lease")
    steps(world, "B", TO_MARK)
    if is_over:
        finish(world, "B")
    before, made, begun = stored(world), applied(world, "A"), steps_begun(world)
    assert before.attempt == 2

    finish(world, "A")

    assert (stored(world), applied(world, "A"), steps_begun(world)) == (before, made, begun)
    if is_over:
        assert isinstance(outcome(world, "A"), Replayed)
    else:
        assert refusal(world, "A") is Reason.RUNNING
        finish(world, "B")
    finish(world, "C")
    assert answer(world, "C") == answer(world, "B")
    assert effects(world) == len(work.steps)
    assert committed(world) == ["final"]
    assert_safe(world)


@pytest.mark.requirement("E1", "E6")
@pytest.mark.parametrize("plan", [Plan.SUCCEED, Plan.FAIL_AT_LAST])
def test_whoever_comes_next_repeats_no_finished_step(plan: Plan) -> None:
    """Three steps: the attempt dies, or fails, after all of them; the next calls none of them.

    Red when a resumed run does not look at the record (the mutation `record-not-looked-at`).
    """
    world = world_of(replace(A, plan=plan), B, work=THREE_STEPS)
    if plan is Plan.SUCCEED:
        while len(steps_begun(world)) < len(THREE_STEPS.steps):
            steps(world, "A", 1)
        steps(world, "A", 2)
        play(world, "kill A", "advance lease")
    else:
        finish(world, "A")

    finish(world, "B")

    assert steps_begun(world) == ["A reserve", "A ship", "A charge"]
    assert runs(world) == ["A", "B"]
    assert answer(world, "B").count("by A") == 3
    assert committed(world) == ["final"]
    assert_safe(world)


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_step_in_doubt_is_settled_before_anybody_goes_on(has_arrived: bool) -> None:
    """Killed inside a step, whether its call arrives or not: nobody takes over, the provider is
    asked after lease and grace, and the next attempt does what is left.

    Red when a step in doubt is taken over (the mutation `take-over-in-doubt`).
    """
    world = world_of(A, B, C)
    steps(world, "A", TO_CALL)
    play(world, "kill A", *["land A"] * has_arrived, "advance lease")
    reconciler = world.add("reconciler").name

    finish(world, "B", reconciler)

    assert refusal(world, "B") is Reason.OUTCOME_UNKNOWN
    assert stored(world).status is Status.UNKNOWN
    play(world, "advance due")
    finish(world, world.add("reconciler-again").name, "C")
    assert steps_begun(world) == ["A charge"] if has_arrived else ["A charge", "C charge"]
    assert (effects(world), committed(world)) == (1, ["final"])
    assert ("charge by A" in answer(world, "C")) is has_arrived
    assert_safe(world)


def test_a_caught_error_of_a_step_does_not_complete_the_operation() -> None:
    """A step that may have happened is in doubt, even where the handler caught its error and
    answered 201: its caller is told so, and the next one gets the truth.
    """
    world = world_of(replace(A, plan=Plan.CAUGHT), B)

    finish(world, "A")

    assert refusal(world, "A") is Reason.OUTCOME_UNKNOWN
    assert stored(world).status is Status.UNKNOWN
    assert committed(world) == []
    play(world, "advance due")
    finish(world, world.add("reconciler").name, "B")
    assert "charge by A" in answer(world, "B")
    assert (effects(world), committed(world)) == (1, ["final"])
    assert_safe(world)


def test_a_take_over_goes_by_nothing_that_it_read_too_early() -> None:
    """A checkpoint that lands between the refusal and the takeover makes the takeover void."""
    world = world_of(A, B, work=KEYED)
    steps(world, "A", TO_MARK + 1)
    play(world, "kill A", "advance lease")
    steps(world, "B", 2)

    play(world, "land A")
    finish(world, "B")

    assert applied(world, "B") == ["TakeOver", "Complete"]
    assert steps_begun(world) == ["A charge"]
    assert "charge by A" in answer(world, "B")
    assert_safe(world)


def test_a_checkpoint_that_lands_before_its_doubt_is_marked_is_kept() -> None:
    """A step whose checkpoint lands late, after the attempt was refused its release and before it
    marks the doubt, is finished; nobody can be asked about it, and whoever lets go repeats nothing.
    """
    world = world_of(A, B)
    steps(world, "A", TO_CHECKPOINT)
    play(world, "delay A", "break A", "step A", "land A")
    finish(world, "A")
    assert refusal(world, "A") is Reason.OUTCOME_UNKNOWN
    assert (stored(world).status, stored(world).is_in_doubt) == (Status.UNKNOWN, False)

    play(world, "advance due")
    finish(world, world.add("reconciler").name, "B")

    assert steps_begun(world) == ["A charge"]
    assert (effects(world), committed(world)) == (1, ["final"])
    assert_safe(world)


def test_a_clearing_that_lands_after_the_death_of_its_sender_lets_the_next_take_over() -> None:
    """A step that is proven not to have been executed is not in doubt, however late the proof."""
    world = world_of(replace(A, plan=Plan.NOT_EXECUTED), B)
    steps(world, "A", TO_CALL)
    play(world, "kill A", "land A", "advance lease")

    finish(world, "B")

    assert applied(world, "A") == ["Reserve", "StartStep", "ClearStep"]
    assert applied(world, "B") == ["TakeOver", "StartStep", "FinishStep", "Complete"]
    assert (effects(world), committed(world)) == (1, ["final"])
    assert_safe(world)


def test_a_settlement_that_lands_after_the_death_of_its_sender_counts() -> None:
    """What a reconciler found out lets the next attempt go on, though the reconciler is gone."""
    world = world_of(replace(A, plan=Plan.FAIL_AFTER), B)
    finish(world, "A")
    play(world, "advance due")
    reconciler = world.add("reconciler").name
    steps(world, reconciler, TO_SETTLE)
    play(world, f"kill {reconciler}", f"land {reconciler}")

    finish(world, "B")

    assert applied(world, reconciler) == ["Reschedule", "SettleStep"]
    assert steps_begun(world) == ["A charge"]
    assert (effects(world), committed(world)) == (1, ["final"])
    assert_safe(world)


def test_a_late_effect_that_lands_after_the_death_of_its_sender_counts() -> None:
    """What a webhook tells of a failed attempt completes it, though the webhook is gone."""
    repeatable = replace(A, effects=Effects.REPEATABLE)
    world = world_of(replace(repeatable, plan=Plan.FAIL_AFTER), replace(repeatable, name="B"))
    finish(world, "A")
    assert stored(world).status is Status.FAILED_RETRYABLE
    webhook = world.add("webhook").name
    steps(world, webhook, 3)
    play(world, f"kill {webhook}", f"land {webhook}")

    finish(world, "B")

    assert applied(world, webhook) == ["LateEffect"]
    assert (runs(world), effects(world)) == (["A"], 1)
    assert_safe(world)
