"""The worlds of which every interleaving is carried out, for each kind of effects.

    python -m tests.simulation.worlds [NAME ...]

carries out those of these names, or all, and prints what each comes to. The largest takes most of
an hour.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.record import Effects
from tests.simulation.asked import declare_resolvers
from tests.simulation.explorer import Report, explore, judge
from tests.simulation.scenario import Caller, Scenario
from tests.simulation.workers import JobsWorld, Worker, judge_jobs
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.story import Violation


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A world of which every interleaving is carried out, and how its runs are judged."""

    scenario: Scenario
    make_world: Callable[[Scenario], World] = World
    at_end: Callable[[World], Violation | None] = judge

    def explored(self) -> Report:
        """Carry out every interleaving."""
        return explore(self.scenario, self.make_world, self.at_end, renames=False)


def _named(effects: Effects, actors: int, faults: int) -> tuple[str, Whole]:
    callers = tuple(Caller(name=name, effects=effects) for name in "ABC"[:actors])
    scenario = Scenario(callers=callers, most_faults=faults, most_passes=1)
    return f"{effects}-{actors}-{faults}", Whole(scenario=scenario)


def _queued(actors: int, faults: int) -> tuple[str, Whole]:
    clients = tuple(Caller(name=name) for name in "AB"[: actors - 1])
    callers = (*clients, Worker(name="W"))
    scenario = Scenario(callers=callers, most_faults=faults, most_passes=1)
    whole = Whole(scenario=scenario, make_world=JobsWorld, at_end=judge_jobs)
    return f"queued-{actors}-{faults}", whole


_SIZES = ((2, 1), (2, 2), (2, 3), (3, 1), (3, 2))
WORLDS = dict(
    [
        *(_named(effects, *size) for effects in Effects for size in _SIZES),
        *(_queued(*size) for size in _SIZES),
    ]
)


def main(names: list[str]) -> int:
    """Carry them out, and print a line for each; 1 if a rule was broken, 2 for a wrong name."""
    unknown = sorted(set(names) - set(WORLDS))
    if unknown:
        sys.stderr.write(f"no world {', '.join(unknown)}: there are {', '.join(WORLDS)}\n")
        return 2
    declare_resolvers()
    for name in names or WORLDS:
        began_s = time.process_time()
        report = WORLDS[name].explored()
        took_s = time.process_time() - began_s
        faults = ", ".join(f"{kind} {count}" for kind, count in report.faults.items())
        print(  # noqa: T201 -- it is a command
            f"{name}: {report.interleavings} interleavings, {report.states} states,"
            f" {report.runs} runs, faults: {faults or 'none'}; {took_s:.0f} s",
            flush=True,
        )
        if report.found is not None:
            print(report.found)  # noqa: T201 -- as above
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
