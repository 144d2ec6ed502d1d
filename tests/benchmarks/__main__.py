"""Benchmarks of oncekey beside Powertools' idempotency utility and bare boto3.

    python -m tests.benchmarks                       every case
    python -m tests.benchmarks --quick               three cases in a few seconds, less exact
    python -m tests.benchmarks replay duplicate      these cases alone
    python -m tests.benchmarks --over loopback       through a socket, to a server of canned answers
    python -m tests.benchmarks --profile first-call  where oncekey's own CPU goes in a case

Nothing leaves the machine. What DynamoDB answers is recorded once against moto, and played back in
place of botocore's `URLLib3Session.send`. A table is printed: microseconds of CPU a call, and the
ratios to the peers, each with the quartiles of its rounds.
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import TYPE_CHECKING

from tests.benchmarks.bouts import NAMES, bouts
from tests.benchmarks.cases import CASES
from tests.benchmarks.environment import use_environment
from tests.benchmarks.profiling import profile
from tests.benchmarks.recording import recorded
from tests.benchmarks.suite import source_of_replies, times_of

if TYPE_CHECKING:
    from tests.benchmarks.measuring import Times

CALLS = 20
QUICK = ("first-call", "replay", "duplicate")


def main() -> None:
    """Measure or profile what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--over", choices=("stub", "loopback"), default="stub")
    parser.add_argument("--profile", choices=CASES, help="profile oncekey in this case")
    asked = parser.parse_args()
    if asked.profile:
        print_profile(asked.profile, asked.over)
        return
    names = asked.cases or (QUICK if asked.quick else tuple(CASES))
    tapes = recorded([CASES[name] for name in names], CALLS)
    times = times_of(names, tapes, over=asked.over, rounds=12 if asked.quick else 100)
    for name in names:
        print(line(name, times[name]))  # noqa: T201


def print_profile(name: str, over: str) -> None:
    """Print where the time of one case goes."""
    use_environment()
    tapes = recorded([CASES[name]], CALLS)
    with source_of_replies(over) as source:
        print(profile(bouts(CASES[name], tapes, source)["oncekey"], source))  # noqa: T201


def line(name: str, times: Times) -> str:
    """The row of a case."""
    cells = [f"{name:17}"]
    cells += [f"{each} {median(times.cpu[each]):7.1f} us" for each in NAMES]
    for peer in NAMES[1:]:
        middle, low, high = times.ratio("oncekey", peer)
        cells.append(f"oncekey/{peer} {middle:.3f} ({low:.3f}-{high:.3f})")
    return "  ".join(cells)


if __name__ == "__main__":
    main()
