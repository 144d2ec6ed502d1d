"""Benchmarks of oncekey beside Powertools' idempotency utility and bare boto3.

    python -m tests.benchmarks                       every case
    python -m tests.benchmarks --quick               the same in a few seconds, less exact
    python -m tests.benchmarks replay duplicate      these cases alone
    python -m tests.benchmarks --profile first-call  where oncekey's own CPU goes in a case

Nothing leaves the machine. What DynamoDB answers is recorded once against moto, and played back in
place of botocore's `URLLib3Session.send`. A table is printed: microseconds of CPU a call, and the
ratios to the peers, each with the quartiles of its rounds.
"""

from __future__ import annotations

import argparse
from statistics import median

from tests.benchmarks import contenders
from tests.benchmarks.cases import CASES, Case, Context
from tests.benchmarks.environment import use_environment
from tests.benchmarks.measuring import Bout, Times, measured
from tests.benchmarks.recording import Tape, recorded
from tests.benchmarks.transport import Player, sending_by

NAMES = ("oncekey", "powertools", "bare")
CALLS = 20


def main() -> None:
    """Measure or profile what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--profile", choices=CASES, help="profile oncekey in this case")
    asked = parser.parse_args()
    use_environment()
    cases = [CASES[name] for name in ([asked.profile] if asked.profile else asked.cases)]
    tapes = recorded(cases, CALLS)
    player = Player()
    with sending_by(player.send):
        if asked.profile:
            from tests.benchmarks.profiling import profile

            bout = bouts(cases[0], tapes, player)["oncekey"]
            print(profile(bout, player))  # noqa: T201
            return
        for case in cases:
            times = measured(bouts(case, tapes, player), player, 12 if asked.quick else 100)
            print(line(case, times), flush=True)  # noqa: T201


def bouts(case: Case, tapes: dict[tuple[str, str], Tape], player: Player) -> dict[str, Bout]:
    """The contenders of a case, each shown to answer as it should."""
    ours = tapes[case.name, "oncekey"].calls
    theirs = tapes[case.name, "powertools"].calls
    sent = {call.event["headers"]["idempotency-key"]: call.requests for call in ours}
    made = {
        "oncekey": Bout(contenders.oncekey(case, case.work), ours),
        "powertools": Bout(contenders.powertools(case, case.work), theirs),
        "bare": Bout(contenders.bare(case, case.work, sent), ours),
    }
    for name, bout in made.items():
        for call in bout.calls:
            player.put_in(call.replies)
            answer = bout.handler(call.event, Context())
            assert answer["statusCode"] == case.status, (case.name, name, answer)
    return made


def line(case: Case, times: Times) -> str:
    """The row of a case."""
    cells = [f"{case.name:12}"]
    cells += [f"{name} {median(times.cpu[name]):7.1f} us" for name in NAMES]
    for peer in NAMES[1:]:
        middle, low, high = times.ratio("oncekey", peer)
        cells.append(f"oncekey/{peer} {middle:.3f} ({low:.3f}-{high:.3f})")
    return "  ".join(cells)


if __name__ == "__main__":
    main()
