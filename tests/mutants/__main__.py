"""`python -m tests.mutants`: the registry whole, and the tool over a sample of each room.

    --room NAME   the tool alone, in one room
    --sample N    so many faults of each room (200)
    --seed N      drawn by this seed (1)
    --tests X Y   with --room: show them to these files and folders of tests/ alone
    --survivors   with --room: show those that survived the last run once more, and no others
    --new         the registry alone: its weakenings that no test has caught yet
    --page        write the page alone

It prints what becomes of each mutant, keeps the results beside this file, and writes the page. It
ends with 1 if a mutant survived that is not in `equivalents.toml`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from tests.mutants import hand, page, registry, rooms, tool
from tests.mutants.covering import Coverage
from tests.mutants.mutant import ROOT
from tests.mutants.processes import Warm, import_what_is_heavy, warm


def main() -> int:
    """Carry out the command line."""
    options = _options()
    if options.page:
        page.write()
        return 0
    # Hypothesis would replay the examples that failed under other mutants.
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = tempfile.mkdtemp(prefix="oncekey-mutants-")
    left = 0
    if not options.room:
        left += _registry(is_new=options.new)
    if not options.new:
        for room in [options.room] if options.room else tool.TESTS_OF:
            # A room has a process of its own: it cannot fork from one that has imported the layer.
            left += _apart(room, options) if not options.room else _room(room, options)
    page.write()
    _say(f"{left} survivors" if left else "every mutant was caught")
    return 1 if left else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", nargs="+", default=[])
    parser.add_argument("--survivors", action="store_true")
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument("--room", default="", choices=tool.TESTS_OF)
    parts.add_argument("--new", action="store_true")
    parts.add_argument("--page", action="store_true")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _registry(*, is_new: bool) -> int:
    known = hand.caught() if is_new else {}
    weakenings = [
        each for each in registry.everything() if each.name not in known.get(each.area, {})
    ]
    _say(f"{len(weakenings)} weakenings")
    if not weakenings:
        return 0
    survivors: list[registry.Weakening] = []
    import_what_is_heavy()

    def work(process: Warm) -> None:
        survivors.extend(hand.show(weakenings, process, _say))

    warm(hand.tests_of(weakenings), work, marked="")
    return len(survivors)


def _apart(room: str, options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "tests.mutants", "--room", room]
    command += ["--sample", str(options.sample), "--seed", str(options.seed)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _room(room: str, options: argparse.Namespace) -> int:
    folders = [f"tests/{each}" for each in options.tests or tool.TESTS_OF[room]]
    together = [folders] if options.tests else [[each] for each in folders]
    coverage = Coverage(*(tool.traced(*each) for each in together))
    possible = tool.possible_faults(room)
    if options.survivors:
        result, faults = rooms.last(room, possible)
    else:
        faults = tool.drawn(possible, options.sample, options.seed)
        result = tool.Result(room, drawn=len(faults), seed=options.seed)
    result.possible = len(possible)
    result.tests = sorted({*result.tests, *folders})
    _say(f"{room}: {len(faults)} of {len(possible)} faults")
    run = tool.Run(result, coverage, _say)
    import_what_is_heavy()
    warm(folders, lambda process: run.show(faults, process))
    rooms.keep(result)
    return len(result.survivors)


if __name__ == "__main__":
    sys.exit(main())
