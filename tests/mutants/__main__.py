"""`python -m tests.mutants`: the registry whole, and the tool over a sample of each room.

    --room NAME   only the tool, in one room
    --only TEXT   only modules whose path has this text
    --folders A,B show them the tests of these folders, in place of all that belong to the room
    --area NAME   only the registry, in one area
    --new         only the weakenings that no test has caught yet
    --quick       show them their narrowest tests only, and no whole folder
    --sample N    so many faults of each room (200)
    --seed N      drawn by this seed (1)
    --page        only write the page

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
        left += _registry(options.area, is_new=options.new, is_quick=options.quick)
    if not options.area and not options.new:
        for room in [options.room] if options.room else tool.TESTS_OF:
            # A room has a process of its own: it cannot fork from one that has imported the layer.
            left += _apart(room, options) if not options.room else _room(room, options)
    page.write()
    _say(f"{left} survivors" if left else "every mutant was caught")
    return 1 if left else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--room", default="", choices=["", *tool.TESTS_OF])
    parser.add_argument("--area", default="")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--folders", default="")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _registry(area: str, *, is_new: bool, is_quick: bool) -> int:
    known = hand.caught() if is_new else {}
    weakenings = [
        each
        for each in registry.everything()
        if area in {"", each.area} and each.name not in known.get(each.area, {})
    ]
    if is_quick:
        weakenings = [each.narrowed() for each in weakenings]
    _say(f"{len(weakenings)} weakenings")
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
    named = options.folders.split(",") if options.folders else tool.TESTS_OF[room]
    folders = [f"tests/{each}" for each in named]
    coverage = Coverage(*(tool.traced(folder) for folder in folders))
    possible = tool.possible_faults(room, options.only)
    faults = tool.drawn(possible, options.sample, options.seed)
    _say(f"{room}: {len(faults)} of {len(possible)} faults")
    run = tool.Run(room, coverage, _say)
    run.result.possible = len(possible)
    import_what_is_heavy()
    warm(folders, lambda process: run.show(faults, process))
    rooms.keep(
        run.result,
        sample=options.sample,
        seed=options.seed,
        only=options.only,
        folders=folders,
    )
    return len(run.result.survivors) + len(run.result.untested)


if __name__ == "__main__":
    sys.exit(main())
