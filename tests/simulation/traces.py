"""How a named trace is written down, and what is read off it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.outcome import Ran, Refusal, Replayed
from tests.simulation.explorer import verdict
from tests.simulation.history import Affected, Answer, Began, StepBegan, Told, Wrote
from tests.simulation.scenario import DEFAULTS, ONE_STEP, Caller, Kind, Move, Scenario, Work
from tests.simulation.world import World

if TYPE_CHECKING:
    from oncekey.record.outcome import Outcome, Reason
    from oncekey.record.record import Record
    from oncekey.settings import Settings

# The moves of an undisturbed first run: it asks; its reserve; its handler begins, with the effect;
# its handler returns; its completion.
TO_RESERVE, TO_BEGIN, TO_RETURN, TO_COMPLETE = 1, 2, 3, 4
# Those of a recorded one with one step that is not idempotent: it asks; its reserve; its handler
# begins; the step's mark; its call to the provider; its checkpoint; its commit.
TO_MARK, TO_CALL, TO_CHECKPOINT, TO_COMMIT = 3, 4, 5, 6
# Those of a reconciler that meets a doubt: it begins; its read; its turn; its question; what it
# settles.
TO_TURN, TO_QUESTION, TO_SETTLE = 2, 3, 4


def world_of(
    *callers: Caller,
    killed_in_time: bool = True,
    settings: Settings = DEFAULTS,
    work: Work = ONE_STEP,
) -> World:
    """A world in which a trace may do whatever it likes."""
    return World(
        Scenario(
            callers=callers,
            work=work,
            killed_in_time=killed_in_time,
            settings=settings,
            most_faults=99,
            most_passes=99,
        )
    )


def play(world: World, *moves: str) -> None:
    """Make moves such as `step A`, `lose A`, `advance lease` or `land A`, the first under way."""
    for text in moves:
        kind, who = text.split()
        if kind == Kind.LAND:
            number = next(i for i, sent in enumerate(world.under_way) if sent.actor == who)
            world.take(Move(Kind.LAND, who, str(number)))
        elif kind == Kind.ADVANCE:
            world.take(Move(Kind.ADVANCE, "", who))
        else:
            world.take(Move(Kind(kind), who))


def steps(world: World, name: str, number: int) -> None:
    """Let an actor make so many steps."""
    play(world, *[f"step {name}"] * number)


def finish(world: World, *names: str) -> None:
    """Let each come to its end, undisturbed, one after the other."""
    for name in names:
        while not world.actors[name].is_over:
            world.take(Move(Kind.STEP, name))


def stored(world: World) -> Record:
    """The record as it is stored."""
    record = world.record
    assert record is not None
    return record


def outcome(world: World, name: str) -> Outcome:
    """What a caller was told."""
    return next(
        event.outcome for event in world.events if isinstance(event, Told) and event.actor == name
    )


def answer(world: World, name: str) -> str:
    """The answer that a caller got, whether from its own run or from the record."""
    told = outcome(world, name)
    if isinstance(told, Replayed):
        return told.stored
    assert isinstance(told, Ran)
    assert isinstance(told.value, Answer)
    return told.value.stored


def refusal(world: World, name: str) -> Reason:
    """Why a caller was refused."""
    told = outcome(world, name)
    assert isinstance(told, Refusal)
    return told.reason


def runs(world: World) -> list[str]:
    """Whose handlers began, in order."""
    return [event.actor for event in world.events if isinstance(event, Began)]


def effects(world: World) -> int:
    """How often the outside world changed."""
    return sum(isinstance(event, Affected) for event in world.events)


def steps_begun(world: World) -> list[str]:
    """Who called the function of which step, in order."""
    return [f"{event.actor} {event.step}" for event in world.events if isinstance(event, StepBegan)]


def committed(world: World) -> list[str]:
    """At which points business writes were made, each with its message."""
    points = [str(write.parameters["Item"]["id"]["S"]) for write in world.store.writes]
    assert points == [f"{each.operation_id}/{each.topic}" for each in world.store.messages]
    return [point.partition("/")[2] for point in points]


def applied(world: World, name: str) -> list[str]:
    """The writes of an actor that were applied."""
    return [
        type(event.transition).__name__
        for event in world.events
        if isinstance(event, Wrote) and event.actor == name and event.permitted
    ]


def assert_safe(world: World) -> None:
    """No rule of safety is broken."""
    violation = verdict(world.history())
    assert violation is None, str(violation)
