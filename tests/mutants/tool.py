"""The mutation tool's run: it shows faults of a room to their tests, and lists the survivors."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutants.mutant import PACKAGES, ROOT
from tests.mutants.operators import Fault, faults_of
from tests.mutants.processes import Warm, cold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.mutants.child import Verdict
    from tests.mutants.covering import Coverage

# The tests that a room's faults are shown to. Those of its own folder come first.
TESTS_OF = {
    "record": ("record", "engine", "effects", "reconciler", "settlement", "queued"),
    "effects": ("effects", "engine"),
    "engine": ("engine", "effects", "http", "functions", "queued", "quotas", "telemetry"),
    "store": (
        *("store", "record", "outbox", "quotas"),
        *("effects/test_commit_limits.py", "options/test_wrong_options.py"),
    ),
    "settlement": ("settlement", "reconciler", "webhooks"),
    "reconciler": ("reconciler", "settlement", "outbox", "telemetry", "engine/test_pauses.py"),
    "outbox": ("outbox", "queued"),
}
EQUIVALENTS = Path(__file__).parent / "equivalents.toml"
# The CPU time of one mutant's tests, as they were measured, and how many of them there may be.
_MOST_S = 12.0
_MOST_TESTS = 500
# A slower test comes after all quick ones: a few of them would use up the time.
_SLOW_S = 0.25


@dataclass(slots=True)
class Result:
    """What became of the faults of one room."""

    room: str
    possible: int = 0
    drawn: int = 0
    seed: int = 0
    tests: list[str] = field(default_factory=list)
    equivalent: int = 0
    caught: int = 0
    survivors: list[str] = field(default_factory=list)


def files_of(room: str) -> list[str]:
    """The modules of a room, by their paths from the layer's package folder."""
    folder = PACKAGES / "oncekey" / room
    return sorted(path.relative_to(PACKAGES).as_posix() for path in folder.rglob("*.py"))


def possible_faults(room: str) -> list[Fault]:
    """Every fault that the tool can make in a room."""
    return [fault for path in files_of(room) for fault in faults_of(path)]


def drawn(faults: list[Fault], sample: int, seed: int) -> list[Fault]:
    """`sample` of the faults, all if there are fewer, by `seed`; in the order of the modules."""
    if sample >= len(faults):
        return faults
    drawing = random.Random(seed)  # noqa: S311 -- a sample is no secret
    chosen = set(drawing.sample(range(len(faults)), sample))
    return [fault for place, fault in enumerate(faults) if place in chosen]


def equivalents() -> dict[str, str]:
    """The faults that change nothing anybody can see, each with the reason."""
    listed: dict[str, str] = tomllib.loads(EQUIVALENTS.read_text("utf-8"))["equivalent"]
    return listed


class Run:
    """Shows faults of one room to its tests."""

    def __init__(self, result: Result, coverage: Coverage, say: Callable[[str], None]) -> None:
        self.result = result
        self._coverage = coverage
        self._say = say
        # The tests that have caught faults of a module catch others, too.
        self._catchers: dict[str, Counter[str]] = {}
        self._equal = equivalents()

    def show(self, faults: Iterable[Fault], process: Warm) -> None:
        """Show each fault to the tests that run its line."""
        for fault in faults:
            if fault.name in self._equal:
                self.result.equivalent += 1
                continue
            tests = self._tests_for(fault, process)
            if not tests:
                self.result.survivors.append(fault.name)
                self._say(f"UNTESTED {fault.line} {fault.name}")
                continue
            verdict = self._met(fault, tests, process)
            if verdict.is_caught:
                self.result.caught += 1
                self._catchers.setdefault(fault.path, Counter())[verdict.by] += 1
                self._say(f"caught {verdict.seconds:.1f}s {fault.name} BY {verdict.by}")
            else:
                self.result.survivors.append(fault.name)
                self._say(f"SURVIVED {fault.line} {verdict.seconds:.1f}s {len(tests)} {fault.name}")

    def _met(self, fault: Fault, tests: list[str], process: Warm) -> Verdict:
        cpu_s = 10 + 5 * sum(self._coverage.seconds.get(test, 0.1) for test in tests)
        mutant = fault.mutant(tests=tests)
        if not self._coverage.runs_at_import(fault.path, fault.line):
            verdict = process.meet(mutant, tests, cpu_s=cpu_s)
        else:
            # What was computed at import, such as a test's parameters, is of the sound layer.
            verdict = None
        if verdict is None:
            return cold(mutant, cpu_s=cpu_s + 30)
        return verdict

    def _tests_for(self, fault: Fault, process: Warm) -> list[str]:
        """The tests that run the fault's line: first those that caught others, then its module's.

        The rest are taken from one file after the other, the quick ones first, so that neither a
        file nor a slow test uses up the time. What runs at import, such as the attribute of a
        class, is shown to the other tests of the room as well: no line says which of them use it.
        """
        known = self._catchers.get(fault.path, Counter())
        is_at_import = self._coverage.runs_at_import(fault.path, fault.line)
        covering = [
            test for test in self._coverage.of(fault.path, fault.line) if test in process.items
        ]
        if is_at_import or not covering:
            covering = [*covering, *self._of_module(fault.path, process)]
        of_module = f"test_{Path(fault.path).name}"
        tests = self._quick_first(self._in_turn(covering, known, of_module), known)
        if is_at_import or not covering:
            # Only an import runs some modules, such as the names of a package.
            own = f"tests/{self.result.room}/" if covering else "tests/"
            others = {each for each in self._coverage.seconds if each.startswith(own)}
            others = (others & process.items.keys()) - {*tests}
            tests += self._quick_first(self._in_turn(others, known, of_module), known)
        return _within_time(tests, self._coverage.seconds)

    def _quick_first(self, tests: Iterable[str], known: Counter[str]) -> list[str]:
        seconds = self._coverage.seconds
        return sorted(tests, key=lambda each: each not in known and seconds[each] > _SLOW_S)

    def _of_module(self, path: str, process: Warm) -> Iterator[str]:
        """The tests that run any line of the module: for a constant, which runs at import."""
        count = (PACKAGES / path).read_text("utf-8").count("\n") + 1
        seen = {test for line in range(1, count) for test in self._coverage.of(path, line)}
        return (test for test in seen if test in process.items)

    def _in_turn(self, tests: Iterable[str], known: Counter[str], of_module: str) -> Iterator[str]:
        own = f"tests/{self.result.room}/"
        by_file: dict[str, list[str]] = {}
        for test in sorted(set(tests), key=lambda each: (self._coverage.seconds[each], each)):
            by_file.setdefault(test.partition("::")[0], []).append(test)
        yield from sorted((t for t in set(tests) if t in known), key=lambda each: -known[each])
        for file in [each for each in by_file if each.endswith(f"/{of_module}")]:
            yield from (test for test in by_file.pop(file) if test not in known)
        files = sorted(by_file, key=lambda each: (not each.startswith(own), each))
        while files:
            for file in list(files):
                each = by_file[file].pop(0)
                if not by_file[file]:
                    files.remove(file)
                if each not in known:
                    yield each


def _within_time(tests: Iterable[str], seconds: dict[str, float]) -> list[str]:
    chosen: list[str] = []
    left_s = _MOST_S
    for test in tests:
        if len(chosen) >= _MOST_TESTS:
            break
        if not chosen or seconds[test] <= left_s:
            chosen.append(test)
            left_s -= seconds[test]
    return chosen


def traced(*tests: str) -> Path:
    """The file that says which lines `tests` run, folders or files. It is made if missing or old.

    It is old once a module of the layer or one of the tests has changed.
    """
    hasher = hashlib.sha256(" ".join(tests).encode())
    for root in (PACKAGES / "oncekey", *(ROOT / each for each in tests)):
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            hasher.update(path.read_bytes())
    name = tests[0].partition("/")[2].replace("/", "-")
    file = ROOT / ".mutants" / f"{name}-{hasher.hexdigest()[:16]}.jsonl"
    if not file.exists():
        sys.stdout.write(f"tracing {' '.join(tests)}\n")
        code = "import sys; from pathlib import Path; from tests.mutants.covering import trace"
        code += "; trace(sys.argv[2:], Path(sys.argv[1]))"
        unfinished = file.with_suffix(".part")
        command = [sys.executable, "-c", code, str(unfinished), *tests]
        subprocess.run(command, cwd=ROOT, check=True)
        unfinished.rename(file)
    return file
