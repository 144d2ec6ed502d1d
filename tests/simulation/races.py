"""Worlds in which a record is to be settled, and who has settled it in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.reconciler.report import Report
from oncekey.record.outcome import Ran
from oncekey.settlement.settlement import Settlement
from tests.simulation.actors import Actor
from tests.simulation.explorer import verdict
from tests.simulation.history import Escalated, Told, Wrote
from tests.simulation.traces import TO_COMPLETE, play, steps
from tests.simulation.workers import JobActor, JobsWorld, Worker

if TYPE_CHECKING:
    from oncekey.store.due_index import OpenRecords
    from oncekey.testing.memory import MemoryStore
    from tests.simulation.scenario import Scenario


@dataclass(slots=True)
class Racer(JobActor):
    """A worker, a caller whose request is carried out at once, or who settles."""

    def open(self, store: OpenRecords) -> None:
        """Make the flow."""
        opens = JobActor.open if isinstance(self.caller, Worker) else Actor.open
        opens(self, store)


class Race(JobsWorld):
    """A world of a late owner, `A`: it has made its effect, and is past its lease and the grace.

    `calls`: how many steps it has made by then.
    """

    actor_type = Racer
    calls = TO_COMPLETE

    def __init__(self, scenario: Scenario, store: MemoryStore) -> None:
        super().__init__(scenario, store)
        steps(self, "A", self.calls)
        play(self, "advance due")

    def winners(self) -> list[str]:
        """Who says that the outcome is theirs; nobody failed."""
        winners = [
            event.actor
            for event in self.events
            if isinstance(event, Told) and isinstance(event.outcome, Ran)
        ]
        for name, actor in self.actors.items():
            match actor.outcome:
                case Report() as report:
                    assert report.failed == 0
                    assert not (report.settled and report.overtaken)
                    winners += [name] * report.settled
                case Settlement.SETTLED:
                    winners.append(name)
                case _:
                    pass
        return winners

    def writers(self, *kinds: str) -> list[str]:
        """Whose writes of these kinds the store has applied, in order."""
        return [
            event.actor
            for event in self.events
            if isinstance(event, Wrote)
            and event.permitted
            and type(event.transition).__name__ in kinds
        ]

    @property
    def told(self) -> list[str]:
        """What persons were told."""
        return [event.body for event in self.events if isinstance(event, Escalated)]

    def check(self) -> None:
        """No rule of safety is broken."""
        violation = verdict(self.history())
        assert violation is None, str(violation)
