"""Who can be asked in the simulated world: the world answers in place of each resolver."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from oncekey.settlement import resolvers
from tests.simulation.actors import IDENTITY
from tests.simulation.system_actors import CONSUMER

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Question
    from oncekey.settlement.resolvers import Finding

# The whole operation, and every step that a scenario has.
STEPS = ("", "charge", "ship", "tax")


def resolvers_of_the_world() -> dict[tuple[str, str], Callable[[Question], Finding]]:
    """A resolver of every operation of the simulated world, and of each of its steps."""
    names = [(IDENTITY.operation, step) for step in STEPS]
    return dict.fromkeys([*names, (CONSUMER, "")], _asked_by_the_world)


def declare_resolvers() -> None:
    """For a command of this folder: declare them, and log nothing."""
    logging.getLogger("oncekey").disabled = True
    resolvers._resolvers = resolvers_of_the_world()


def _asked_by_the_world(_question: Question) -> Finding:
    raise AssertionError("Bug: a resolver was called in the simulation")
