"""All interleavings of small scenarios: safe in every one, and answered at last after each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from oncekey.record.record import Effects
from oncekey.settings import Settings
from tests.simulation.explorer import explore
from tests.simulation.history import Told
from tests.simulation.scenario import Caller, Kind, Plan, Scenario, Until
from tests.support.proof import with_largest_in_proof
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

A, B, C = (Caller(name=name) for name in "ABC")
OTHER = Caller(name="OTHER", body="b")
PROVEN = replace(A, plan=Plan.NOT_EXECUTED)
REPEATABLE = tuple(Caller(name=name, effects=Effects.REPEATABLE) for name in "ABC")
FAILING = replace(REPEATABLE[0], plan=Plan.FAIL_AFTER)
# With it, a record is due to a reconciler as soon as the lease is over.
NO_GRACE = Settings(reconcile_grace_ms=0)
WAITING = Settings(in_progress="wait", wait_up_to_ms=100)
SWEPT = (Until.LEASE, Until.RETENTION)
DUE = (Until.LEASE, Until.DUE)

# Two and three actors that nothing else is special about are in test_worlds.py.
SCENARIOS = {
    "three-callers": Scenario(callers=(A, B, C), most_passes=1),
    "three-callers-one-fault": Scenario(callers=(A, B, C), most_faults=1),
    "two-requests-one-key": Scenario(callers=(A, OTHER), most_faults=1, most_passes=1),
    "not-executed": Scenario(callers=(PROVEN, B), most_faults=1, most_passes=1),
    "not-executed-three": Scenario(callers=(PROVEN, B, OTHER)),
    "repeatable-three": Scenario(callers=REPEATABLE, most_passes=1),
    "repeatable-fails": Scenario(
        callers=(FAILING, REPEATABLE[1]), settlers=("webhook",), most_faults=1
    ),
    "repeatable-outlives-its-lease": Scenario(
        callers=REPEATABLE[:2],
        settlers=("reconciler",),
        killed_in_time=False,
        passes=(Until.DUE,),
        most_passes=1,
    ),
    "outlives-its-lease": Scenario(
        callers=(A, B), killed_in_time=False, most_faults=1, most_passes=1
    ),
    "crash-and-settlers": Scenario(
        callers=(A,),
        settlers=("reconciler-1", "reconciler-2"),
        most_faults=1,
        passes=(Until.DUE,),
        most_passes=1,
    ),
    "call-under-way-and-reconciler": Scenario(
        callers=(replace(A, plan=Plan.TIME_OUT), B),
        settlers=("reconciler",),
        passes=DUE,
        most_passes=2,
    ),
    "failure-and-webhook": Scenario(
        callers=(replace(A, plan=Plan.FAIL_AFTER), B), settlers=("webhook",)
    ),
    "retention": Scenario(
        callers=(A, OTHER),
        killed_in_time=False,
        most_faults=1,
        passes=SWEPT,
        most_passes=2,
        sweeps=True,
    ),
    "clocks-apart-within-the-margin": Scenario(
        callers=(A, B),
        settlers=("reconciler",),
        settings=NO_GRACE,
        passes=(Until.LEASE_EDGE,),
        most_passes=1,
        skews=(("A", -2_400), ("B", 2_400), ("reconciler", 2_400)),
    ),
    "clocks-apart-beyond-the-margin": Scenario(
        callers=(A, B),
        settlers=("reconciler",),
        settings=NO_GRACE,
        passes=(Until.LEASE_EDGE,),
        most_passes=1,
        skews=(("A", -20_000), ("B", 20_000)),
    ),
    "a-clock-that-jumps": Scenario(
        callers=(A, B), most_faults=1, faults=(), most_passes=1, skew_choices=(-2_000, 2_000)
    ),
    "waiting": Scenario(callers=(A, B), settings=WAITING, most_faults=1, most_passes=1),
    "waiting-for-a-release": Scenario(callers=(PROVEN, B, OTHER), settings=WAITING),
}
# The least number of schedules that each must come to: fewer would mean that the exploration has
# lost a kind of move.
LEAST_RUNS = {
    "three-callers": 45,
    "three-callers-one-fault": 620,
    "two-requests-one-key": 450,
    "not-executed": 600,
    "not-executed-three": 50,
    "repeatable-three": 71,
    "repeatable-fails": 2_200,
    "repeatable-outlives-its-lease": 13_100,
    "outlives-its-lease": 710,
    "crash-and-settlers": 2_900,
    "call-under-way-and-reconciler": 1_500,
    "failure-and-webhook": 30,
    "retention": 2_000,
    "clocks-apart-within-the-margin": 170,
    "clocks-apart-beyond-the-margin": 600,
    "a-clock-that-jumps": 130,
    "waiting": 1_100,
    "waiting-for-a-release": 600,
}


@pytest.mark.parametrize(
    "name",
    with_largest_in_proof(
        SCENARIOS,
        "repeatable-fails",
        "repeatable-outlives-its-lease",
        "crash-and-settlers",
        "call-under-way-and-reconciler",
        "retention",
        "waiting",
    ),
)
def test_every_interleaving_is_safe_and_answered_at_last(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """No schedule breaks a rule, and after each, once healed, every request is answered."""
    report = explore(SCENARIOS[name])

    record_property("runs", report.runs)
    record_property("states", report.states)
    assert report.found is None, str(report.found)
    assert report.runs >= LEAST_RUNS[name]


def test_leaving_out_known_states_leaves_out_no_end() -> None:
    """The exploration ends in the same states, after the same writes in the same order, as one that
    follows every schedule to its end, and counts as many schedules as that one carries out.

    Red when the digest of a state leaves out how many faults are left.
    """
    scenario = Scenario(callers=(A, B), faults=(Kind.KILL,), most_faults=1, most_passes=1)
    ends: dict[bool, set[str]] = {True: set(), False: set()}
    schedules: dict[bool, int] = {}

    for prunes, found in ends.items():

        def at_end(world: World, found: set[str] = found) -> None:
            told = sorted(str(event) for event in world.events if isinstance(event, Told))
            order = [f"{each.actor} {each.transition!r}" for each in world.history().applied]
            found.add(f"{world.record!r} {told} {order}")

        report = explore(scenario, at_end=at_end, prunes=prunes, renames=False)
        schedules[prunes] = report.interleavings if prunes else report.runs

    assert ends[True] == ends[False]
    assert schedules[True] == schedules[False]
    assert len(ends[True]) > 2


ANN, BOB = Caller(name="ann"), Caller(name="bob")
TWO_RECONCILERS = ("reconciler-1", "reconciler-2")


@pytest.mark.parametrize(
    ("scenario", "names"),
    [
        (Scenario(callers=(ANN, BOB), most_faults=1, most_passes=1), ("ann", "bob")),
        (
            Scenario(
                callers=(ANN,),
                settlers=TWO_RECONCILERS,
                faults=(Kind.KILL,),
                most_faults=1,
                passes=(Until.DUE,),
                most_passes=1,
            ),
            TWO_RECONCILERS,
        ),
    ],
    ids=["callers", "settlers"],
)
def test_leaving_out_equal_actors_leaves_out_no_end_but_its_twin(
    scenario: Scenario, names: tuple[str, str]
) -> None:
    """Each end of all schedules is an end of those in which the first of equal actors goes on
    first, or is one once the two names are exchanged.

    Red when actors count as equal whatever they have seen.
    """
    ends: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}

    for renames, found in ends.items():

        def at_end(world: World, found: set[tuple[str, ...]] = found) -> None:
            told = sorted(str(event) for event in world.events if isinstance(event, Told))
            order = [f"{each.actor} {each.transition!r}" for each in world.history().applied]
            found.add((repr(world.record), *told, *order))

        assert explore(scenario, at_end=at_end, renames=renames).found is None

    twins = {tuple(exchanged(text, scenario, *names) for text in end) for end in ends[True]}
    assert {ordered(end) for end in ends[False]} == {ordered(end) for end in ends[True] | twins}
    assert ends[True] < ends[False]


def exchanged(text: str, scenario: Scenario, first: str, second: str) -> str:
    """The text with two names exchanged, and the ids that hold the numbers of their actors."""
    actors = [*(caller.name for caller in scenario.callers), *scenario.settlers]
    ids = [f"{actors.index(name):08d}-" for name in (first, second)]
    pairs = {first: second, second: first, ids[0]: ids[1], ids[1]: ids[0]}
    return re.sub("|".join(pairs), lambda found: pairs[found[0]], text)


def ordered(end: tuple[str, ...]) -> tuple[str, ...]:
    """The same end, whoever was told first."""
    told = sorted(text for text in end if text.startswith("Told"))
    return (*told, *(text for text in end if not text.startswith("Told")))
