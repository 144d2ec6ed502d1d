"""A refused write of a step is ours where it had been applied before and its answer was lost."""

from __future__ import annotations

from typing import Any

import pytest

from oncekey.record.record import Effects, Record, Status
from oncekey.record.rules import applied, has_landed, permitted
from oncekey.record.transitions import ClearStep, FinishStep, SettleStep, StartStep, StepTransition
from tests.support.records import FINISHED, REACHED, STARTED, STEPS, every_record, record
from tests.support.replacing import replace
from tests.support.transition_rows import CHARGED, HALF_DONE, OTHER_STEP, PK

OWNER = record().owner
STEP_WRITES: dict[str, StepTransition] = {
    "start": StartStep(pk=PK, owner=OWNER, step=OTHER_STEP),
    "finish": FinishStep(pk=PK, owner=OWNER, step=CHARGED, mark=STARTED.mark),
    "finish unmarked": FinishStep(pk=PK, owner=OWNER, step=FINISHED, mark=None),
    "commit": FinishStep(pk=PK, owner=OWNER, step=REACHED, mark=None),
    "clear": ClearStep(pk=PK, owner=OWNER, step=STARTED),
}
every_write = pytest.mark.parametrize("write", STEP_WRITES.values(), ids=STEP_WRITES)


def recorded(steps: str = "none") -> Record:
    """A record of recorded effects in progress, with these of the steps."""
    return record(effects=Effects.RECORDED, steps=STEPS[steps])


def before(write: StepTransition) -> list[Record]:
    """Every record that the write may be applied to."""
    return [stored for stored in every_record() if permitted(write, stored)]


@every_write
def test_a_write_sent_twice_is_refused_and_known_as_ours(write: StepTransition) -> None:
    """Sent again because its answer was lost, the write is refused, and met as our own.

    Red when `has_landed` says no of any kind of step write.
    """
    landed = [applied(write, stored) for stored in before(write)]

    assert landed
    assert [stored for stored in landed if permitted(write, stored)] == []
    assert [stored for stored in landed if not has_landed(write, stored)] == []


@every_write
def test_a_write_that_was_not_applied_is_never_known_as_ours(write: StepTransition) -> None:
    """A record that still permits the write does not say that it has landed.

    Red when `has_landed` goes by the owner alone.
    """
    assert [stored for stored in before(write) if has_landed(write, stored)] == []


@every_write
def test_nothing_has_landed_on_an_absent_record(write: StepTransition) -> None:
    """Where there is no record, nothing of ours is on record."""
    assert not has_landed(write, None)


@every_write
@pytest.mark.parametrize(
    "change",
    [
        {"owner": "owner-2"},
        {"status": Status.UNKNOWN},
        {"status": Status.COMPLETED},
        {"status": Status.FAILED_RETRYABLE},
    ],
    ids=str,
)
def test_nothing_is_ours_once_we_may_not_go_on(
    write: StepTransition, change: dict[str, Any]
) -> None:
    """A run that was taken over, or judged by somebody else, must stop though its step is there.

    Red when the owner or the state is not compared.
    """
    for stored in before(write):
        landed = applied(write, stored)
        assert not has_landed(write, replace(landed, **change))


@pytest.mark.parametrize(
    "change", [{"mark": 5}, {"name": "different"}, {"position": 3}, {"at_ms": 1}], ids=str
)
def test_the_start_of_another_call_is_not_ours(change: dict[str, Any]) -> None:
    """The mark of a step that is in doubt is ours only if it is the very one that we wrote.

    Red when starts are compared by the step's name alone.
    """
    other = replace(OTHER_STEP, **change)
    stored = applied(StartStep(pk=PK, owner=OWNER, step=other), recorded())

    assert not has_landed(STEP_WRITES["start"], stored)


def test_a_start_has_not_landed_once_its_step_is_finished() -> None:
    """A late start of a finished step is no permission to run it."""
    start = StartStep(pk=PK, owner=OWNER, step=replace(STARTED, name=FINISHED.name))

    assert not has_landed(start, recorded("finished"))


@pytest.mark.parametrize(
    "change", [{"result": '{"id":"ch_2"}'}, {"result": None}, {"position": 3}], ids=str
)
def test_another_end_of_the_step_is_not_ours(change: dict[str, Any]) -> None:
    """A step on record with another result is not what we wrote.

    Red when ends are compared by the step's name alone.
    """
    other = replace(CHARGED, **change)
    stored = applied(
        FinishStep(pk=PK, owner=OWNER, step=other, mark=STARTED.mark), recorded("started")
    )

    assert not has_landed(STEP_WRITES["finish"], stored)


def test_an_end_stays_ours_while_the_next_step_runs() -> None:
    """The answer of an end may come so late that the next step has started."""
    finish = STEP_WRITES["finish"]
    stored = applied(
        StartStep(pk=PK, owner=OWNER, step=replace(OTHER_STEP, position=3)),
        applied(finish, recorded("started")),
    )

    assert has_landed(finish, stored)


def test_a_clearing_has_not_landed_under_another_mark() -> None:
    """While another call of the step is under way, the old one's clearing says nothing of it."""
    other = replace(STARTED, mark=STARTED.mark + 1)

    assert not has_landed(ClearStep(pk=PK, owner=OWNER, step=other), recorded("started"))


def test_what_a_resolver_settled_is_not_ours() -> None:
    """A resolver that found the same result has fenced us off; a run of its own goes on from there.

    Red when `has_landed` asks for the step alone.
    """
    unknown = replace(recorded("started"), status=Status.UNKNOWN)
    settle = SettleStep(
        pk=PK, seen_owner=OWNER, new_owner="owner-9", retry=HALF_DONE, finished=CHARGED
    )

    settled = applied(settle, unknown)

    assert settled.steps.named(CHARGED.name) == CHARGED
    assert not has_landed(STEP_WRITES["finish"], settled)


def test_a_finished_step_was_not_cleared() -> None:
    """A clearing that met the step as finished was not applied: the step has a result on record.

    Red when `has_landed` of a clearing asks only whether no step is started.
    """
    write = STEP_WRITES["clear"]
    cleared = recorded("finished")
    finished = replace(cleared, steps=cleared.steps.finishing(CHARGED))

    assert has_landed(write, cleared)
    assert not has_landed(write, finished)
