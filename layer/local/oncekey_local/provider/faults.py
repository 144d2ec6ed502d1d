"""What is to go wrong, and the gate at which calls wait before they are applied."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_COUNTS = ("delay_ms", "fail", "lose_answer", "decline", "process")
_NAMES = (*_COUNTS, "hold")


class Faults:
    """The faults that are armed. They bind the calls that change state, and only those.

    `delay_ms` delays each call. The next `fail` calls are answered with a 500 and not applied. The
    next `lose_answer` calls that are applied or replayed get no answer. The next `decline` charges
    are declined, and of the others the next `process` are left `processing`, as a bank debit is for
    days. While `hold` is true, calls that have arrived wait, with their key in use, before they are
    applied.
    """

    def __init__(self) -> None:
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._hold = False
        self._held = 0
        self._changed = asyncio.Condition()

    @property
    def held(self) -> int:
        """How many calls wait now."""
        return self._held

    @property
    def delay_s(self) -> float:
        """How long each call is delayed."""
        return self._counts["delay_ms"] / 1000

    def state(self) -> dict[str, Any]:
        """All faults with their present values."""
        return {**self._counts, "hold": self._hold}

    def take(self, name: str) -> bool:
        """Whether the fault strikes this call; uses it up once."""
        if self._counts[name] == 0:
            return False
        self._counts[name] -= 1
        return True

    async def set(self, changes: object) -> None:
        """Arm faults; those not named stay as they are.

        Raises `ValueError` that names everything wrong, and then changes nothing. When it returns
        from ending a hold, every call that was held has been applied.
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
        """Whether at least `count` calls are held, now or before the time is over."""
        try:
            async with asyncio.timeout(timeout_ms / 1000), self._changed:
                await self._changed.wait_for(lambda: self._held >= count)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """Wait here while calls are held; a call counts as held until the body has applied it."""
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
