"""Every interleaving of two actors, for each kind of effects, counted and finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.worlds import WORLDS
from tests.support.proof import with_largest_in_proof

if TYPE_CHECKING:
    from collections.abc import Callable

# The least number of interleavings that each must come to: fewer would mean that the exploration
# has lost a kind of move. The other worlds take minutes, by `tests/simulation/worlds.py`.
LEAST = {
    "unrecorded-2-1": 2_500,
    "unrecorded-2-2": 50_000,
    "repeatable-2-1": 2_500,
    "repeatable-2-2": 50_000,
    "recorded-2-1": 10_000,
    "recorded-2-2": 250_000,
    "queued-2-1": 90,
    "queued-2-2": 1_800,
}


@pytest.mark.parametrize(
    "name",
    with_largest_in_proof(
        LEAST, "unrecorded-2-2", "repeatable-2-2", "recorded-2-1", "recorded-2-2", "queued-2-2"
    ),
)
def test_every_interleaving_of_a_world_is_safe_and_answered_in_time(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    """No schedule breaks a rule, and after each, once healed, every request is answered within the
    stated time.

    Red when any of the protections is removed that `mutations.py` and its siblings remove.
    """
    report = WORLDS[name].explored()

    record_property("interleavings", report.interleavings)
    record_property("states", report.states)
    assert report.found is None, str(report.found)
    assert report.interleavings >= LEAST[name]
