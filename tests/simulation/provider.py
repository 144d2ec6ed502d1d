"""The provider that recorded handlers call, and the one that settlers ask."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from oncekey.errors import NotExecuted
from oncekey.settlement.resolvers import Completed
from tests.simulation.history import Affected, Recognised

if TYPE_CHECKING:
    from oncekey.record.record import Record

# Hexadecimal digits halve when they are compressed: this is more than a record has room for.
_LARGE_CHARACTERS = 3_000


@dataclass(frozen=True, slots=True)
class Call:
    """Ask the provider to carry out a step. Answers its result, a str.

    Unless it `is_awaited`, it is given up as soon as it is under way.
    """

    effect: Affected
    is_awaited: bool = True


@dataclass(frozen=True, slots=True)
class Known:
    """What the provider knows of an operation, or of its step in doubt."""

    operation_id: str
    step: str
    finding: Completed | NotExecuted


@dataclass(slots=True)
class Provider:
    """What it has carried out. It recognises the key of a call that shows one."""

    _done: dict[tuple[str, str], Affected] = field(default_factory=dict)
    _by_key: dict[str, Affected] = field(default_factory=dict)

    def carry_out(self, effect: Affected) -> Affected | Recognised:
        """Do it, unless it has been done under this key."""
        if effect.key in self._by_key:
            return Recognised(
                at_ms=effect.at_ms,
                actor=effect.actor,
                operation_id=effect.operation_id,
                attempt=effect.attempt,
                step=effect.step,
            )
        if effect.key:
            self._by_key[effect.key] = effect
        self._done.setdefault((effect.operation_id, effect.step), effect)
        return effect

    def answer_to(self, effect: Affected) -> str:
        """The result of a call: to a repeat, that of the first."""
        return self._by_key.get(effect.key, effect).result

    def finding(self, operation_id: str, step: str) -> Completed | NotExecuted:
        """What became of the step of an operation, or of all of it where `step` is empty."""
        effect = self._done.get((operation_id, step))
        if effect is None:
            return NotExecuted()
        if step:
            return Completed(effect.result)
        return Completed({"statusCode": 201, "body": f"{operation_id}/settled"})

    def known_of(self, record: Record) -> Known:
        """What it would tell of the operation on record."""
        operation_id, step = record.operation_id, record.step_in_doubt
        finding = self.finding(operation_id, step)
        return Known(operation_id, step, finding)


@lru_cache(maxsize=1_000)
def large(result: str) -> str:
    """A result that no record has room for, though it is compressed."""
    noise = hashlib.shake_256(result.encode()).hexdigest(_LARGE_CHARACTERS // 2)
    return f"{result} {noise}"
