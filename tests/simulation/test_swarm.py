"""Random runs of larger scenarios: the same seeds in every run of the tests, and fresh ones."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, get_args

import pytest

from oncekey.record.outcome import Reason, Refusal
from oncekey.record.transitions import (
    ClearStep,
    Complete,
    FinishStep,
    LateEffect,
    PendingTransition,
    Reschedule,
    SettleStep,
    Transition,
)
from tests.simulation.explorer import judge, play, wander
from tests.simulation.history import Kept, Recognised, Told, Wrote
from tests.simulation.mutations import MUTATIONS
from tests.simulation.swarm import SEED_VARIABLE, drawn, search
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.history import History

FIXED_SEEDS = range(4_000)
_FRESH_SEEDS = 1_500


def _assert_none_fails(seeds: Sequence[int]) -> None:
    found = search(seeds)
    assert found is None, f"repeat it with {SEED_VARIABLE}={found[0]}\n{found[1]}"


def _history(seed: int) -> History:
    chance = random.Random(seed)  # noqa: S311 -- schedules need no secrecy
    world = World(drawn(chance))
    wander(world, chance)
    judge(world)
    return world.history()


@pytest.mark.proof
def test_no_fixed_seed_breaks_a_rule() -> None:
    """Faults, deaths, skewed clocks and settlers at random break no rule, and all end well."""
    _assert_none_fails(FIXED_SEEDS)


def test_no_fresh_seed_breaks_a_rule(seed: int) -> None:
    """The same with seeds that nobody has tried; the first is printed at the start of a run."""
    _assert_none_fails(range(seed, seed + _FRESH_SEEDS))


def test_a_seed_makes_the_same_run_again() -> None:
    """A seed is all that is needed to repeat a failure."""
    for seed in range(50):
        first, second = _history(seed), _history(seed)
        assert [str(event) for event in first.events] == [str(event) for event in second.events]


@pytest.mark.proof
def test_the_fixed_seeds_reach_everything() -> None:
    """Each transition is applied, refused, and lands late in some run; each refusal is given."""
    applied: set[type] = set()
    refused: set[type] = set()
    late: set[type] = set()
    committed: set[type] = set()
    kept, recognised = 0, 0
    reasons: set[Reason] = set()
    for seed in FIXED_SEEDS:
        for event in _history(seed).events:
            if isinstance(event, Wrote):
                (applied if event.permitted else refused).add(type(event.transition))
                committed.update({type(event.transition)} if event.writes else ())
                if event.late and event.permitted:
                    late.add(type(event.transition))
            elif isinstance(event, Told) and isinstance(event.outcome, Refusal):
                reasons.add(event.outcome.reason)
            kept += isinstance(event, Kept)
            recognised += isinstance(event, Recognised)
    # Nobody here accepts requests for later, which test_interleavings_of_jobs.py has.
    everything = set(get_args(Transition)) - set(get_args(PendingTransition))
    assert everything - applied == set()
    assert everything - refused == set()
    # That these land late and are applied is too rare: the explorations of test_interleavings*.py
    # and the traces of test_traces_of_takeovers.py have it.
    assert everything - late <= {ClearStep, LateEffect, Reschedule, SettleStep}
    assert committed == {FinishStep, Complete}
    assert kept
    assert recognised
    # The other refusals are of policies and damages that no caller here has.
    elsewhere = {
        Reason.KEY_EXPIRED,
        Reason.KEY_MISSING,
        Reason.QUOTA_EXCEEDED,
        Reason.PAUSED,
        Reason.TOO_OLD,
        Reason.ANSWER_UNAVAILABLE,
        Reason.SUPERSEDED,
    }
    assert set(Reason) - reasons == elsewhere


def test_a_failing_seed_is_found_and_told_as_a_short_story() -> None:
    """With a protection removed some seed fails; what is reported still fails when played."""
    mutation = next(mutation for mutation in MUTATIONS if mutation.name == "owner-ignored")

    found = search(FIXED_SEEDS, mutation.world)

    assert found is not None
    seed, failure = found
    assert search([seed], mutation.world) is not None
    world = mutation.world(failure.scenario)
    play(world, failure.schedule)
    again = judge(world)
    assert again is not None
    assert again.rule == failure.violation.rule
