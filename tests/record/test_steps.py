"""What a record says of its steps: which are finished, and which one is in doubt."""

from __future__ import annotations

import itertools

import pytest

from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from tests.support.records import FINISHED, REACHED, STARTED, STEPS

CHARGED = FinishedStep(name=STARTED.name, position=2, at_ms=STARTED.at_ms + 1, result="1")
EVERY_KIND = pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)


def test_no_steps_are_neither_finished_nor_in_doubt() -> None:
    """A record begins with no step finished and none under way."""
    assert (NO_STEPS.started, NO_STEPS.finished) == (None, ())


def test_a_finished_step_is_found_by_its_whole_name() -> None:
    """A name is compared as a whole: with dots, spaces and all, and in its case."""
    steps = STEPS["finished"]

    assert steps.named("create order.1 ✓") == FINISHED
    assert steps.named("committed") == REACHED
    for other in ("create order", "create order.1", "Committed", "", "charge"):
        assert steps.named(other) is None


def test_a_finished_step_is_found_at_its_place() -> None:
    """A place is that of the run, not that among the finished steps."""
    later = FinishedStep(name="later", position=5, at_ms=1, result="1")
    steps = STEPS["finished"].finishing(later)

    assert [steps.at(position) for position in (0, 1, 2, 5)] == [FINISHED, REACHED, None, later]


def test_a_step_under_way_counts_as_not_finished() -> None:
    """A step that was started is found neither by its name nor at its place.

    Its result is not on record, so that nothing may be taken from there.
    """
    steps = STEPS["finished and started"]

    assert steps.started == STARTED
    assert steps.named(STARTED.name) is None
    assert steps.at(STARTED.position) is None


@EVERY_KIND
def test_a_start_leaves_what_is_finished(steps: Steps) -> None:
    """A step that starts is in doubt, and nothing that has finished is lost."""
    started = StartedStep(name="another", position=7, mark=9, at_ms=1)

    assert steps.starting(started) == Steps(started=started, finished=steps.finished)


@EVERY_KIND
def test_an_end_takes_the_doubt_away(steps: Steps) -> None:
    """A step that has finished is on record beside the others, and none is in doubt."""
    assert steps.finishing(CHARGED) == Steps(finished=(*steps.finished, CHARGED))


@EVERY_KIND
def test_a_clearing_leaves_what_is_finished(steps: Steps) -> None:
    """Cleared, the step is as if it had never started, and nothing that has finished is lost."""
    assert steps.cleared() == Steps(finished=steps.finished)


def test_finished_steps_stand_in_the_order_of_the_run() -> None:
    """However they came to be known, steps read from a store are the same as those in memory."""
    orders = itertools.permutations((FINISHED, REACHED, CHARGED))

    read = {finished_in(order) for order in orders}

    assert read == {Steps(finished=(FINISHED, REACHED, CHARGED))}


def finished_in(order: tuple[FinishedStep, ...]) -> Steps:
    """These have finished, one after the other."""
    steps = NO_STEPS
    for step in order:
        steps = steps.finishing(step)
    return steps


def test_only_what_has_no_result_is_a_commit() -> None:
    """A step whose result is empty is a step all the same; a recovery point has none at all."""
    assert REACHED.is_commit
    for result in ("", b"", "null"):
        assert not FinishedStep(name="charge", position=0, at_ms=1, result=result).is_commit


def test_no_change_touches_the_steps_it_starts_from() -> None:
    """Steps are values: what was read of a record stays as it was read."""
    steps = Steps(started=STARTED, finished=(FINISHED,))

    steps.starting(StartedStep(name="another", position=7, mark=9, at_ms=1))
    steps.finishing(CHARGED)
    steps.cleared()

    assert steps == Steps(started=STARTED, finished=(FINISHED,))
