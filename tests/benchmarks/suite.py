"""Measures cases over one transport, in a process of its own, and returns the figures."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.benchmarks import contenders
from tests.benchmarks.cases import CASES, Context
from tests.benchmarks.contest import NAMES, contest
from tests.benchmarks.environment import in_fresh_process
from tests.benchmarks.loopback import loopback
from tests.benchmarks.measuring import measured
from tests.benchmarks.transport import Player, playing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.benchmarks.measuring import Times
    from tests.benchmarks.recording import Call, Tapes
    from tests.benchmarks.transport import Source


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
    names: Sequence[str], tapes: Tapes, *, over: str, rounds: int, transport: str = "sdk"
) -> dict[str, Times]:
    """The times of these cases, over the `stub` or the `loopback`; oncekey by this transport."""
    return in_fresh_process(transport, _times_of, names, tapes, over, rounds)


def costs_of(names: Sequence[str], tapes: Tapes) -> dict[str, dict[str, Costs]]:
    """What a call costs with each library in each case, and with the direct transport."""
    directly = in_fresh_process("direct", _sent_directly, names, tapes)
    costs: dict[str, dict[str, Costs]] = {}
    for name in names:
        ours, theirs = (_costs(tapes[name, contender][0]) for contender in NAMES[:2])
        direct = replace(ours, sent_bytes=directly[name])
        costs[name] = {"oncekey": ours, "oncekey, direct": direct, "powertools": theirs}
    return costs


def _costs(call: Call) -> Costs:
    return Costs(
        requests=len(call.requests),
        sent_bytes=call.sent_bytes,
        received_bytes=call.received_bytes,
        read_units=call.units.read,
        write_units=call.units.write,
        index_units=call.units.index,
    )


def _sent_directly(names: Sequence[str], tapes: Tapes) -> dict[str, int]:
    sent: dict[str, int] = {}
    player = Player()
    with playing(player):
        for name in names:
            handler, call = contenders.oncekey(CASES[name]), tapes[name, "oncekey"][0]
            before = player.sent_bytes
            player.load(call.replies)
            handler(call.event, Context())
            sent[name] = player.sent_bytes - before
    return sent


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
        return {
            name: measured(contest(CASES[name], tapes, source), source, rounds) for name in names
        }
