"""Pauses: an operator has stopped the new work of an operation, or of a tenant."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable


class PauseScope(StrEnum):
    """What a pause stops: all new work, that of one operation, or that of one tenant."""

    ALL = "all"
    OPERATION = "operation"
    TENANT = "tenant"


# The name of the one pause of everything.
EVERYTHING = "*"


class Pause(Value, kw_only=True):
    """A pause, and who made it.

    `reason` is given to the callers that are refused. `by` is for operators only.
    """

    scope: PauseScope
    name: str
    reason: str
    by: str
    since_ms: int


def pause_of(pauses: Iterable[Pause], operation: str, tenant: str) -> Pause | None:
    """The pause that stops new work of this operation for this tenant, or None."""
    stopped = {
        (PauseScope.ALL, EVERYTHING),
        (PauseScope.OPERATION, operation),
        (PauseScope.TENANT, tenant),
    }
    return next((each for each in pauses if (each.scope, each.name) in stopped), None)
