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
    from collections.abc import Iterator, Mapping

# The list of each kind of mark.
LISTS = {
    "requirement": "tests/checklist.md",
    "case": "tests/cases.md",
    "fault": "tests/faults.md",
}
# The docstring names the weakening of the code that turns the test red.
RED_WHEN = "Red when"

_MARK = re.compile(rf"\bmark\.(?:{'|'.join(LISTS)})\b")
_ROW = re.compile(r"^\| ([A-Z]?\d+(?:\.\d+)?) \| ", re.MULTILINE)


@dataclass(frozen=True)
class Mark:
    """One mark: where it stands, and what it says. `docstring` is None where no test bears it."""

    where: str
    kind: str
    number: str
    docstring: str | None


def listed(files: Mapping[str, str], kind: str) -> set[str]:
    """The numbers in the list of a kind."""
    return set(_ROW.findall(files[LISTS[kind]]))


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
            if kind in LISTS and ast.unparse(node.func.value) in {"pytest.mark", "mark"}:
                yield node, kind


def _said(path: str, call: ast.Call, kind: str, docstring: str | None) -> Iterator[Mark]:
    for argument in call.args or [call]:
        number = str(argument.value) if isinstance(argument, ast.Constant) else "?"
        yield Mark(f"{path}:{call.lineno}", kind, number, docstring)


def wrong_marks(files: Mapping[str, str]) -> list[str]:
    """A mark that names nothing, stands on no test, or whose test does not say when it is red."""
    known = {kind: listed(files, kind) for kind in LISTS}
    faults: list[str] = []
    for mark in marks(files):
        if mark.number not in known[mark.kind]:
            faults.append(f"{mark.where} {mark.kind} {mark.number} is not in {LISTS[mark.kind]}")
        if mark.docstring is None:
            faults.append(f"{mark.where} {mark.kind} {mark.number} stands on no test function")
        elif RED_WHEN not in mark.docstring:
            faults.append(f"{mark.where} the docstring has no words {RED_WHEN!r}")
    return faults


def without_test(files: Mapping[str, str]) -> list[str]:
    """What is listed and shown by no test."""
    shown = {(mark.kind, mark.number) for mark in marks(files)}
    return [
        f"{kind} {number} has no test"
        for kind in LISTS
        for number in sorted(listed(files, kind))
        if (kind, number) not in shown
    ]
