"""The files of the project, and rules about what their text may say.

Every rule takes files, as texts by their paths from the root, and returns its faults, so that each
can be shown on a bad example.
"""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
Files = dict[str, str]

# Written so that no pattern is found in this file itself.
_REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|yarnpkg|crates)\W{1,2}(?:org|com|io)\b|--(?:extra-)?index-url"
)
_MACHINE_PATH = re.compile(r"(?<![\w.~/-])/(?:home|Users|root|work)/[\w.-]|\b[A-Z]:\\Users\\")


def project_files(root: Path = ROOT) -> Files:
    """Read every text file of the checkout that .gitignore does not leave out."""
    ignored = [".git", *(root / ".gitignore").read_text("utf-8").split()]
    patterns = [pattern.strip("/") for pattern in ignored]
    return {
        path.relative_to(root).as_posix(): text
        for path in _walk(root, patterns)
        if (text := _text(path)) is not None
    }


def _walk(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if any(fnmatch(path.name, pattern) for pattern in ignored):
            continue
        if path.is_dir():
            yield from _walk(path, ignored)
        elif path.is_file():
            yield path


def _text(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        return None


def within(files: Mapping[str, str], *folders: str, suffix: str = ".py") -> Files:
    """The files below these folders whose names end with `suffix`."""
    return {
        path: text
        for path, text in files.items()
        if path.endswith(suffix) and any(path.startswith(f"{folder}/") for folder in folders)
    }


def registry_names(files: Mapping[str, str]) -> list[str]:
    """A file names where packages come from: that is the machine's business, not the project's."""
    return _lines_that_match(files, _REGISTRY, "names a package registry")


def machine_paths(files: Mapping[str, str]) -> list[str]:
    """A file names an absolute path that exists on one developer's machine only."""
    return _lines_that_match(files, _MACHINE_PATH, "names a path of one machine")


def lock_addresses(files: Mapping[str, str]) -> list[str]:
    """A line of a lock holds an address; it pins by version and hash, and by nothing else."""
    locks = {path: text for path, text in files.items() if path.endswith(".lock")}
    return _lines_that_match(locks, re.compile("://"), "locks an address")


def _lines_that_match(files: Mapping[str, str], pattern: re.Pattern[str], fault: str) -> list[str]:
    return [
        f"{path}:{number} {fault}"
        for path, text in files.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def unused_events(files: Mapping[str, str]) -> list[str]:
    """A sample event that no test names; either a test is missing or the event is not needed."""
    tests = [
        text
        for path, text in within(files, "tests").items()
        if PurePosixPath(path).name.startswith("test_")
    ]
    return [
        f"{path} is used by no test"
        for path in within(files, "events", suffix=".json")
        if not any(_names(text, PurePosixPath(path).stem) for text in tests)
    ]


def _names(text: str, wanted: str) -> bool:
    """Whether a constant of the code is this text, and no mere part of it or of a comment."""
    return wanted in text and any(
        isinstance(node, ast.Constant) and node.value == wanted
        for node in ast.walk(ast.parse(text))
    )
