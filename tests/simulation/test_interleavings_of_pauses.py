"""An operator pauses and resumes in the middle: nothing begins meanwhile, and nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.engine import pausing
from oncekey.engine.reservation import BEGINNINGS
from oncekey.record.outcome import Reason, Refusal
from oncekey.record.pause import EVERYTHING, PauseScope
from oncekey.record.record import Effects
from oncekey.settings import Settings
from tests.simulation.explorer import explore, judge
from tests.simulation.history import Looked, Told, Wrote
from tests.simulation.scenario import Caller, Plan, Scenario
from tests.simulation.story import Violation
from tests.simulation.world import World
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.history import History

# Shorter than a lease: who looks again after one has read the end of the pause.
SETTINGS = Settings(pause_check_s=5)
A, B = (Caller(name=name) for name in "AB")
TWICE = tuple(Caller(name=name, effects=Effects.REPEATABLE) for name in "AB")
RECORDED = tuple(Caller(name=name, effects=Effects.RECORDED) for name in "AB")

SCENARIOS = {
    "two-callers": Scenario(
        callers=(A, B), settlers=("operator",), settings=SETTINGS, most_passes=1
    ),
    "failed-before": Scenario(
        callers=(replace(TWICE[0], plan=Plan.FAIL_AFTER), TWICE[1]),
        settlers=("operator",),
        settings=SETTINGS,
    ),
    "half-done": Scenario(
        callers=(replace(RECORDED[0], plan=Plan.FAIL_AT_LAST), RECORDED[1]),
        settlers=("operator",),
        settings=SETTINGS,
    ),
}


class PausedWorld(World):
    """A world whose operator resumes at the end, whatever has happened to the command before."""

    def heal(self) -> None:
        """End the pause, and let a sandbox's knowledge of it grow old."""
        self.store.resume(PauseScope.ALL, EVERYTHING)
        super().heal()


def nothing_begins_in_a_known_pause(history: History) -> Iterator[Violation]:
    """Who has read of the pause, and not of its end, sends no write after which a handler runs."""
    last: dict[str, Looked] = {}
    for event in history.events:
        if isinstance(event, Looked):
            last[event.actor] = event
        elif isinstance(event, Wrote) and not event.late:
            look = last.get(event.actor)
            if look is not None and look.is_paused and isinstance(event.transition, BEGINNINGS):
                yield Violation("an attempt begins in a known pause", (look, event))


def at_end(world: World) -> Violation | None:
    """The verdict on a run: the rule of pauses, and every other rule, with an answer at last."""
    broken = next(nothing_begins_in_a_known_pause(world.history()), None)
    return broken or judge(world)


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_key_runs_in_a_pause_and_none_is_lost_by_it(name: str) -> None:
    """In every interleaving: no attempt begins where the pause is known, the rules of a world
    without pauses hold, and after the pause every request gets its answer.

    Red when one of the writes that begin an attempt is sent without a look, or in spite of it.
    """
    refused = 0

    def counted(world: World) -> Violation | None:
        nonlocal refused
        refused += any(
            isinstance(event.outcome, Refusal) and event.outcome.reason is Reason.PAUSED
            for event in world.events
            if isinstance(event, Told)
        )
        return at_end(world)

    report = explore(SCENARIOS[name], PausedWorld, counted)

    assert report.found is None, str(report.found)
    assert refused > 0


def test_who_begins_in_spite_of_what_it_read_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule is broken by an engine that reads the pauses and does not keep to them."""
    monkeypatch.setattr(pausing, "pause_of", lambda *_: None)

    found = explore(SCENARIOS["two-callers"], PausedWorld, at_end).found

    assert found is not None
    assert "in a known pause" in str(found)
