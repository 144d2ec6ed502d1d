"""The end of the demo: a table of what was seen, and every broken promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_local.demo.log import CHARGE, REFUND
from oncekey_local.demo.money import ALWAYS
from oncekey_local.demo.narrator import INDENT, SHORT_KEY
from oncekey_local.demo.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey_local.demo.director import Outcome, Performance
    from oncekey_local.demo.narrator import Narrator
    from oncekey_local.demo.promises import Broken

_HEADINGS = ("", "scene", "key", "sent", "answers", "due", "moved", "verdict")
_RIGHT = (0, 3, 5, 6)
_GAP = "  "
KEPT = "kept"
BROKEN = "BROKEN"


def tell(narrator: Narrator, outcome: Outcome, *, protected: bool, seconds: float) -> None:
    """Writes the table and the verdict."""
    narrator.line()
    heading, rule, *rows, total = table(outcome.performances)
    narrator.line(heading, "bold")
    narrator.line(rule, "dim")
    for row, performance in zip(rows, outcome.performances, strict=True):
        narrator.line(row, "red" if performance.broken else "green")
    narrator.line(total, "bold")
    narrator.line()
    broken = broken_by_scene(outcome)
    narrator.line(verdict(outcome, broken, seconds=seconds), "bold", "red" if broken else "green")
    for where, each in broken:
        narrator.line(f"{where:>2}  expected  {each.expected}")
        narrator.paragraph(each.seen, "red", indent=INDENT, mark="seen     ")
    if broken and not protected:
        narrator.line()
        narrator.paragraph(
            "This is what retries do to a service without protection. The same requests with it: "
            "oncekey demo",
            indent="",
        )


def verdict(outcome: Outcome, broken: Sequence[object], *, seconds: float) -> str:
    """The verdict in one line."""
    promises = sum(len(each.scene.promises) + len(ALWAYS) for each in outcome.performances)
    kept = f"{len(broken)} promises were broken" if broken else f"All {promises} promises were kept"
    money = f"{_money(outcome, CHARGE, 'Charges')} {_money(outcome, REFUND, 'Refunds')}"
    return f"{kept}. {money} Time: {seconds:.0f} s."


def _money(outcome: Outcome, kind: str, name: str) -> str:
    due = sum(each.scene.due[kind] for each in outcome.performances)
    made = sum(len(each.log.moved_by(kind)) for each in outcome.performances)
    return f"{name}: {made} made, {due} due."


def broken_by_scene(outcome: Outcome) -> list[tuple[str, Broken]]:
    """Every broken promise with the number of its scene, or none if it concerns the whole demo."""
    in_scenes = [
        (str(number), broken)
        for number, performance in enumerate(outcome.performances, start=1)
        for broken in performance.broken
    ]
    return in_scenes + [("", broken) for broken in outcome.broken]


def table(performances: Sequence[Performance]) -> list[str]:
    """Headings, a rule, a row for each scene, and the total."""
    rows = [_row(number, each) for number, each in enumerate(performances, start=1)]
    logs = [each.log for each in performances]
    total = (
        "",
        "total",
        "",
        str(sum(len(log.exchanges) for log in logs)),
        "",
        str(sum(each.scene.due.total() for each in performances)),
        str(sum(len(log.moved) for log in logs)),
        KEPT if all(not each.broken for each in performances) else BROKEN,
    )
    cells = [_HEADINGS, *rows, total]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADINGS))]
    lines = [_line(row, widths) for row in cells]
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]


def _row(number: int, performance: Performance) -> tuple[str, ...]:
    log = performance.log
    keys = [each.order.key for each in (*log.exchanges, *log.earlier) if each.order]
    return (
        str(number),
        performance.scene.title,
        keys[0][:SHORT_KEY] if keys else "",
        str(len(log.exchanges)),
        counted(log.exchanges),
        str(performance.scene.due.total()),
        str(len(log.moved)),
        BROKEN if performance.broken else KEPT,
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return _GAP.join(aligned).rstrip()
