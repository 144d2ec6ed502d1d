"""The pages on log lines and metrics, drawn from the code.

    python -m tests.support.telemetry_pages

A function that logs one event carries all that its row says. The first paragraph of its docstring
is the meaning. A paragraph that begins with `To do:` says what somebody should do, and one with
`Then:` what follows by itself. Another function that logs the same event has neither.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oncekey.telemetry.metrics import CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layer/python/oncekey"
LOG_LINES = ROOT / "layer/docs/reference/log-lines.md"
METRICS = ROOT / "layer/docs/reference/metrics.md"
LEVELS = ("ERROR", "WARNING", "INFO", "DEBUG")
_TO_DO, _THEN = "To do: ", "Then: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One event of the log: its levels, its meaning, and what is to be done or what follows."""

    event: str
    levels: tuple[str, ...]
    meaning: str
    to_do: str = ""
    then: str = ""

    @property
    def order(self) -> tuple[int, str]:
        """The most severe lines come first."""
        return LEVELS.index(self.levels[0]), self.event


def lines(folder: Path = LAYER) -> list[Line]:
    """Every event that is logged in `folder`, the most severe first."""
    found: dict[str, Line] = {}
    for path in sorted(folder.rglob("*.py")):
        for line in _lines_in(ast.parse(path.read_text("utf-8"))):
            known = found.get(line.event)
            if known is None or line.to_do or line.then:
                found[line.event] = line
    return sorted(found.values(), key=lambda line: line.order)


def _lines_in(tree: ast.Module) -> Iterator[Line]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for call in ast.walk(function):
            event = _event(call) if isinstance(call, ast.Call) else None
            if isinstance(call, ast.Call) and event is not None:
                paragraphs = [
                    " ".join(each.split())
                    for each in (ast.get_docstring(function) or "").split("\n\n")
                ]
                yield Line(
                    event=event,
                    levels=_levels(call),
                    meaning=paragraphs[0],
                    to_do=_said(paragraphs, _TO_DO),
                    then=_said(paragraphs, _THEN),
                )


def _event(call: ast.Call) -> str | None:
    """The event that a call logs, if it names one."""
    name = ast.unparse(call.func)
    if name in {"say", "_say"} and len(call.args) > 1:
        return call.args[1].value if isinstance(call.args[1], ast.Constant) else None  # type: ignore[return-value]  # an event is a text
    for keyword in call.keywords:
        if keyword.arg == "extra" and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "oncekey_event":
                    return value.value if isinstance(value, ast.Constant) else None  # type: ignore[return-value]  # as above
    return None


def _levels(call: ast.Call) -> tuple[str, ...]:
    method = ast.unparse(call.func).rpartition(".")[2]
    if method.upper() in LEVELS:
        return (method.upper(),)
    named = {node.attr for node in ast.walk(call.args[0]) if isinstance(node, ast.Attribute)}
    return tuple(level for level in LEVELS if level in named)


def _said(paragraphs: list[str], label: str) -> str:
    texts = [each.removeprefix(label) for each in paragraphs if each.startswith(label)]
    return texts[0][:1].upper() + texts[0][1:] if texts else ""


def log_tables() -> tuple[str, str]:
    """The rows of the lines on which somebody should act, and of the others."""
    to_do = ["| event | level | meaning | what to do |", "| --- | --- | --- | --- |"]
    then = ["| event | level | meaning | what follows |", "| --- | --- | --- | --- |"]
    for line in lines():
        row = f"| `{line.event}` | {' or '.join(line.levels)} | {line.meaning} |"
        (to_do if line.to_do else then).append(f"{row} {line.to_do or line.then} |")
    return "\n".join(to_do), "\n".join(then)


def metric_table() -> str:
    """The rows of all metrics, in the order of the catalogue."""
    rows = ["| metric | unit | meaning | dimensions |", "| --- | --- | --- | --- |"]
    for metric in CATALOGUE:
        sets = "; ".join(" and ".join(f"`{each}`" for each in one) for one in metric.dimensions)
        rows.append(f"| `{metric.name}` | {metric.unit} | {metric.meaning} | {sets} |")
    return "\n".join(rows)


def drawn() -> dict[Path, str]:
    """The pages as the code has them. What stands outside their marks is kept."""
    to_do, then = log_tables()
    log_page = LOG_LINES.read_text("utf-8")
    for name, table in (("to do", to_do), ("then", then)):
        log_page = _with_table(name, table, log_page)
    metrics_page = _with_table("metrics", metric_table(), METRICS.read_text("utf-8"))
    return {LOG_LINES: log_page, METRICS: metrics_page}


def _with_table(name: str, table: str, page: str) -> str:
    begin, end = f"<!-- {name}: drawn by tests/support/telemetry_pages.py -->", f"<!-- /{name} -->"
    before, found, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    assert found, f"the page has no mark {begin}"
    return f"{before}{begin}\n{table}\n{end}{after}"


def main() -> None:
    """Draw the pages anew."""
    for path, text in drawn().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
