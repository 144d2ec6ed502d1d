"""The page of the design that says what the mutants have shown."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from tests.mutants import hand, registry, rooms, tool
from tests.mutants.mutant import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.mutants.registry import Weakening

PAGE = ROOT / "layer/docs/design/mutants.md"
_NOT_SHOWN = "not shown yet"

BEGIN, END = "<!-- mutants: drawn by tests/mutants/page.py -->", "<!-- /mutants -->"


def drawn(page: str) -> str:
    """`page` with the tables of what is on record between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join([*_registry(), *_conditions(), *_tool()])
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def write() -> None:
    """Draw its tables anew."""
    PAGE.write_text(drawn(PAGE.read_text("utf-8")), "utf-8")


def _registry() -> Iterator[str]:
    caught = hand.caught()
    everything = registry.by_hand()
    shown = sum(bool(caught.get(each.area, {}).get(each.name)) for each in everything)
    yield "## The registry\n"
    yield f"{len(everything)} weakenings, of which {shown} are caught. The kinds:\n"
    for kind, meaning in registry.KINDS.items():
        number = sum(each.kind == kind for each in everything)
        yield f"- `{kind}` ({number}): {meaning}."
    for area, several in groupby(everything, key=lambda each: each.area):
        yield f"\n### {area.capitalize()}\n"
        yield "| weakened | kind | caught by |\n| --- | --- | --- |"
        for each in several:
            by = caught.get(area, {}).get(each.name, "")
            yield f"| {_cell(each.weakens)} | {each.kind} | {_test(by)} |"


def _conditions() -> Iterator[str]:
    caught = hand.caught().get("conditions", {})
    yield "\n## The conditions\n"
    yield "| condition | comparisons | caught | by |\n| --- | --- | --- | --- |"
    for name, several in groupby(registry.of_conditions(), key=_condition):
        parts = list(several)
        by = {caught[each.name] for each in parts if each.name in caught}
        names = sorted({_test(each) for each in by}) or [_NOT_SHOWN]
        number = sum(each.name in caught for each in parts)
        yield f"| `{name}` | {len(parts)} | {number} | {', '.join(names)} |"


def _condition(each: Weakening) -> str:
    return each.weakens.partition(" ")[0]


def _tool() -> Iterator[str]:
    equal = tool.equivalents()
    yield "\n## The tool\n"
    yield "| room | shown to | possible | shown | seed | caught | equivalent | survivors |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    survivors: list[str] = []
    for room, row in rooms.found().items():
        names, tests = row["survivors"], row["tests"]
        assert isinstance(names, list)
        assert isinstance(tests, list)
        left = [each for each in names if each not in equal]
        survivors += left
        same = len(names) - len(left) + int(str(row["equivalent"]))
        yield (
            f"| `{room}` | {_folders(tests)} | {row['possible']} | {row['drawn']} | {row['seed']} |"
            f" {row['caught']} | {same} | {len(left)} |"
        )
    yield from _listed("Survivors, which a test should catch", survivors)
    reasons = sorted(f"{_cell(name)}: {reason}" for name, reason in equal.items())
    yield from _listed("Equivalent, and why nobody can see them", reasons, is_text=True)


def _folders(tests: Iterable[str]) -> str:
    """The folders that the tests are in."""
    return ", ".join(sorted({f"`{each.split('/')[1]}`" for each in tests}))


def _listed(title: str, names: Iterable[str], *, is_text: bool = False) -> Iterator[str]:
    listed = list(names)
    if listed:
        yield f"\n### {title}\n"
        for each in listed:
            yield f"- {each}" if is_text else f"- `{_cell(each)}`"


def _test(nodeid: str) -> str:
    """The file and the function of a test, without its folder and its parameters."""
    if not nodeid:
        return _NOT_SHOWN
    file, _, function = nodeid.partition("::")
    if not function:
        return nodeid
    return f"`{file.removeprefix('tests/')}` {function.partition('[')[0]}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").rstrip(".")
