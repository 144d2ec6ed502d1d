"""What a run of the reconciler gives to each thing that it depends on: a share of its time."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.record.record import Record

if TYPE_CHECKING:
    from collections.abc import Hashable

# What is quicker than that costs a run nothing, whatever comes of it.
_SLOW_MS = 1_000
# One slow failure may be its record's. Two, which have taken so much of the run together, are not.
_MOST_SLOW = 2
_MOST_OF_A_RUN = 5
# Of each lane, so that a long outage does not fill the memory; what is left is still due.
_MOST_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class Stuck:
    """What is under `pk` cannot be visited, for this `reason`, and was put off so many times.

    `record` is what is there, if it can be read.
    """

    pk: str
    record: Record | None
    reason: str
    times: int


Waiting = Record | Stuck


@dataclass(slots=True, kw_only=True)
class Lane:
    """One thing that visits depend on, such as a provider or a queue, and what waits for it.

    It is closed for the rest of the run once its failures, or its slow ones, have taken their
    share: what still waits is left due, without a turn.

    Args:
        run_ms: how long the run lasts.
        assumed_ms: how long one use of it takes, until it is known.
        least_ms: a use of it begins only while so much is left of the run.
        most_failures: how many failures close it, however quick; None for any number.
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
        """Let `one` wait for it; False if there is no room."""
        if len(self.waiting) == _MOST_WAITING:
            return False
        self.waiting.append(one)
        return True

    def used(self, took_ms: int, *, is_failure: bool) -> None:
        """It was used for so long, in vain if it `is_failure`."""
        self._used_ms += took_ms
        self._last_ms = took_ms
        self._failures += is_failure
        if is_failure and took_ms >= _SLOW_MS:
            self._slow += 1
            self._slow_ms += took_ms

    @property
    def is_closed(self) -> bool:
        """Whether it has had its share, in vain."""
        is_slow = self._slow >= _MOST_SLOW and self._slow_ms * _MOST_OF_A_RUN >= self.run_ms
        return is_slow or self._failures >= self.most_failures

    @property
    def cost_ms(self) -> int:
        """The time that it will have taken of the run after its next use."""
        return self._used_ms + (self.assumed_ms if self._last_ms is None else self._last_ms)


@dataclass(slots=True, kw_only=True)
class Lanes:
    """The lanes of a run, by what they are about."""

    lanes: dict[Hashable, Lane] = field(default_factory=dict)

    def lane(self, about: Hashable, **options: Any) -> Lane:
        """The lane, made with these options if it is the first time that somebody asks."""
        if about not in self.lanes:
            self.lanes[about] = Lane(**options)
        return self.lanes[about]

    def next(self, left_ms: int) -> Lane | None:
        """Whose turn it is: of those for which something waits, the one that has taken least.

        So one that is slow takes what the others leave, and never keeps them waiting for long.
        """
        ready = [
            lane
            for lane in self.lanes.values()
            if lane.waiting and not lane.is_closed and lane.least_ms <= left_ms
        ]
        return min(ready, key=lambda lane: lane.cost_ms, default=None)

    @property
    def are_waiting(self) -> bool:
        """Whether anything waits, be it for a lane that is closed."""
        return any(lane.waiting for lane in self.lanes.values())
