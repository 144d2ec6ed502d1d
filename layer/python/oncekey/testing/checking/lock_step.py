"""Several processes, of which one runs at a time: a seed decides whose turn it is."""

from __future__ import annotations

import threading
import zlib
from itertools import count
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

R = TypeVar("R")

# A process that waits for another one by other means than the store cannot be scheduled. After this
# time, it runs beside the others.
_STUCK_S = 5.0


class LockStep(Generic[R]):
    """Runs processes in threads, one at a time, from one call of the store to the next.

    Whenever a process comes to a call, the seed draws the one that goes on. So a seed stands for
    one interleaving, which can be played again.
    """

    def __init__(self, seed: int, *, stuck_s: float = _STUCK_S) -> None:
        self._seed = seed
        self._stuck_s = stuck_s
        self._draws = count()
        self._changed = threading.Condition()
        self._live: list[Hashable] = []
        self._active: Hashable = None

    def run(self, works: Sequence[tuple[Hashable, Callable[[], R]]]) -> list[R]:
        """Do all `works` to their end, and return their results in the same order.

        Each has a name, with which it calls `turn`. The works do not raise.
        """
        results: dict[Hashable, R] = {}

        def carry_out(name: Hashable, work: Callable[[], R]) -> None:
            self._wait(name)
            try:
                results[name] = work()
            finally:
                self._end(name)

        self._live = [name for name, _ in works]
        threads = [threading.Thread(target=carry_out, args=each, daemon=True) for each in works]
        for thread in threads:
            thread.start()
        with self._changed:
            self._pass_on()
        for thread in threads:
            thread.join()
        return [results[name] for name, _ in works]

    def turn(self, name: Hashable) -> None:
        """Let the seed draw who goes on, and return when it is `name`."""
        with self._changed:
            if name not in self._live:
                return
            self._pass_on()
        self._wait(name)

    def _wait(self, name: Hashable) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._active == name, timeout=self._stuck_s)

    def _end(self, name: Hashable) -> None:
        with self._changed:
            self._live.remove(name)
            self._pass_on()

    def _pass_on(self) -> None:
        # The same draws on every machine and in every release of Python.
        drawn = zlib.crc32(f"{self._seed} {next(self._draws)}".encode())
        self._active = self._live[drawn % len(self._live)] if self._live else None
        self._changed.notify_all()
