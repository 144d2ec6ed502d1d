"""The pages of the documentation, and the code in them, which runs as a reader finds it."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
# Those whose code is run.
PAGES = [
    "README.md",
    "infra/README.md",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "layer/docs").rglob("*.md")),
]
DOCUMENTS = [*PAGES, "events/README.md", "layer/SECURITY.md", "layer/CHANGELOG.md"]


def text_of(page: str) -> str:
    """A page as it stands."""
    return (ROOT / page).read_text("utf-8")


def rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below `heading`, without its two header lines."""
    lines = text[text.index(heading) :].split("\n")
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = list(itertools.takewhile(lambda line: line.startswith("|"), lines[start:]))
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table[2:]]


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the code of each block of a page."""
    return re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", text_of(page), re.MULTILINE | re.DOTALL)


def example(page: str, mark: str) -> str:
    """The one Python block of a page that holds `mark`."""
    (code,) = [code for language, code in blocks(page) if language == "python" and mark in code]
    return code


def run_example(page: str, mark: str, **given: Any) -> dict[str, Any]:
    """The names of an example that has run, word for word, with what its reader has to bring."""
    exec(compile(example(page, mark), page, "exec"), given)  # noqa: S102
    return given


def example_in_a_file(page: str, mark: str) -> str:
    """The same for a test that writes the example into a file and runs that."""
    return textwrap.dedent(example(page, mark))


def examples_run_by(folder: Path) -> set[str]:
    """The code of each example that a test below `folder` runs under its page and mark."""
    found = set()
    for path in folder.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="run_example" | "example_in_a_file"),
                    args=[ast.Constant(value=str(page)), ast.Constant(value=str(mark))],
                ):
                    found.add(example(page, mark))
    return found


def anchors(page: str) -> set[str]:
    """What a link into a page may name: its headings, as GitHub spells them."""
    prose = re.sub(r"^ *```.*?^ *```$", "", text_of(page), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
