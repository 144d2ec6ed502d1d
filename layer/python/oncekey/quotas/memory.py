"""A sandbox's memory of its tenants' quotas, for a bounded number of tenants.

It saves requests to the table, and counts look-ups. A forgotten entry costs a request, or permits a
tenant some more look-ups. A new key is never admitted from this memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

# About 100 bytes each.
MOST_REMEMBERED = 2_000
# An operator may delete a counter to admit its tenant. No sandbox may refuse it for longer.
_LONGEST_BELIEF_MS = 60_000


class QuotaMemory:
    """The full counters and the numbers of look-ups. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Counter → until when it is full, and since when that is known.
        self._full: OrderedDict[str, tuple[int, int]] = OrderedDict()
        # The tenant's counter of look-ups → the window's number and the look-ups in it.
        self._lookups: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def found_full(self, counter: str, until_ms: int, now_ms: int) -> None:
        """`counter` was found to be full, and stays full until `until_ms`."""
        with self._lock:
            _remember(self._full, counter, (until_ms, now_ms))

    def full_until_ms(self, counter: str, now_ms: int) -> int | None:
        """Until when `counter` is known to be full; None if the table must be asked."""
        until_ms, since_ms = self._full.get(counter, (0, 0))
        # A clock that was set back must not prolong the refusal.
        is_believed = 0 <= now_ms - since_ms < _LONGEST_BELIEF_MS and now_ms < until_ms
        return until_ms if is_believed else None

    def count_lookup(self, whose: str, window: int) -> int:
        """Count one more look-up in this window, and return their number."""
        with self._lock:
            counted_window, lookups = self._lookups.get(whose, (window, 0))
            lookups = lookups + 1 if counted_window == window else 1
            _remember(self._lookups, whose, (window, lookups))
            return lookups


def _remember(memory: OrderedDict[str, tuple[int, int]], name: str, value: tuple[int, int]) -> None:
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > MOST_REMEMBERED:
        memory.popitem(last=False)
