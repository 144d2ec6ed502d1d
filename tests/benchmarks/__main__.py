"""Benchmarks of oncekey beside Powertools' idempotency utility and bare boto3.

    python -m tests.benchmarks                       every case
    python -m tests.benchmarks --quick               three cases in a few seconds, less exact
    python -m tests.benchmarks replay duplicate      these cases alone
    python -m tests.benchmarks --over loopback       through a socket, to a server of canned answers
    python -m tests.benchmarks --transport direct    oncekey by its own transport
    python -m tests.benchmarks --cold                cold starts, in fresh processes
    python -m tests.benchmarks --profile first-call  where oncekey's own CPU goes in a case
    python -m tests.benchmarks --write               all of it, into the documentation (make bench)

Nothing leaves the machine. What DynamoDB answers is recorded once against moto, and played back in
place of botocore's `URLLib3Session.send`. A table is printed: microseconds of CPU a call, and the
ratios to the peers, each with the quartiles of its rounds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from oncekey.settings import TRANSPORTS
from tests.benchmarks import figures
from tests.benchmarks.batches import throughputs
from tests.benchmarks.cases import CASES
from tests.benchmarks.cold import MARKS, cold_starts
from tests.benchmarks.contest import NAMES, contest
from tests.benchmarks.environment import use_environment
from tests.benchmarks.load import loads
from tests.benchmarks.plot import plot
from tests.benchmarks.profiling import profile, shares
from tests.benchmarks.recording import recorded
from tests.benchmarks.report import page
from tests.benchmarks.suite import costs_of, source_of_replies, times_of

if TYPE_CHECKING:
    from tests.benchmarks.cold import ColdStarts
    from tests.benchmarks.measuring import Times

CALLS = 12
QUICK = ("first-call", "replay", "duplicate")
PAGE = Path(__file__).parents[2] / "layer/docs/reference/benchmarks.md"


def main() -> None:
    """Measure or profile what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds")
    parser.add_argument("--over", choices=("stub", "loopback"), default="stub")
    parser.add_argument("--transport", choices=TRANSPORTS, default="sdk")
    parser.add_argument("--cold", action="store_true", help="cold starts alone")
    parser.add_argument("--profile", choices=CASES, help="profile oncekey in this case")
    parser.add_argument("--write", action="store_true", help="all, into the documentation")
    asked = parser.parse_args()
    if asked.profile:
        print_profile(asked.profile, asked.over, asked.transport)
        return
    names = asked.cases or (QUICK if asked.quick else tuple(CASES))
    if asked.write:
        write(names, is_quick=asked.quick)
    elif asked.cold:
        tapes = recorded([CASES["first-call"]], 1)
        print_cold(cold_starts(tapes, 6 if asked.quick else 10, asked.transport))
    else:
        tapes = recorded([CASES[name] for name in names], CALLS)
        rounds = 12 if asked.quick else 24
        times = times_of(names, tapes, over=asked.over, rounds=rounds, transport=asked.transport)
        for name in names:
            print_times(name, times[name])


def write(names: tuple[str, ...], *, is_quick: bool) -> None:
    """Measure everything, and write the page and the plot."""
    rounds = 12 if is_quick else 24
    tapes = recorded([CASES[name] for name in names], CALLS)
    measured = figures.Figures(
        where=figures.where(rounds),
        costs=costs_of(names, tapes),
        times={
            (transport, over): times_of(names, tapes, over=over, rounds=rounds, transport=transport)
            # On the stub, only the direct transport would pay for its own HTTP.
            for transport, over in (
                ("sdk", "stub"),
                ("sdk", "loopback"),
                ("direct", "loopback"),
            )
        },
        cold={
            (transport, tls): cold_starts(tapes, 6 if is_quick else 10, transport, tls=tls)
            for transport in TRANSPORTS
            for tls in (False, True)
        },
        shares={transport: shares(names, tapes, transport) for transport in TRANSPORTS},
        batches=throughputs(10 if is_quick else 40),
        loads=loads(tapes, rounds=3 if is_quick else 6, thousands=2),
    )
    PAGE.write_text(page(measured), "utf-8")
    PAGE.with_suffix(".svg").write_text(plot(measured), "utf-8")
    print(f"written: {PAGE}")  # noqa: T201


def print_profile(name: str, over: str, transport: str) -> None:
    """Print where the time of one case goes."""
    use_environment(transport)
    tapes = recorded([CASES[name]], CALLS)
    with source_of_replies(over) as source:
        print(profile(contest(CASES[name], tapes, source)["oncekey"], source))  # noqa: T201


def print_times(name: str, times: Times) -> None:
    """Print the row of a case."""
    cells = [f"{name:17}"]
    cells += [f"{each} {median(times.cpu[each]):7.1f} us" for each in NAMES]
    for peer in NAMES[1:]:
        middle, low, high = times.ratio("oncekey", peer)
        cells.append(f"oncekey/{peer} {middle:.3f} ({low:.3f}-{high:.3f})")
    print("  ".join(cells))  # noqa: T201


def print_cold(starts: ColdStarts) -> None:
    """Print the medians of cold starts."""
    for name in NAMES:
        for mark in MARKS:
            found = {each: starts.middle(name, mark, each) for each in starts.of[name][0][mark]}
            print(f"{name:12} {mark:10}", found)  # noqa: T201
    for peer in NAMES[1:]:
        middle, low, high = starts.ratio("oncekey", peer)
        print(f"oncekey/{peer} {middle:.3f} ({low:.3f}-{high:.3f})")  # noqa: T201


if __name__ == "__main__":
    main()
