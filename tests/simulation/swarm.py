"""Scenarios drawn from a seed: even how much may go wrong varies from one to the next."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from oncekey.record.record import Effects
from oncekey.settings import Settings
from tests.simulation.explorer import Found, judge, shortest, wander
from tests.simulation.scenario import (
    ALL_FAULTS,
    ESSENTIAL,
    MORE_FAULTS,
    ON_ITS_OWN,
    ONE_STEP,
    Caller,
    Kind,
    Plan,
    Scenario,
    Step,
    Until,
    Work,
)
from tests.simulation.settlers import SETTLERS
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.simulation.scenario import Move
    from tests.simulation.story import Violation

T = TypeVar("T")
_EFFECTS = (
    Effects.UNRECORDED,
    Effects.UNRECORDED,
    Effects.REPEATABLE,
    Effects.RECORDED,
    Effects.RECORDED,
    Effects.RECORDED,
)
_SETTLERS_OF_A_KIND = (1, 2, 3, 4)
_FAULTS = (*ALL_FAULTS, *MORE_FAULTS, Kind.FREEZE)
SEED_VARIABLE = "ONCEKEY_SIMULATION_SEED"
_CALLERS = (2, 3, 4, 5)


def drawn(chance: random.Random) -> Scenario:
    """A scenario with two to five callers."""
    effects = chance.choice(_EFFECTS)
    plans = _some(chance, list(Plan if effects is Effects.RECORDED else ON_ITS_OWN))
    bodies = chance.choice(["a", "a", "ab"])
    settings = _settings(chance, effects)
    names = [f"caller-{number}" for number in range(chance.choice(_CALLERS))]
    settlers = tuple(
        f"{name}-{number}"
        for name in _some(chance, list(SETTLERS))
        for number in range(chance.choice(_SETTLERS_OF_A_KIND))
    )
    reach_ms = drawn_reach_ms(chance, settings)
    actors = [*names, *settlers]
    return Scenario(
        callers=tuple(_caller(chance, name, effects, bodies, plans) for name in names),
        settlers=settlers,
        work=_work(chance) if effects is Effects.RECORDED else ONE_STEP,
        settings=settings,
        # With a shorter lease, or without a platform that kills, attempts may overlap.
        killed_in_time=settings.max_lease_ms is None and chance.randrange(4) > 0,
        faults=tuple(chance.choice([ESSENTIAL, _some(chance, list(_FAULTS))])),
        most_faults=chance.choice([0, 1, 4, 12]),
        passes=tuple(_some(chance, list(Until))),
        most_passes=chance.choice([0, 1, 3, 8]),
        sweeps=chance.randrange(2) > 0,
        skews=tuple((name, chance.randint(-reach_ms, reach_ms)) for name in actors),
        skew_choices=tuple(chance.choice([(), (-reach_ms, reach_ms)])),
    )


def drawn_reach_ms(chance: random.Random, settings: Settings) -> int:
    """How far a clock may be from the true time."""
    # Half the margin each way is within it; more is beyond.
    return chance.choice([0, 0, settings.lease_margin_ms // 2 - 1, 3 * settings.lease_margin_ms])


def _settings(chance: random.Random, effects: Effects) -> Settings:
    return settings_of(
        in_progress=chance.choice(["conflict", "conflict", "wait"]),
        wait_up_to_ms=chance.choice([100, 2_000]),
        retention_s=chance.choice([3_600, 24 * 3600]),
        max_lease_ms=chance.choice([None, 3_000]) if effects is Effects.REPEATABLE else None,
    )


# To check the same few settings again takes a part of each run's time.
settings_of = lru_cache(Settings)


def _work(chance: random.Random) -> Work:
    names = chance.choice([("charge",), ("charge",), ("ship", "charge"), ("ship", "tax", "charge")])
    return Work(
        steps=tuple(Step(name, chance.randrange(2) > 0) for name in names),
        commits=chance.randrange(2) > 0,
        has_large_results=not chance.randrange(4),
    )


def _caller(
    chance: random.Random, name: str, effects: Effects, bodies: str, plans: list[Plan]
) -> Caller:
    return Caller(
        name=name,
        body=chance.choice(bodies),
        effects=effects,
        plan=chance.choice([Plan.SUCCEED, *plans]),
        remaining_ms=chance.choice([500, 3_000, 10_000]),
    )


def _some(chance: random.Random, choices: list[T]) -> list[T]:
    return chance.sample(choices, chance.randint(1, len(choices)))


@dataclass(frozen=True, slots=True)
class Swarm:
    """How scenarios of a kind are drawn, played and judged."""

    draw: Callable[[random.Random], Any]
    make_world: Callable[[Any], Any]
    judge: Callable[[Any], Violation | None]

    def run(self, seed: int) -> tuple[World, tuple[Move, ...], Violation | None]:
        """One run of the scenario that this seed draws, its schedule and the verdict."""
        chance = random.Random(seed)  # noqa: S311 -- schedules need no secrecy
        world = self.make_world(self.draw(chance))
        schedule = wander(world, chance)
        return world, schedule, self.judge(world)

    def search(self, seeds: Sequence[int]) -> tuple[int, Found] | None:
        """The first of these seeds whose run breaks a rule, with the shortest story found."""
        for seed in seeds:
            world, schedule, violation = self.run(seed)
            if violation is not None:
                found = Found(world.scenario, schedule, violation)
                return seed, shortest(found, self.make_world, self.judge)
        return None


RECORDS = Swarm(drawn, partial(World, digests=False), judge)


def search(
    seeds: Sequence[int], make_world: Callable[[Scenario], World] = RECORDS.make_world
) -> tuple[int, Found] | None:
    """`Swarm.search` in worlds of one record."""
    return replace(RECORDS, make_world=make_world).search(seeds)
