"""CPU and wall time a call, the contenders interleaved in short blocks of one run.

The machine is shared and its clock rate changes. So each round measures one block of every
contender, in changing order, and only ratios within a round are compared. The median over the
rounds is reported, with the quartiles as its spread.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from statistics import quantiles
from typing import TYPE_CHECKING

from tests.benchmarks.cases import Context
from tests.benchmarks.environment import begin_invocation

if TYPE_CHECKING:
    import cProfile
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.contest import Contestant
    from tests.benchmarks.transport import Source


@dataclass(frozen=True)
class Times:
    """Microseconds a call of each contender, round by round."""

    cpu: Mapping[str, Sequence[float]]
    wall: Mapping[str, Sequence[float]]

    def ratio(self, contender: str, peer: str, *, of: str = "cpu") -> tuple[float, float, float]:
        """Median and quartiles of `contender` to `peer`, compared round by round."""
        times = getattr(self, of)
        pairs = zip(times[contender], times[peer], strict=True)
        return spread([mine / theirs for mine, theirs in pairs])


def spread(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Their median and their quartiles."""
    low, middle, high = quantiles(ratios, n=4) if len(ratios) > 1 else [*ratios] * 3
    return middle, low, high


def measured(contestants: Mapping[str, Contestant], source: Source, rounds: int) -> Times:
    """The times of `rounds` rounds, after one that is not counted."""
    names = list(contestants)
    cpu: dict[str, list[float]] = {name: [] for name in names}
    wall: dict[str, list[float]] = {name: [] for name in names}
    # What is there by now is looked at by no collection, which would take long and hit anyone.
    gc.collect()
    gc.freeze()
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            cpu_us, wall_us = timed(contestants[name], source)
            if number:
                cpu[name].append(cpu_us)
                wall[name].append(wall_us)
    gc.unfreeze()
    return Times(cpu, wall)


def timed(
    contestant: Contestant, source: Source, profiler: cProfile.Profile | None = None
) -> tuple[float, float]:
    """Microseconds of CPU and wall a call, over one block of the contestant's calls."""
    handler, context = contestant.handler, Context()
    events = [call.event for call in contestant.calls]
    source.load([reply for call in contestant.calls for reply in call.replies])
    gc.collect()
    if profiler is not None:
        profiler.enable()
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    for event in events:
        begin_invocation()
        handler(event, context)
    cpu, wall = time.process_time_ns() - cpu, time.perf_counter_ns() - wall
    if profiler is not None:
        profiler.disable()
    assert source.is_used_up()
    return cpu / len(events) / 1000, wall / len(events) / 1000
