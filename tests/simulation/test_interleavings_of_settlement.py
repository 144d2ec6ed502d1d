"""Reconcilers, a late owner, webhooks and a client race for one record, call by call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from oncekey.reconciler.report import Report
from oncekey.record.outcome import Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.testing.memory import MemoryStore
from tests.simulation import broken_settlers
from tests.simulation.broken_settlers import settled_for_anybody
from tests.simulation.broken_stores import BrokenStore, owner_kept_by_settlement
from tests.simulation.explorer import explore
from tests.simulation.races import Race
from tests.simulation.scenario import ALL_FAULTS, Caller, Plan, Scenario
from tests.simulation.traces import (
    TO_CHECKPOINT,
    answer,
    committed,
    effects,
    finish,
    outcome,
    stored,
)
from tests.simulation.workers import Worker, jobs_in
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

A, B, AGAIN = (Caller(name=name) for name in ("A", "B", "again"))
RECORDED, RECORDED_AGAIN = (replace(each, effects=Effects.RECORDED) for each in (A, AGAIN))
ALL = ("reconciler-1", "reconciler-2", "webhook")
# The one passing of time is that in which the owner becomes late.
ONCE = Scenario(callers=(A,), killed_in_time=False, passes=(), most_passes=1)
LATE_OWNER = replace(ONCE, settlers=ALL)
RUN_AGAIN = replace(
    ONCE,
    callers=(replace(A, plan=Plan.FAIL_BEFORE), replace(B, plan=Plan.FAIL_AFTER)),
    settlers=("reconciler", "denial"),
)
HALF_DONE = replace(
    ONCE,
    callers=(
        replace(RECORDED, plan=Plan.FAIL_AT_LAST, keeps_request=True),
        replace(RECORDED, name="B"),
    ),
    settlers=("reconciler-1", "reconciler-2"),
)


class OneOutcome(Race):
    """Two reconcilers, a late owner and a webhook, each with an answer of its own."""

    def check(self) -> None:
        """One answer is on record, written once; its writer says so, and everybody else not."""
        super().check()
        assert stored(self).status is Status.COMPLETED
        writers = self.writers("Complete", "Settle")
        assert len(writers) == 1, writers
        assert self.winners() == writers
        finish(self, self.add(AGAIN).name)
        assert isinstance(outcome(self, "again"), Replayed)
        assert answer(self, "A") == answer(self, "again")
        assert answer(self, "A").endswith("/A") is (writers == ["A"])
        assert self.told == []


class OneStep(Race):
    """The same for a step of recorded effects: it took effect, and its owner is late to say so."""

    calls = TO_CHECKPOINT

    def check(self) -> None:
        """The step has one result, written once, and the next request goes on from there."""
        super().check()
        (finished,) = stored(self).steps.finished
        writers = self.writers("FinishStep", "SettleStep")
        assert finished.name == "charge"
        assert len(writers) == 1, writers
        assert [name for name in self.winners() if name != "A"] == [
            name for name in writers if name != "A"
        ]
        assert isinstance(outcome(self, "A"), Refusal) or writers == ["A"]
        finish(self, self.add(RECORDED_AGAIN).name)
        assert "charge by A" in answer(self, "again")
        assert (effects(self), committed(self)) == (1, ["final"])
        assert self.told == []


class RunAgain(Race):
    """Nothing has happened, and two say so; a client's retry then pays, and is interrupted."""

    def check(self) -> None:
        """What has paid may not run again."""
        super().check()
        assert effects(self) <= 1
        may_run = stored(self).status is Status.FAILED_RETRYABLE
        assert not (may_run and effects(self))
        assert len(self.writers("Settle")) == 1


class Told(Race):
    """Nobody can be asked: two reconcilers tell a person, while a webhook comes."""

    def check(self) -> None:
        """One message for one mark, none without, and the outcome all the same."""
        super().check()
        record = stored(self)
        assert len(self.told) == (record.escalated_at_ms is not None)
        assert record.status is Status.COMPLETED
        assert len(self.writers("Complete", "Settle")) == 1
        assert record.due is None
        finish(self, self.add(AGAIN).name)
        assert answer(self, "A") == answer(self, "again")


class ToldAtMostOnce(Race):
    """Nobody can be asked, and anything may happen to two reconcilers; the owner does not end."""

    def check(self) -> None:
        """One message at the most, and none without the mark."""
        super().check()
        assert len(self.told) <= 1
        assert not self.told or stored(self).escalated_at_ms is not None


class HandedBack(Race):
    """Half-done work is due: two reconcilers hand it back, while its client comes back itself."""

    calls = 7

    def check(self) -> None:
        """It was handed back once at the most, and whoever does it, does it once."""
        super().check()
        messages = jobs_in(self.store)
        handed = sum(
            actor.outcome.handed_back
            for actor in self.actors.values()
            if isinstance(actor.outcome, Report)
        )
        assert handed == len(messages) <= 1
        assert len(self.writers("Reschedule")) == len(messages)
        finish(self, self.add(Worker(name="worker", effects=Effects.RECORDED)).name)
        finish(self, self.add(RECORDED_AGAIN).name)
        assert "charge by A" in answer(self, "again")
        assert (effects(self), len(self.store.writes)) == (1, 1)
        super().check()


def ends(
    race: type[Race], scenario: Scenario, make_store: Callable[[], MemoryStore] = MemoryStore
) -> int:
    """Carry out all interleavings, check each end, and say how many ends there were."""

    def at_end(world: World) -> None:
        assert isinstance(world, Race)
        world.check()

    return explore(scenario, lambda scenario: race(scenario, make_store()), at_end).runs


@pytest.mark.requirement("D6")
def test_one_outcome_is_recorded_once_whoever_comes_first() -> None:
    """Two reconcilers, a late owner and a webhook race for one operation: in every interleaving of
    their calls one outcome is recorded, once; its writer says so and the others that they came
    second; the late owner's caller and every retry get the stored answer.

    Red when a settlement overwrites another, or takes another's for its own.
    """
    assert ends(OneOutcome, LATE_OWNER) >= 50


@pytest.mark.proof
def test_a_step_has_one_result_whoever_comes_first() -> None:
    """The same race for a step of recorded effects: it has one result, the late owner's caller is
    told to come again, and the next request resumes with that result; nothing is paid again.
    """
    assert ends(OneStep, replace(LATE_OWNER, callers=(RECORDED,))) >= 50


@pytest.mark.proof
def test_what_was_settled_as_not_executed_is_not_settled_again_after_a_run() -> None:
    """A settlement that was decided before another run began does not speak of that run: what that
    one has paid never becomes free to run again.
    """
    assert ends(RunAgain, RUN_AGAIN) >= 10


@pytest.mark.proof
@pytest.mark.usefixtures("nobody_can_be_asked")
def test_a_person_is_told_once_for_each_mark() -> None:
    """Of two reconcilers that meet the same record, one marks it and tells; nobody is told of what
    a webhook has settled before.

    Red when who is refused the mark tells all the same.
    """
    assert ends(Told, LATE_OWNER) >= 50


@pytest.mark.usefixtures("nobody_can_be_asked")
def test_a_person_who_is_told_without_the_mark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two persons are told where a reconciler that is refused the mark goes on."""
    broken_settlers.turn_not_fenced(monkeypatch)

    with pytest.raises(AssertionError):
        ends(Told, LATE_OWNER)


@pytest.mark.proof
@pytest.mark.usefixtures("nobody_can_be_asked")
def test_nobody_is_told_twice_in_a_day_whatever_happens_to_a_reconciler() -> None:
    """The mark comes first, then the message: killed or unanswered anywhere, two reconcilers that
    look at different moments send one message at the most, and none without a mark.

    Red when the message is sent before the mark is on record.
    """
    # Two that write the very same in one millisecond cannot tell whose answer was lost. Both then
    # send, and the message's id says that it is one.
    apart = replace(LATE_OWNER, settlers=ALL[:2], skews=(("reconciler-2", 1),))

    assert ends(ToldAtMostOnce, replace(apart, faults=ALL_FAULTS, most_faults=1)) >= 50


@pytest.mark.requirement("E10")
def test_half_done_work_is_handed_back_once_and_done_once() -> None:
    """Two reconcilers and the client meet half-done work: one message at the most is written for
    it, and the steps that are left are done once, by the client or the worker.

    Red when the message is written without the turn, or the worker runs what a client has resumed.
    """
    assert ends(HandedBack, HALF_DONE) >= 20


@pytest.mark.parametrize(
    ("race", "scenario", "make_store"),
    [
        (RunAgain, RUN_AGAIN, partial(BrokenStore, permitted=settled_for_anybody)),
        (OneOutcome, LATE_OWNER, partial(BrokenStore, applied=owner_kept_by_settlement)),
    ],
    ids=["any owner", "old owner"],
)
def test_a_settlement_without_its_fences_is_found(
    race: type[Race], scenario: Scenario, make_store: Callable[[], MemoryStore]
) -> None:
    """Without the owner seen, or without a fresh owner written, some interleaving breaks a rule."""
    with pytest.raises(AssertionError):
        ends(race, scenario, make_store)
