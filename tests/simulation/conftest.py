"""The seed of this run, said at its start."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING

import pytest

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
