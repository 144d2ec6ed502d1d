"""The seed of this run, said at its start."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.simulation.asked import resolvers_of_the_world
from tests.simulation.swarm import SEED_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    monkeypatch.setattr("oncekey.settlement.resolvers._resolvers", resolvers_of_the_world())


@pytest.fixture
def nobody_can_be_asked(provider_can_be_asked: None, no_resolvers: None) -> None:
    """No resolver is declared."""


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
