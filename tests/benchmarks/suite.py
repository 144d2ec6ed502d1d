"""Measures cases over one transport, in a process of its own, and returns the figures."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.bouts import NAMES, bouts
from tests.benchmarks.cases import CASES
from tests.benchmarks.environment import use_environment
from tests.benchmarks.loopback import loopback
from tests.benchmarks.measuring import measured
from tests.benchmarks.transport import Player, playing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.benchmarks.measuring import Times
    from tests.benchmarks.recording import Tapes
    from tests.benchmarks.transport import Source


# What carries oncekey's own calls of DynamoDB.
TRANSPORTS = ("boto3",)


@dataclass(frozen=True)
class Costs:
    """What one call sends, receives and pays for."""

    requests: int
    sent_bytes: int
    received_bytes: int
    read_units: int
    write_units: int
    index_units: int


def times_of(
    names: Sequence[str], tapes: Tapes, *, over: str, rounds: int, transport: str = "boto3"
) -> dict[str, Times]:
    """The times of these cases, over the `stub` or the `loopback`; oncekey by this transport."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, mp_context=context, initializer=use_environment, initargs=(transport,)
    ) as process:
        return process.submit(_times_of, names, tapes, over, rounds).result()


def costs_of(name: str, tapes: Tapes) -> dict[str, Costs]:
    """What a call costs with each library."""
    costs = {}
    for contender in NAMES[:2]:
        call = tapes[name, contender][0]
        costs[contender] = Costs(
            requests=len(call.requests),
            sent_bytes=call.sent_bytes,
            received_bytes=call.received_bytes,
            read_units=call.units.read,
            write_units=call.units.write,
            index_units=call.units.index,
        )
    return costs


@contextlib.contextmanager
def source_of_replies(over: str) -> Iterator[Source]:
    """Where the replies come from: the `stub` in this process, or the `loopback` server."""
    if over == "stub":
        player = Player()
        with playing(player):
            yield player
        return
    with loopback() as server:
        os.environ.update(server.environment)
        yield server


def _times_of(names: Sequence[str], tapes: Tapes, over: str, rounds: int) -> dict[str, Times]:
    with source_of_replies(over) as source:
        return {name: measured(bouts(CASES[name], tapes, source), source, rounds) for name in names}
