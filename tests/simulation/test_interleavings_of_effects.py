"""All interleavings of small scenarios with recorded effects: exact in each, and answered at last.

Every call of the store and of the provider is a point at which others go on, time passes, and the
attempt is killed, or its call lost or late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey.record.record import Effects
from tests.simulation.explorer import explore
from tests.simulation.history import Told
from tests.simulation.mutations_of_effects import SETTLED_TWICE
from tests.simulation.scenario import ALL_FAULTS, Caller, Kind, Plan, Scenario, Step, Until, Work
from tests.support.proof import with_largest_in_proof
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

A, B, C = (Caller(name=name, effects=Effects.RECORDED) for name in "ABC")
OTHER = replace(A, name="OTHER", body="b")
KEYED = Work(steps=(Step(is_idempotent=True),))
IN_PHASES = Work(commits=True)
THREE_PHASES = Work(steps=(Step("ship", is_idempotent=True), Step()), commits=True)
DUE = (Until.LEASE, Until.DUE)
KILL, DELAY = (Kind.KILL,), (Kind.DELAY,)
APART = Scenario(
    callers=(A, B),
    killed_in_time=False,
    passes=(Until.LEASE_EDGE,),
    most_passes=1,
    skews=(("A", -20_000), ("B", 20_000)),
)

# Each with the least number of schedules that it must come to: fewer would mean that the
# exploration has lost a kind of move.
SCENARIOS = {
    "two-workers-in-phases": (
        Scenario(callers=(A, B), work=IN_PHASES, most_faults=1, most_passes=1),
        1_300,
    ),
    "two-workers-idempotent": (
        Scenario(callers=(A, B), work=KEYED, most_faults=1, most_passes=1),
        600,
    ),
    "two-workers-large-results": (
        Scenario(callers=(A, B), work=Work(has_large_results=True), most_faults=1, most_passes=1),
        1_200,
    ),
    "three-phases": (
        Scenario(callers=(A, B), work=THREE_PHASES, faults=KILL, most_faults=1, most_passes=1),
        230,
    ),
    "three-workers": (Scenario(callers=(A, B, C), most_passes=1), 140),
    "three-workers-resume": (
        Scenario(callers=(replace(A, plan=Plan.FAIL_AT_LAST), B, C), work=KEYED),
        51,
    ),
    "outlives-its-lease": (Scenario(callers=(A, B), killed_in_time=False, most_passes=1), 230),
    "outlives-its-lease-in-phases": (
        Scenario(callers=(A, B), work=IN_PHASES, killed_in_time=False, most_passes=1),
        290,
    ),
    "outlives-its-lease-idempotent": (
        Scenario(callers=(A, B), work=KEYED, killed_in_time=False, most_passes=1),
        200,
    ),
    "crash-and-settlers": (
        Scenario(
            callers=(A,),
            settlers=("reconciler-1", "reconciler-2"),
            passes=(Until.DUE,),
            faults=KILL,
            most_faults=1,
            most_passes=1,
        ),
        940,
    ),
    "crash-and-reconciler-and-next": (
        Scenario(
            callers=(A, B),
            settlers=("reconciler",),
            passes=(Until.DUE,),
            faults=KILL,
            most_faults=1,
            most_passes=1,
        ),
        1_400,
    ),
    "reconciler-of-a-living-worker": (
        Scenario(
            callers=(A,),
            settlers=("reconciler",),
            killed_in_time=False,
            passes=(Until.DUE,),
            faults=DELAY,
            most_faults=1,
            most_passes=1,
        ),
        2_300,
    ),
    "two-settlements-and-the-next": (SETTLED_TWICE, 4_200),
    "webhook-and-reconciler": (
        Scenario(
            callers=(replace(A, plan=Plan.FAIL_AFTER), B),
            settlers=("webhook", "reconciler"),
            passes=DUE,
            most_passes=1,
        ),
        7_800,
    ),
    "retention": (
        Scenario(
            callers=(A, OTHER),
            passes=(Until.LEASE, Until.RETENTION),
            most_faults=1,
            most_passes=2,
        ),
        1_700,
    ),
    "clocks-apart": (APART, 240),
    "clocks-apart-idempotent": (replace(APART, work=KEYED), 320),
}


LARGEST = (
    "two-workers-in-phases",
    "two-workers-large-results",
    "crash-and-settlers",
    "two-settlements-and-the-next",
    "webhook-and-reconciler",
    "crash-and-reconciler-and-next",
    "reconciler-of-a-living-worker",
    "retention",
    "two-workers-idempotent",
)


@pytest.mark.requirement("E1", "E2", "E6", "C2")
@pytest.mark.parametrize("name", with_largest_in_proof(SCENARIOS, *LARGEST))
def test_every_interleaving_is_exact_and_answered_at_last(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """Whoever is killed wherever: business writes, messages and completion come together and once,
    a step has one effect and is not run again once it is on record, nothing in doubt goes on, and
    a retry gets the answer at last.

    Red when any of the protections is removed that `mutations_of_effects.py` removes.
    """
    scenario, least_runs = SCENARIOS[name]
    report = explore(scenario)

    record_property("runs", report.runs)
    record_property("states", report.states)
    assert report.found is None, str(report.found)
    assert report.runs >= least_runs


def test_leaving_out_known_states_leaves_out_no_end() -> None:
    """The exploration ends in the same states as one that follows every schedule to its end, and
    counts as many schedules as that one carries out.
    """
    scenario = Scenario(callers=(A, B), faults=KILL, most_faults=1)
    ends: dict[bool, set[str]] = {True: set(), False: set()}
    schedules: dict[bool, int] = {}

    for prunes, found in ends.items():

        def at_end(world: World, found: set[str] = found) -> None:
            told = sorted(str(event) for event in world.events if isinstance(event, Told))
            steps = world.record.steps if world.record is not None else None
            found.add(f"{world.record!r} {steps} {world.store.writes} {told}")

        report = explore(scenario, at_end=at_end, prunes=prunes, renames=False)
        schedules[prunes] = report.interleavings if prunes else report.runs

    assert ends[True] == ends[False]
    assert schedules[True] == schedules[False]
    assert len(ends[True]) > 20


@pytest.mark.parametrize("plan", Plan)
@pytest.mark.parametrize(
    ("most_faults", "least"), [(1, 20), pytest.param(2, 300, marks=pytest.mark.proof)]
)
def test_every_end_of_a_handler_survives_faults(plan: Plan, most_faults: int, least: int) -> None:
    """However a handler ends, and whichever of its calls fail, are lost, late or its last: one or
    two of them.
    """
    alone = Scenario(
        callers=(replace(A, plan=plan),),
        work=IN_PHASES,
        faults=ALL_FAULTS,
        most_faults=most_faults,
    )

    report = explore(alone)

    assert report.found is None, str(report.found)
    assert report.runs >= least


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(
    "plan", with_largest_in_proof(Plan, *(set(Plan) - {Plan.SUCCEED, Plan.FAIL_BEFORE, Plan.FINAL}))
)
def test_every_end_of_a_handler_is_followed_by_the_next(plan: Plan) -> None:
    """However a handler ends, and whatever happens to one of its calls, the next goes on from what
    is on record.

    Red when a resumed attempt does not look at the record (the mutation `record-not-looked-at`).
    """
    pair = Scenario(callers=(replace(A, plan=plan), B), most_faults=1)

    report = explore(pair)

    assert report.found is None, str(report.found)
    # Where both do the same, one of two schedules stands for the other, too.
    assert report.runs >= (230 if plan is B.plan else 300)
