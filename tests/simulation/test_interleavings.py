"""All interleavings of small scenarios: safe in every one, and answered at last after each."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from oncekey.record import Effects
from oncekey.settings import Settings
from tests.simulation.explorer import explore
from tests.simulation.scenario import Caller, Plan, Scenario, Until

if TYPE_CHECKING:
    from collections.abc import Callable

A, B, C = (Caller(name=name) for name in "ABC")
OTHER = Caller(name="OTHER", body="b")
PROVEN = replace(A, plan=Plan.NOT_EXECUTED)
REPEATABLE = tuple(Caller(name=name, effects=Effects.REPEATABLE) for name in "ABC")
FAILING = replace(REPEATABLE[0], plan=Plan.FAIL_AFTER)
WAITING = Settings(in_progress="wait", wait_up_to_ms=100)
SWEPT = (Until.LEASE, Until.RETENTION)
DUE = (Until.LEASE, Until.DUE)

# The least number of schedules that each must come to: fewer would mean that the exploration has
# lost a kind of move. What was measured stands beside it.
SCENARIOS = {
    "two-callers-two-faults": (
        Scenario(callers=(A, B), most_faults=2, most_passes=1),
        10_000,
    ),
    "three-callers": (Scenario(callers=(A, B, C), most_passes=1), 100),
    "three-callers-one-fault": (Scenario(callers=(A, B, C), most_faults=1), 2_000),
    "two-requests-one-key": (Scenario(callers=(A, OTHER), most_faults=1, most_passes=1), 200),
    "not-executed": (Scenario(callers=(PROVEN, B), most_faults=1, most_passes=1), 200),
    "not-executed-three": (Scenario(callers=(PROVEN, B, OTHER)), 100),
    "repeatable": (Scenario(callers=REPEATABLE[:2], most_faults=1, most_passes=1), 200),
    "repeatable-three": (Scenario(callers=REPEATABLE, most_passes=1), 100),
    "repeatable-fails": (
        Scenario(callers=(FAILING, REPEATABLE[1]), settlers=("webhook",), most_faults=1),
        200,
    ),
    "repeatable-outlives-its-lease": (
        Scenario(
            callers=REPEATABLE[:2],
            settlers=("reconciler",),
            killed_in_time=False,
            most_passes=1,
        ),
        100,
    ),
    "outlives-its-lease": (
        Scenario(callers=(A, B), killed_in_time=False, most_faults=1, most_passes=1),
        200,
    ),
    "crash-and-settlers": (
        Scenario(
            callers=(A,),
            settlers=("reconciler", "resolver"),
            most_faults=1,
            passes=DUE,
            most_passes=1,
        ),
        1_000,
    ),
    "call-under-way-and-resolver": (
        Scenario(
            callers=(replace(A, plan=Plan.TIME_OUT), B),
            settlers=("resolver",),
            passes=DUE,
            most_passes=2,
        ),
        200,
    ),
    "failure-and-webhook": (
        Scenario(callers=(replace(A, plan=Plan.FAIL_AFTER), B), settlers=("webhook",)),
        50,
    ),
    "retention": (
        Scenario(
            callers=(A, OTHER),
            killed_in_time=False,
            most_faults=1,
            passes=SWEPT,
            most_passes=2,
            sweeps=True,
        ),
        500,
    ),
    "clocks-apart-within-the-margin": (
        Scenario(
            callers=(A, B),
            settlers=("reconciler",),
            passes=(Until.LEASE_EDGE,),
            most_passes=1,
            skews=(("A", -2_400), ("B", 2_400), ("reconciler", 2_400)),
        ),
        50,
    ),
    "clocks-apart-beyond-the-margin": (
        Scenario(
            callers=(A, B),
            settlers=("reconciler",),
            passes=(Until.LEASE_EDGE,),
            most_passes=1,
            skews=(("A", -20_000), ("B", 20_000)),
        ),
        50,
    ),
    "a-clock-that-jumps": (
        Scenario(
            callers=(A, B), most_faults=1, faults=(), most_passes=1, skew_choices=(-2_000, 2_000)
        ),
        50,
    ),
    "waiting": (
        Scenario(callers=(A, B), settings=WAITING, most_faults=1, most_passes=1),
        200,
    ),
    "waiting-for-a-release": (Scenario(callers=(PROVEN, B, OTHER), settings=WAITING), 50),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_interleaving_is_safe_and_answered_at_last(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """No schedule breaks a rule, and after each, once healed, every request is answered."""
    scenario, least_runs = SCENARIOS[name]

    report = explore(scenario)

    record_property("runs", report.runs)
    record_property("states", report.states)
    assert report.found is None, str(report.found)
    assert report.runs >= least_runs
