"""The lanes of a run: each resolver, queue or bucket gets a limited share of the run's time."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable

# A faster failure costs a run almost nothing.
_SLOW_MS = 1_000
# A lane is closed after this many slow failures that together took this fraction (1/n) of the run.
# The cause of one slow failure may be its record.
_MOST_SLOW = 2
_MOST_OF_A_RUN = 5
# The limit for each lane, so that a long outage does not fill the memory. Other records stay due.
_MOST_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class Stuck:
    """An item that cannot be visited, for this `reason`, and was postponed this many `times`.

    `record` is None if the item cannot be read as a record.
    """

    pk: str
    record: Record | None
    reason: str
    times: int


Waiting = Record | Stuck


@dataclass(slots=True, kw_only=True)
class Lane:
    """The visits that wait for one dependency, such as a provider or a queue.

    The lane is closed for the rest of the run after too many failures, or when slow failures have
    taken their share of the time. Records that still wait then stay due and take no turn.

    Args:
        run_ms: the length of the run.
        assumed_ms: the expected time for one use, until one was measured.
        least_ms: a use begins only if at least this time is left in the run.
        most_failures: closes the lane after this many failures, even quick ones; by default there
            is no limit.
    """

    run_ms: int
    assumed_ms: int
    least_ms: int = 0
    most_failures: float = math.inf
    waiting: deque[Waiting] = field(default_factory=deque)
    _used_ms: int = 0
    _last_ms: int | None = None
    _failures: int = 0
    _slow: int = 0
    _slow_ms: int = 0

    def add(self, one: Waiting) -> bool:
        """Let `one` wait in this lane. Returns False if the lane is full."""
        if len(self.waiting) == _MOST_WAITING:
            return False
        self.waiting.append(one)
        return True

    def used(self, took_ms: int, *, is_failure: bool) -> None:
        """Record one use of the dependency, its duration and whether it failed."""
        self._used_ms += took_ms
        self._last_ms = took_ms
        self._failures += is_failure
        if is_failure and took_ms >= _SLOW_MS:
            self._slow += 1
            self._slow_ms += took_ms

    @property
    def is_closed(self) -> bool:
        """Whether its failures have used up its share of the run."""
        is_slow = self._slow >= _MOST_SLOW and self._slow_ms * _MOST_OF_A_RUN >= self.run_ms
        return is_slow or self._failures >= self.most_failures

    @property
    def cost_ms(self) -> int:
        """The time of the run that this lane will have used after its next use."""
        return self._used_ms + (self.assumed_ms if self._last_ms is None else self._last_ms)


@dataclass(slots=True, kw_only=True)
class Lanes:
    """The lanes of a run, by their dependency."""

    lanes: dict[Hashable, Lane] = field(default_factory=dict)

    def lane(self, about: Hashable, **options: Any) -> Lane:
        """The lane of this dependency, created with these options at the first call."""
        if about not in self.lanes:
            self.lanes[about] = Lane(**options)
        return self.lanes[about]

    def next(self, left_ms: int) -> Lane | None:
        """The open lane with waiting records that has the least `cost_ms`, or None.

        So a slow lane gets the time that the others leave, and never delays them for long.
        """
        ready = [
            lane
            for lane in self.lanes.values()
            if lane.waiting and not lane.is_closed and lane.least_ms <= left_ms
        ]
        return min(ready, key=lambda lane: lane.cost_ms, default=None)

    @property
    def are_waiting(self) -> bool:
        """Whether any record waits, including those of closed lanes."""
        return any(lane.waiting for lane in self.lanes.values())
