"""The seed of this run, said at its start."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.simulation.actors import IDENTITY
from tests.simulation.swarm import SEED_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Question
    from oncekey.settlement.resolvers import Finding

# The whole operation, and every step that a scenario has.
STEPS = ("", "charge", "ship", "tax")


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """Keep what a hundred thousand attempts log out of the reports."""
    logger = logging.getLogger("oncekey")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.fixture(autouse=True)
def provider_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operation of the simulated world, and each of its steps, has a resolver."""
    resolvers = {(IDENTITY.operation, step): _asked_by_the_world for step in STEPS}
    monkeypatch.setattr("oncekey.settlement.resolvers._resolvers", resolvers)


@pytest.fixture
def nobody_can_be_asked(provider_can_be_asked: None, no_resolvers: None) -> None:
    """No resolver is declared."""


def _asked_by_the_world(_question: Question) -> Finding:
    raise AssertionError("Bug: a resolver was called in the simulation")


@pytest.fixture(scope="session", autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """A fresh seed, or the one to be repeated."""
    given = os.environ.get(SEED_VARIABLE)
    drawn = int(given) if given else random.SystemRandom().randrange(2**32)  # noqa: TID251 -- printed, so that it can be given
    plugins = request.config.pluginmanager
    reporter, capture = plugins.get_plugin("terminalreporter"), plugins.get_plugin("capturemanager")
    if reporter is not None and capture is not None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"simulation: {SEED_VARIABLE}={drawn}")
    return drawn
