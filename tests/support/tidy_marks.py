"""Rules about the marks that tie tests to tests/checklist.md, tests/cases.md and tests/faults.md.

The marks are read from the source, so that a run of these rules collects and imports no test.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from tests.support.tidy_files import within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

CHECKLIST = "tests/checklist.md"
CASES = "tests/cases.md"
FAULTS = "tests/faults.md"
KINDS = ("requirement", "case", "fault")
# The docstring names the weakening of the code that turns the test red.
RED_WHEN = "Red when"

_MARK = re.compile(rf"\bmark\.(?:{'|'.join(KINDS)})\b")
_POINT = re.compile(r"^\| ([A-Z]\d+) \| .* \| (\d+) \|$")
_CASE = re.compile(r"^\| (\d+) \| ")
_FAULT = re.compile(r"^\| (K\d+\.\d+) \| ")


@dataclass(frozen=True)
class Mark:
    """One mark: where it stands, and what it says. `docstring` is None where no test bears it."""

    where: str
    kind: str
    number: str
    docstring: str | None


def points(files: Mapping[str, str]) -> dict[str, int]:
    """The part of each point of the checklist, by its number."""
    found = map(_POINT.match, files[CHECKLIST].splitlines())
    return {match[1]: int(match[2]) for match in found if match}


def cases(files: Mapping[str, str]) -> set[str]:
    """The numbers of the reported faults."""
    found = map(_CASE.match, files[CASES].splitlines())
    return {match[1] for match in found if match}


def listed_faults(files: Mapping[str, str]) -> set[str]:
    """The numbers of the faults of the first version."""
    found = map(_FAULT.match, files[FAULTS].splitlines())
    return {match[1] for match in found if match}


def marks(files: Mapping[str, str]) -> list[Mark]:
    """Every `requirement`, `case` and `fault` mark of the test files."""
    found: list[Mark] = []
    for path, text in within(files, "tests").items():
        if PurePosixPath(path).name.startswith("test_"):
            found += _marks_in(path, text)
    return found


@functools.cache
def _marks_in(path: str, text: str) -> tuple[Mark, ...]:
    return tuple(_found(path, ast.parse(text))) if _MARK.search(text) else ()


def _found(path: str, tree: ast.Module) -> Iterator[Mark]:
    on_tests: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            for call, kind in _calls(decorator):
                on_tests.add(call)
                yield from _said(path, call, kind, ast.get_docstring(node) or "")
    for call, kind in _calls(tree):
        if call not in on_tests:
            yield from _said(path, call, kind, None)


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            kind = node.func.attr
            if kind in KINDS and ast.unparse(node.func.value) in {"pytest.mark", "mark"}:
                yield node, kind


def _said(path: str, call: ast.Call, kind: str, docstring: str | None) -> Iterator[Mark]:
    for argument in call.args or [call]:
        number = str(argument.value) if isinstance(argument, ast.Constant) else "?"
        yield Mark(f"{path}:{call.lineno}", kind, number, docstring)


def wrong_marks(files: Mapping[str, str]) -> list[str]:
    """A mark that names nothing, stands on no test, or whose test does not say when it is red."""
    known: dict[str, Collection[str]] = {
        "requirement": points(files),
        "case": cases(files),
        "fault": listed_faults(files),
    }
    listed = {"requirement": CHECKLIST, "case": CASES, "fault": FAULTS}
    faults: list[str] = []
    for mark in marks(files):
        if mark.number not in known[mark.kind]:
            faults.append(f"{mark.where} {mark.kind} {mark.number} is not in {listed[mark.kind]}")
        if mark.docstring is None:
            faults.append(f"{mark.where} {mark.kind} {mark.number} stands on no test function")
        elif RED_WHEN not in mark.docstring:
            faults.append(f"{mark.where} the docstring has no words {RED_WHEN!r}")
    return faults


def points_without_test(files: Mapping[str, str], done_parts: Collection[int]) -> list[str]:
    """A point whose part is done and which no test shows."""
    shown = {mark.number for mark in marks(files) if mark.kind == "requirement"}
    return [
        f"{number} (part {part}) has no test"
        for number, part in points(files).items()
        if part in done_parts and number not in shown
    ]


def cases_without_test(files: Mapping[str, str], done_cases: Collection[int]) -> list[str]:
    """A reported fault that is said to be done and which no test shows, or that does not exist."""
    shown = {mark.number for mark in marks(files) if mark.kind == "case"}
    listed = cases(files)
    return [
        f"case {number} has no test" if str(number) in listed else f"case {number} does not exist"
        for number in sorted(done_cases)
        if str(number) not in shown & listed
    ]


def faults_without_test(files: Mapping[str, str]) -> list[str]:
    """A listed fault that no test shows to be gone."""
    shown = {mark.number for mark in marks(files) if mark.kind == "fault"}
    return [f"{number} has no test" for number in sorted(listed_faults(files) - shown)]
