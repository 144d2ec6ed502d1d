"""The provider's faults, and the gate at which calls wait before they are applied."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_COUNTS = ("delay_ms", "fail", "lose_answer", "decline", "process")
_NAMES = (*_COUNTS, "hold")


class Faults:
    """The present faults. They affect only calls that change state.

    - `delay_ms`: each call is delayed by this time.
    - `fail`: this many calls are answered with a 500 and not applied.
    - `lose_answer`: this many calls that are applied or replayed get no answer.
    - `decline`: this many charges are declined.
    - `process`: this many of the other charges stay `processing`, as a bank debit does for days.
    - `hold`: while it is true, calls that have arrived wait before they are applied. Their keys are
      in use.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._hold = False
        self._held = 0
        self._changed = asyncio.Condition()

    @property
    def held(self) -> int:
        """The number of waiting calls."""
        return self._held

    @property
    def delay_s(self) -> float:
        """The delay of each call, in seconds."""
        return self._counts["delay_ms"] / 1000

    def state(self) -> dict[str, Any]:
        """All faults with their present values."""
        return {**self._counts, "hold": self._hold}

    def take(self, name: str) -> bool:
        """Whether the fault affects this call. If so, its count is reduced by one."""
        if self._counts[name] == 0:
            return False
        self._counts[name] -= 1
        return True

    async def set(self, changes: object) -> None:
        """Set faults. Those that are not named stay unchanged.

        When a hold has ended and this returns, every call that was held has been applied.

        Raises:
            ValueError: a value is wrong; the message names every fault, and nothing was changed.
        """
        if problems := _problems(changes):
            raise ValueError("; ".join(problems))
        assert isinstance(changes, dict)
        async with self._changed:
            self._counts.update({name: changes[name] for name in _COUNTS if name in changes})
            self._hold = changes.get("hold", self._hold)
            self._changed.notify_all()
            if not self._hold:
                await self._changed.wait_for(lambda: self._held == 0 or self._hold)

    async def wait_held(self, count: int, timeout_ms: int) -> bool:
        """Whether at least `count` calls are held now or at some moment before the timeout."""
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._changed:
                await self._changed.wait_for(lambda: self._held >= count)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """Wait while calls are held. A call counts as held until the `with` body has applied it."""
        if not self._hold:
            yield
            return
        self._held += 1
        try:
            async with self._changed:
                self._changed.notify_all()
                await self._changed.wait_for(lambda: not self._hold)
            yield
        finally:
            self._held -= 1
            async with self._changed:
                self._changed.notify_all()


def _problems(changes: object) -> list[str]:
    if not isinstance(changes, dict):
        return ["send a JSON object"]
    problems = [
        f"{name!r} is not a fault: one of {', '.join(_NAMES)}"
        for name in changes
        if name not in _NAMES
    ]
    for name in _COUNTS:
        value = changes.get(name, 0)
        if type(value) is not int or value < 0:
            problems.append(f"{name!r} must be a whole number, 0 or more")
    if type(changes.get("hold", False)) is not bool:
        problems.append("'hold' must be true or false")
    return problems
