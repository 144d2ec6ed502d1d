"""Which tests run which lines of the layer, and how long each takes.

One run of the tests under a tracer, since the tool chooses the tests of a mutant by its line.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.mutants.child import options
from tests.mutants.mutant import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from types import CodeType, FrameType

_LAYER = f"{PACKAGES}/oncekey/"
# After so long, a test goes on untraced: it has shown what it runs.
_TRACED_S = 3.0
# The lines that run while modules are imported and tests are collected.
AT_IMPORT = "import"


class _Tracer:
    """Collects the lines of the layer that run."""

    def __init__(self) -> None:
        self.lines: dict[CodeType, set[int]] = {}
        self._whole: dict[CodeType, frozenset[int] | None] = {}
        self._until = time.monotonic() + 600

    def begin(self) -> None:
        """From now on, in this thread and in new ones."""
        self.lines = {}
        self._until = time.monotonic() + _TRACED_S
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        whole = self._whole.get(code, ())
        if whole == ():
            is_ours = code.co_filename.startswith(_LAYER)
            lines = frozenset(line for *_, line in code.co_lines() if line) if is_ours else None
            whole = self._whole[code] = lines
        if whole is None:
            return None
        if time.monotonic() > self._until:
            sys.settrace(None)
            return None
        seen = self.lines.setdefault(code, set())
        if len(seen) >= len(whole):
            return None
        seen.add(frame.f_lineno)

        def line(frame: FrameType, event: str, _: object) -> Any:
            seen.add(frame.f_lineno)
            return line

        return line

    def end(self) -> dict[str, list[int]]:
        """The lines since `begin`, by file."""
        sys.settrace(None)
        threading.settrace(None)  # None ends it
        found: dict[str, set[int]] = {}
        for code, lines in self.lines.items():
            found.setdefault(code.co_filename.removeprefix(f"{PACKAGES}/"), set()).update(lines)
        return {path: sorted(lines) for path, lines in found.items()}


class _Recorder:
    """A pytest plugin that writes a line of JSON for each test that passes."""

    def __init__(self, tracer: _Tracer, file: Path) -> None:
        self._tracer = tracer
        self._file = file.open("w", encoding="utf-8")
        self._passed = True

    def pytest_collection_finish(self) -> None:
        """What has run until now runs at import."""
        self._write({"test": AT_IMPORT, "seconds": 0.0, "lines": self._tracer.end()})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that does not pass by itself says nothing about a mutant."""
        self._passed &= report.passed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Traces one test."""
        self._passed = True
        began = time.process_time()
        self._tracer.begin()
        try:
            return (yield)
        finally:
            lines = self._tracer.end()
            if self._passed:
                seconds = round(time.process_time() - began, 4)
                self._write({"test": item.nodeid, "seconds": seconds, "lines": lines})

    def _write(self, row: dict[str, object]) -> None:
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()


def trace(tests: list[str], file: Path) -> None:
    """Run `tests` in this process, and write what each runs. The process must be a new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    tracer = _Tracer()
    tracer.begin()
    tracer._until = time.monotonic() + 600
    pytest.main([*options(), *tests], plugins=[_Recorder(tracer, file)])


class Coverage:
    """The tests by line: the answer of `trace`, read again."""

    def __init__(self, *files: Path) -> None:
        self.seconds: dict[str, float] = {}
        self._tests: dict[tuple[str, int], list[str]] = {}
        self._at_import: set[tuple[str, int]] = set()
        for file in files:
            for row in map(json.loads, file.read_text("utf-8").splitlines()):
                places = [(path, line) for path, lines in row["lines"].items() for line in lines]
                if row["test"] == AT_IMPORT:
                    self._at_import.update(places)
                    continue
                self.seconds[row["test"]] = row["seconds"]
                for place in places:
                    self._tests.setdefault(place, []).append(row["test"])

    def of(self, path: str, line: int) -> list[str]:
        """The tests that run the line."""
        return self._tests.get((path, line), [])

    def runs_at_import(self, path: str, line: int) -> bool:
        """Whether the line runs before any test does."""
        return (path, line) in self._at_import
