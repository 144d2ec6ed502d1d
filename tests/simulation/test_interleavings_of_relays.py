"""All interleavings of relays and sweeps over one outbox, with the faults of their calls."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.simulation import broken_relays
from tests.simulation.explorer import explore_all
from tests.simulation.relays import RelayScenario, RelayWorld, judge_relays
from tests.support.memory_outbox import waiting
from tests.support.proof import with_largest_in_proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.explorer import Report

M = tuple(waiting(number) for number in range(3))
CERTAIN, POSSIBLE = "InvalidMessageContents", "InvalidParameterValue"

TWICE = RelayScenario(messages=M[:2], batches={"R": (0, 1)}, most_faults=2)
SWEPT = RelayScenario(messages=M[:2], batches={"R": (0, 1)}, sweeps=("S",))
TWO_SWEEPS = RelayScenario(messages=M[:1], batches={"R": (0,)}, sweeps=("S", "T"))
REFUSED = RelayScenario(
    messages=M[:2], batches={"R": (0, 1)}, sweeps=("S",), refused={M[0].id: POSSIBLE}
)
IMPOSSIBLE = RelayScenario(
    messages=M[:2], batches={"R": (0, 1)}, sweeps=("S",), refused={M[0].id: CERTAIN}
)
FIFO = RelayScenario(messages=M, batches={"R": (0, 1, 2)}, is_fifo=True)
FIFO_SWEPT = RelayScenario(messages=M[:2], batches={"R": (0, 1)}, sweeps=("S",), is_fifo=True)
SHARDS = RelayScenario(messages=M[:2], batches={"R": (0,), "Q": (1,)}, is_fifo=True)

# Each with the least number of schedules that it must come to: fewer would mean that the
# exploration has lost a kind of move.
SCENARIOS = {
    "two-faults": (TWICE, 100),
    "swept": (SWEPT, 50),
    "two-sweeps": (TWO_SWEEPS, 120),
    "refused": (REFUSED, 100),
    "impossible": (IMPOSSIBLE, 100),
    "fifo": (FIFO, 20),
    "fifo-swept": (FIFO_SWEPT, 290),
    "fifo-shards": (SHARDS, 200),
}


def explored(scenario: RelayScenario) -> Report:
    """All schedules of the scenario."""
    return explore_all(partial(RelayWorld, scenario), judge_relays, scenario)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is logged: each fault of each schedule would be a line."""
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize(
    "name", with_largest_in_proof(SCENARIOS, "fifo-swept", "two-sweeps", "fifo-shards")
)
def test_no_interleaving_of_relays_and_sweeps_loses_a_message(name: str) -> None:
    """Each message is in the queue before it leaves the table, or is set aside and escalated; a
    FIFO queue gets the messages of a group in order.
    """
    scenario, least = SCENARIOS[name]

    report = explored(scenario)

    assert report.found is None, str(report.found)
    assert report.runs >= least


@pytest.mark.parametrize(
    ("scenario", "broken", "rule"),
    [
        (SWEPT, broken_relays.deleted_first, "left the table"),
        (SWEPT, broken_relays.rejected_deleted, "left the table"),
        (SWEPT, broken_relays.timeout_is_sent, "left the table"),
        (FIFO, broken_relays.group_not_held, "order"),
        (FIFO, broken_relays.group_in_one_batch, "order"),
        (SHARDS, broken_relays.table_not_read, "order"),
        (SWEPT, broken_relays.aside_at_the_first_failure, "the queue takes it"),
        (REFUSED, broken_relays.never_aside, "never sent and never set aside"),
        (IMPOSSIBLE, broken_relays.escalation_not_sent, "nobody is told"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_missing_protection_of_the_relay_is_found(
    scenario: RelayScenario,
    broken: Callable[[pytest.MonkeyPatch], None],
    rule: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some schedule breaks a rule once the protection is gone."""
    broken(monkeypatch)

    found = explored(scenario).found

    assert found is not None
    assert rule in found.violation.rule, str(found)
