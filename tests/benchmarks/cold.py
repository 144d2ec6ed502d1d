"""Cold starts: fresh processes, one after the other, the contenders in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.benchmarks.contenders import arguments_of
from tests.benchmarks.environment import ENVIRONMENT, KEPT
from tests.benchmarks.loopback import loopback
from tests.benchmarks.measuring import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.benchmarks.loopback import Loopback
    from tests.benchmarks.recording import Call, Tapes

# The two marks of a start: the handler is decorated, and the first call is answered.
MARKS = ("decorated", "answered")
Start = dict[str, dict[str, int]]


@dataclass(frozen=True)
class ColdStarts:
    """The marks of each start of each contender, round by round."""

    of: Mapping[str, Sequence[Start]]

    def ratio(self, contender: str, peer: str) -> tuple[float, float, float]:
        """Median and quartiles of CPU up to the first answer, compared round by round."""
        mine, theirs = (
            [start["answered"]["cpu_us"] for start in self.of[name]] for name in (contender, peer)
        )
        return spread([ours / others for ours, others in zip(mine, theirs, strict=True)])

    def middle(self, contender: str, mark: str, figure: str) -> float:
        """The median of one figure at one mark."""
        return median(start[mark][figure] for start in self.of[contender])


def cold_starts(
    tapes: Tapes, rounds: int, transport: str = "sdk", *, tls: bool = False
) -> ColdStarts:
    """The marks of `rounds` cold starts of each contender, after one that is not counted.

    That one leaves the compiled modules behind, which a layer in Lambda ships.
    """
    ours, theirs = tapes["first-call", "oncekey"][0], tapes["first-call", "powertools"][0]
    plans = {"oncekey": ours, "powertools": theirs, "bare": ours}
    starts: dict[str, list[Start]] = {name: [] for name in plans}
    names = list(plans)
    with loopback(tls=tls) as server:
        for number in range(rounds + 1):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                start = cold_start(name, plans[name], server, transport)
                if number:
                    starts[name].append(start)
    return ColdStarts(starts)


def cold_start(name: str, call: Call, server: Loopback, transport: str) -> Start:
    """The marks of one process."""
    given = {"event": call.event, "requests": _requests(call)}
    server.load(call.replies)
    environment = {each: os.environ[each] for each in KEPT if each in os.environ} | ENVIRONMENT
    environment |= {
        "CONTENDER": name,
        **server.environment,
        "ONCEKEY_TRANSPORT": transport,
    }
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("cold_start_script.py")],
        input=json.dumps(given),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["answer"]["statusCode"] == 201, said
    assert server.is_used_up()
    # Who is said to do without the SDK does not fall back to it.
    assert said["has_sdk"] == (name != "oncekey" or transport == "sdk"), name
    return dict(zip(MARKS, said["marks"], strict=True))


def _requests(call: Call) -> Sequence[tuple[str, dict[str, Any]]]:
    return [arguments_of(request) for request in call.requests]
