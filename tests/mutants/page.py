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

_HEAD = """# Mutants

This page is written by `make mutants`. It answers: is each protection tested?

A mutant is a deliberate fault in the layer. Its tests must fail; a mutant that no test catches shows a protection that nobody would miss. There are three kinds:

- The registry, `tests/mutants/weakenings/`: protections that were removed by hand, one at a time. A test of each landing checks that the text of each still occurs once in its module.
- The conditions: each comparison of each transition's condition is ignored for every record that exists.
- The tool, `tests/mutants/operators.py`: comparisons, clauses, bounds, constants, keywords, entries and statements are changed by a program. It is shown a sample, drawn by a seed.

The protocol in `tests/simulation/mutations.py` is a proof of another kind: there, the exploration finds a schedule that breaks a rule, and no unit test is asked.

`make mutants` runs all of it and takes hours; `make mutants ROOM=record SAMPLE=200 SEED=7` takes another sample of one room. No landing runs it. [A release does](releasing.md).
"""


def drawn() -> str:
    """The whole page, from what is on record."""
    parts = [_HEAD, *_registry(), *_conditions(), *_tool()]
    return "\n".join(parts) + "\n"


def write() -> None:
    """Write the page anew."""
    PAGE.write_text(drawn(), "utf-8")


def _registry() -> Iterator[str]:
    caught = hand.caught()
    everything = registry.by_hand()
    shown = sum(bool(caught.get(each.area, {}).get(each.name)) for each in everything)
    yield f"## The registry\n\n{len(everything)} weakenings, of which {shown} are caught. The kinds:\n"
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
    yield "| room | possible | shown | seed | caught | equivalent | survivors |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    survivors: list[str] = []
    for room, row in rooms.found().items():
        names = row["survivors"]
        assert isinstance(names, list)
        left = [each for each in names if each not in equal]
        survivors += left
        same = len(names) - len(left) + int(str(row["equivalent"]))
        yield (
            f"| `{room}` | {row['possible']} | {row['drawn']} | {row['seed']} | {row['caught']} |"
            f" {same} | {len(left)} |"
        )
    yield from _listed("Survivors, which a test should catch", survivors)
    reasons = sorted(f"{_cell(name)}: {reason}" for name, reason in equal.items())
    yield from _listed("Equivalent, and why nobody can see them", reasons, is_text=True)


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
