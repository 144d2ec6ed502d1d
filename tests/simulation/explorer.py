"""Runs of a scenario: all interleavings of a small one, or random ones of a large one by a seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from oncekey.record.record import Status
from tests.simulation.checkers import SAFETY
from tests.simulation.checkers_of_answers import (
    ANSWERS,
    MOST_RETRIES,
    PROGRESS,
)
from tests.simulation.checkers_of_effects import RECORDED
from tests.simulation.scenario import FAULTS, Caller, Kind, Move
from tests.simulation.world import World

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from tests.simulation.history import History
    from tests.simulation.scenario import Scenario
    from tests.simulation.story import Violation

_MOST_STEPS_FOR_EACH_OTHER = 6
_MOST_MOVES = 400


class Explorable(Protocol):
    """A world in which nothing runs by itself: a schedule makes one move after the other."""

    def moves(self) -> list[Move]:
        """Every move that is possible now; none once the run is over."""
        ...

    def take(self, move: Move) -> None:
        """Make one move."""
        ...

    def state(self) -> int:
        """A digest: from equal states, equal moves lead to equal histories."""
        ...


W = TypeVar("W", bound=Explorable)


@dataclass(frozen=True, slots=True)
class Found:
    """A violation, and the schedule that leads to it."""

    scenario: Any
    schedule: tuple[Move, ...]
    violation: Violation

    def __str__(self) -> str:
        schedule = "\n".join(f"    {move}" for move in self.schedule)
        return f"{self.violation}\n  schedule:\n{schedule}\n  scenario: {self.scenario}"


@dataclass(frozen=True, slots=True)
class Report:
    """What an exploration covered, and the first violation if there is one.

    `runs` are the schedules carried out to their end; `states` the distinct states met. Every
    schedule of the scenario leads through these states alone: `interleavings` is how many schedules
    that are. `faults` counts the faults by their kind, each once in each state that it was made in.
    """

    runs: int
    states: int
    found: Found | None
    interleavings: int = 0
    faults: Mapping[Kind, int] = field(default_factory=dict)


def verdict(history: History) -> Violation | None:
    """The first violation of the rules of safety."""
    recorded = RECORDED if history.circumstances.records_effects else ()
    for checker in (*SAFETY, *ANSWERS, *recorded):
        for violation in checker(history):
            return violation
    return None


def judge(world: World) -> Violation | None:
    """The verdict on a run that is over: it is healed, so that its progress is seen, too."""
    heal(world)
    history = world.history()
    late = (violation for check in PROGRESS for violation in check(history))
    return verdict(history) or next(late, None)


def explore(
    scenario: Scenario,
    make_world: Callable[[Scenario], World] = World,
    at_end: Callable[[World], Violation | None] = judge,
    *,
    prunes: bool = True,
    renames: bool = True,
) -> Report:
    """Carry out all schedules of a scenario; see `explore_all`.

    With `renames`, one of the schedules that differ in the names of equal actors alone stands for
    all of them: see `first_of_equals`.
    """
    moves = first_of_equals if renames else World.moves
    return explore_all(partial(make_world, scenario), at_end, scenario, prunes=prunes, moves=moves)


def explore_all(
    make_world: Callable[[], W],
    at_end: Callable[[W], Violation | None],
    scenario: object,
    *,
    prunes: bool = True,
    moves: Callable[[W], list[Move]] | None = None,
) -> Report:
    """Carry out all schedules of a world, depth first, by replaying sequences of choices.

    A state that has been met is not followed again: all that can come after it is known. That
    assumes that equal digests are equal states (64 bits: with a million states, one chance in tens
    of millions that any two fall together), and that a digest holds all that later moves and the
    verdict depend on, which tests compare with runs that follow everything. No move can be undone,
    so that no run meets a state twice. Every run is judged at its end. `scenario` is what a report
    of a violation shows.
    """
    path: list[_Fork] = []
    # How many schedules lead on from each state; 0 while that is not known.
    schedules: dict[int, int] = {}
    runs = 0
    faults: Counter[Kind] = Counter()
    while True:
        world = make_world()
        for fork in path:
            world.take(fork.options[fork.choice])
        while is_new := (state := world.state()) not in schedules or not prunes:
            schedules[state] = 0
            options = world.moves() if moves is None else moves(world)
            if not options:
                break
            path.append(_Fork(state, options))
            faults[options[0].kind] += 1
            world.take(options[0])
        if is_new:
            runs += 1
            schedules[state] = 1
            violation = at_end(world)
            if violation is not None:
                schedule = tuple(fork.options[fork.choice] for fork in path)
                return Report(runs, len(schedules), Found(scenario, schedule, violation))
        many = schedules[state]
        while path:
            fork = path[-1]
            fork.schedules += many
            if fork.choice + 1 < len(fork.options):
                fork.choice += 1
                faults[fork.options[fork.choice].kind] += 1
                break
            many = schedules[fork.state] = fork.schedules
            path.pop()
        else:
            made = {kind: faults[kind] for kind in FAULTS if faults[kind]}
            return Report(runs, len(schedules), None, many, made)


def first_of_equals(world: World) -> list[Move]:
    """Every move that is possible now, but of equal actors those of the first alone.

    Two actors are equal that do the same, by equal clocks, have begun at the same time or not at
    all, and have had no answer yet: they differ in their names alone, and have changed nothing. So
    a schedule in which the second goes on first is one in which the first does, with the two names
    exchanged.
    """
    seen: set[object] = set()
    others: set[str] = set()
    for actor in world.actors.values():
        if actor.trace == actor.begun and not actor.is_over:
            kind = (actor.kind, actor.clock.skew_ms, actor.trace, actor.is_frozen)
            if kind in seen:
                others.add(actor.name)
            seen.add(kind)
    return [move for move in world.moves() if move.actor not in others]


@dataclass(slots=True)
class _Fork:
    """A state on the way, its moves, which of them is being followed, and what they came to."""

    state: int
    options: list[Move]
    choice: int = 0
    schedules: int = 0


def heal(world: World) -> None:
    """End all faults, then let every request be sent again while time passes and settlers run."""
    world.heal()
    bodies = dict.fromkeys(caller.body for caller in world.scenario.callers)
    effects = world.scenario.callers[0].effects
    for number in range(MOST_RETRIES + 1):
        for body in bodies:
            run(
                world,
                world.add(Caller(name=f"again-{body}{number}", body=body, effects=effects)).name,
            )
        record = world.record
        if record is None or record.status is Status.COMPLETED:
            return
        if record.due is not None:
            late_ms = record.due.at_ms + world.circumstances.most_skew_ms + 1
            world.advance(max(0, late_ms - world.time.now_ms()))
        run(world, world.add(f"reconciler-again{number}").name)


def run(world: World, name: str) -> None:
    """Let one actor go on to its end, undisturbed."""
    actor = world.actors[name]
    while not actor.is_over:
        world.take(actor.step)


def play(world: World, schedule: Sequence[Move]) -> None:
    """Make the moves of a schedule that are still possible, leave out the others, and end."""
    for move in schedule:
        if move in world.moves():
            world.take(move)
    for name, actor in world.actors.items():
        if not actor.is_over:
            run(world, name)


def wander(world: World, chance: random.Random) -> tuple[Move, ...]:
    """Make random moves, mostly steps, until all actors have come to their ends."""
    made: list[Move] = []
    steps_for_each_other = chance.randint(1, _MOST_STEPS_FOR_EACH_OTHER)
    # Whoever can go on is not at an end.
    while (steps := world.steps()) or not world.is_over:
        is_step = chance.random() * (steps_for_each_other + 1) >= 1
        same = (steps if is_step else []) or _of_a_kind(world.moves(), chance)
        move = same[int(chance.random() * len(same))]
        world.take(move)
        made.append(move)
        if len(made) > _MOST_MOVES:
            raise AssertionError(f"Bug: a run of {world.scenario} does not end")
    while world.under_way and chance.randrange(2):
        move = Move(Kind.LAND, "", str(chance.randrange(len(world.under_way))))
        world.take(move)
        made.append(move)
    return tuple(made)


def _of_a_kind(options: list[Move], chance: random.Random) -> list[Move]:
    # First the kind, or the many ways to fail would crowd out the few to arrive late.
    kinds = list(dict.fromkeys(move.kind for move in options))
    kind = kinds[int(chance.random() * len(kinds))]
    return [move for move in options if move.kind is kind]


def shortest(
    found: Found,
    make_world: Callable[[Any], World] = World,
    at_end: Callable[[Any], Violation | None] = judge,
) -> Found:
    """Leave out every move that the violation of the same rule does not need."""
    best = found
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for index in range(len(best.schedule)):
            schedule = best.schedule[:index] + best.schedule[index + 1 :]
            world = make_world(best.scenario)
            play(world, schedule)
            violation = at_end(world)
            if violation is not None and violation.rule == best.violation.rule:
                best = Found(best.scenario, schedule, violation)
                is_shorter = True
                break
    return best
