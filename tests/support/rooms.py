"""The rooms of the layer, and which way imports run over them.

`python -m tests.support.rooms` draws the table in layer/docs/design/architecture.md anew.
"""

from __future__ import annotations

import ast
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tests.support.tidy_files import project_files, within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LAYER = "layer/python/oncekey"
GROUND = "ground"
# Each room may import those before it, also for types alone.
ORDER = (
    *(GROUND, "encoding", "record", "telemetry", "store", "flow", "effects", "options", "quotas"),
    *("engine", "http", "functions", "outbox", "queued", "settlement", "reconciler", "webhooks"),
    *("ledger", "asgi", "powertools", "openapi", "client", "testing"),
)
# The folders of tests/ beside one for each room.
OTHER_TESTS = frozenset(
    {
        *(
            "benchmarks",
            "e2e",
            "infra",
            "local",
            "mutants",
            "operator",
            "released",
            "repo",
            "service",
        ),
        *("simulation", "support", "typing"),
    }
)
PAGE = "layer/docs/design/architecture.md"
BEGIN, END = "<!-- rooms: drawn by tests/support/rooms.py -->", "<!-- /rooms -->"


def imports_against_the_order(files: Mapping[str, str]) -> list[str]:
    """A module imports a room that stands above its own, or a room that is in no order."""
    known = {name: place for place, name in enumerate(ORDER)}
    faults: list[str] = []
    for path, line, mine, other in _imports(files):
        if mine not in known or other not in known:
            faults.append(f"{path}:{line} {mine if mine not in known else other} is no room")
        elif known[other] > known[mine]:
            faults.append(f"{path}:{line} {mine} imports {other}, which stands above it")
    return faults


def tests_in_no_room(files: Mapping[str, str]) -> list[str]:
    """A test stands in a folder of tests/ that is neither a room nor one of the others."""
    known = {*ORDER, *OTHER_TESTS}
    return [
        f"{path} is in no room"
        for path in within(files, "tests")
        if (parts := PurePosixPath(path).parts)[1] not in known and parts[1:] != ("conftest.py",)
    ]


def drawn(files: Mapping[str, str]) -> str:
    """The table of rooms: what each holds, by its own docstring, and what it imports."""
    used: dict[str, set[str]] = {name: set() for name in ORDER}
    for _, _, mine, other in _imports(files):
        if mine != other:
            used[mine].add(other)
    rows = ["| room | holds | imports |", "| --- | --- | --- |"]
    for name in ORDER:
        below = ", ".join(f"`{each}`" for each in ORDER if each in used[name]) or "nothing"
        rows.append(f"| `{name}` | {_holds(name, files)} | {below} |")
    return "\n".join(rows)


def page_with(table: str, page: str) -> str:
    """`page` with `table` between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def _holds(room: str, files: Mapping[str, str]) -> str:
    if room == GROUND:
        names = sorted(
            PurePosixPath(path).stem
            for path in within(files, LAYER)
            if _room(path) == GROUND and PurePosixPath(path).stem != "__init__"
        )
        return "What all rooms use: " + ", ".join(f"`{name}`" for name in names) + "."
    source = files.get(f"{LAYER}/{room}/__init__.py") or files[f"{LAYER}/{room}.py"]
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0].replace("\n", " ")


def _imports(files: Mapping[str, str]) -> Iterator[tuple[str, int, str, str]]:
    """Path, line, own room and imported room of each import of the layer within itself.

    The rooms' own lists of public names are no imports of theirs: they are read late.
    """
    for path, text in within(files, LAYER).items():
        if PurePosixPath(path).name == "__init__.py":
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                continue
            package, _, inside = node.module.partition(".")
            if package != "oncekey":
                continue
            for alias in node.names:
                full = f"{inside}.{alias.name}" if inside else alias.name
                yield path, node.lineno, _room(path), _room_of_module(full)


def _room(path: str) -> str:
    parts = PurePosixPath(path).relative_to(LAYER).parts
    return _named(parts[0].removesuffix(".py"), is_module=len(parts) == 1)


def _room_of_module(name: str) -> str:
    first = name.partition(".")[0]
    return _named(first, is_module=first not in ORDER)


def _named(first: str, *, is_module: bool) -> str:
    return first if first == "options" or not is_module else GROUND


def main() -> None:
    """Draw the table anew."""
    page = Path(__file__).parents[2] / PAGE
    text = page.read_text("utf-8")
    page.write_text(page_with(drawn(project_files()), text), "utf-8")


if __name__ == "__main__":
    main()
