"""Each protection of the protocol, removed: the exploration finds what it protects from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.explorer import explore
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.mutations_of_effects import MUTATIONS_OF_EFFECTS
from tests.simulation.mutations_of_settlement import MUTATIONS_OF_SETTLEMENT

if TYPE_CHECKING:
    from tests.simulation.scenario import Scenario

ALL = (*MUTATIONS, *MUTATIONS_OF_EFFECTS, *MUTATIONS_OF_SETTLEMENT)


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_a_missing_protection_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some schedule of a small scenario breaks a rule once the protection is gone."""
    mutation.patch(monkeypatch)

    found = explore(mutation.scenario, mutation.world).found

    assert found is not None
    assert mutation.breaks in found.violation.rule, str(found)


# Several protections are missed in one scenario.
SCENARIOS = {mutation.scenario: mutation.name for mutation in ALL}


@pytest.mark.proof
@pytest.mark.parametrize(
    "scenario", [pytest.param(scenario, id=name) for scenario, name in SCENARIOS.items()]
)
def test_the_same_scenario_is_safe_with_the_protection(scenario: Scenario) -> None:
    """No schedule of that scenario breaks a rule while nothing is removed."""
    report = explore(scenario)

    assert report.found is None, str(report.found)
    assert report.runs
