"""Many threads in one process, and what many calls leave behind in memory."""

from __future__ import annotations

import gc
import sys
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.cases import CASES, Context
from tests.benchmarks.contest import contest
from tests.benchmarks.environment import in_fresh_process
from tests.benchmarks.suite import source_of_replies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.benchmarks.contest import Contestant
    from tests.benchmarks.recording import Tapes
    from tests.benchmarks.transport import Reply, Source

THREADS = 32
THOUSAND = 1000


@dataclass(frozen=True)
class Load:
    """One contender under load.

    Args:
        alone_us: CPU a first call, in one thread.
        together_us: the same in 32 threads at once.
        kept_blocks: how many blocks of memory more are allocated after a thousand calls with new
            keys, thousand by thousand.
    """

    alone_us: float
    together_us: float
    kept_blocks: Sequence[int]


def loads(tapes: Tapes, rounds: int, thousands: int) -> dict[str, Load]:
    """Each contender's first calls under load, on the stub."""
    made = in_fresh_process("sdk", _loads, tapes, rounds, thousands)
    direct = in_fresh_process("direct", _loads, tapes, rounds, thousands)
    return {"oncekey, direct": direct["oncekey"], **made}


def in_threads(contestant: Contestant, source: Source, threads: int) -> float:
    """Microseconds of CPU a call, while so many threads play `contestant` at once."""
    barrier = threading.Barrier(threads)
    failures: list[BaseException] = []

    def play() -> None:
        try:
            source.load([reply for call in contestant.calls for reply in call.replies])
            barrier.wait()
            for call in contestant.calls:
                contestant.handler(call.event, Context())
            assert source.is_used_up()
        except BaseException as error:  # noqa: BLE001 -- raised again below
            failures.append(error)
            barrier.abort()

    workers = [threading.Thread(target=play) for _ in range(threads)]
    begun_ns = time.process_time_ns()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    taken_ns = time.process_time_ns() - begun_ns
    if failures:
        raise failures[0]
    return taken_ns / threads / len(contestant.calls) / 1000


def kept_blocks(contestant: Contestant, source: Source, calls: int, thousands: int) -> list[int]:
    """How many blocks more are allocated after so many `calls` with new keys, again and again."""
    replies: Sequence[Reply] = contestant.calls[0].replies
    # The first round fills caches that have a bound.
    events = CASES["first-call"].events(calls * (thousands + 1))
    counts = []
    for number in range(thousands + 1):
        for event in events[number * calls : (number + 1) * calls]:
            source.load(replies)
            contestant.handler(event, Context())
        gc.collect()
        counts.append(sys.getallocatedblocks())
    return [after - before for before, after in pairwise(counts)]


def _loads(tapes: Tapes, rounds: int, thousands: int) -> dict[str, Load]:
    alone: dict[str, list[float]] = {}
    together: dict[str, list[float]] = {}
    with source_of_replies("stub") as source:
        made = contest(CASES["first-call"], tapes, source)
        for _ in range(rounds):
            for name, contestant in made.items():
                alone.setdefault(name, []).append(in_threads(contestant, source, 1))
                together.setdefault(name, []).append(in_threads(contestant, source, THREADS))
        kept = {
            # The requests of bare boto3 belong to recorded keys.
            name: kept_blocks(contestant, source, THOUSAND, thousands) if name != "bare" else []
            for name, contestant in made.items()
        }
    return {name: Load(median(alone[name]), median(together[name]), kept[name]) for name in made}
