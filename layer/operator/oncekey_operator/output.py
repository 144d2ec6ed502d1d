"""What commands print: tables and times for people, JSON for programs.

Colours, progress bars and the terminal's width are for terminals only. A pipe gets plain text.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from oncekey_operator.exits import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

_COLOURS = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_BAR_WIDTH = 30
_LEAST_WIDTH = 6


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at `stream`."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """`text` in a colour if the stream shows colours; see https://no-color.org."""
    stream = stream or sys.stdout
    if not is_terminal(stream) or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def plain(text: str) -> str:
    """The text without control characters. Whoever may write to a queue could send some."""
    return "".join(each if each.isprintable() else "�" for each in text)


def print_json(value: Any) -> None:
    """Print one value as one line of JSON."""
    print(json.dumps(value, separators=(",", ":"), default=str))


def print_to_nobody() -> None:
    """Let all that is printed from here on go nowhere: the reader of standard output has ended.

    Otherwise, Python would end with a status of its own, because it cannot write the rest.
    """
    with contextlib.suppress(OSError):  # it is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def iso(at_ms: int) -> str:
    """A time as UTC, to the millisecond, for programs.

    A time that no calendar has, such as one beyond the year 9999, is its number: `... ms`.
    """
    at = _utc(at_ms)
    if at is None:
        return f"{at_ms} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(at_ms: int, now_ms: int) -> str:
    """A time for people: UTC, and how far from now."""
    at = _utc(at_ms)
    told = iso(at_ms) if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{told} ({relative(at_ms, now_ms)})"


def _utc(at_ms: int) -> datetime | None:
    """The time; None if it is none. One damaged item must not hide all others."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def relative(at_ms: int, now_ms: int) -> str:
    """How far a time is from now: `in 5 s`, `3 min ago`, `now`."""
    away_s = abs(at_ms - now_ms) // 1000
    if not away_s:
        return "now"
    span = duration(away_s)
    return f"in {span}" if at_ms > now_ms else f"{span} ago"


def duration(seconds: int) -> str:
    """A duration in its two largest units: `3 d 4 h`, `5 min`."""
    parts: list[str] = []
    for size, unit in _UNITS:
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def counted(number: int, what: str) -> str:
    """A number of things in words: `1 fault`, `2 faults`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def print_pairs(
    pairs: Iterable[tuple[str, str]], *, colours: Mapping[str, str] | None = None
) -> None:
    """Print names and values in two columns. Long values continue under themselves.

    `colours` names the values in a colour, which have one line, and their colours.
    """
    import textwrap

    found = [(plain(name), value) for name, value in pairs]
    wide = max((len(name) for name, _ in found), default=0) + 2
    room = max(40, _width() - wide)
    for name, value in found:
        lines = [
            each
            for line in value.splitlines() or [""]
            for each in textwrap.wrap(
                plain(line.expandtabs()), room, break_long_words=False, break_on_hyphens=False
            )
            or [""]
        ]
        colour = (colours or {}).get(name)
        shown = coloured(lines[0], colour) if colour else lines[0]
        print(coloured(name.ljust(wide), "dim") + shown)
        for line in lines[1:]:
            print(" " * wide + line)


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, omitted: Sequence[str] = ()
) -> None:
    """Print a table. On a narrow terminal, the columns `omitted` are left out, the first one first.

    Then the widest columns are cut, but the last one never: it has the name to copy.
    """
    found = [[plain(cell) for cell in row] for row in rows]
    columns = list(range(len(headers)))
    widths = [max(len(each[n]) for each in (list(headers), *found)) for n in columns]
    if is_terminal(sys.stdout):
        for name in omitted:
            if sum(widths[n] + 2 for n in columns) - 2 > _width():
                columns.remove(headers.index(name))
        _fit(widths, columns, _width())
    shown = [widths[n] for n in columns]
    print(coloured(_line([headers[n] for n in columns], shown), "bold"))
    for row in found:
        print(_line([row[n] for n in columns], shown))


def _fit(widths: list[int], columns: Sequence[int], room: int) -> None:
    """Make the widest columns narrower until all fit, or none can be."""
    while sum(widths[n] + 2 for n in columns) - 2 > room:
        widest = max(columns[:-1], key=lambda n: widths[n], default=None)
        if widest is None or widths[widest] <= _LEAST_WIDTH:
            return
        widths[widest] -= 1


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (
        cell if len(cell) <= width else cell[: width - 1] + "…"
        for cell, width in zip(cells, widths, strict=True)
    )
    return "  ".join(cell.ljust(width) for cell, width in zip(fitted, widths, strict=True)).rstrip()


def _width() -> int:
    return shutil.get_terminal_size((100, 24)).columns if is_terminal(sys.stdout) else 100


class Progress:
    """A progress bar on standard error, if that is a terminal. It removes itself at its end."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total = what, max(total, 1)
        self._is_shown = is_terminal(sys.stderr)

    def show(self, done: int, note: str = "") -> None:
        """Draw the bar with `done` of the total."""
        if not self._is_shown:
            return
        share = min(done / self._total, 1.0)
        filled = round(share * _BAR_WIDTH)
        bar = "█" * filled + "░" * (_BAR_WIDTH - filled)
        print(
            f"\r\x1b[K{self._what} {bar} {share:4.0%} {note}", end="", file=sys.stderr, flush=True
        )

    def __enter__(self) -> Progress:
        """Draw the empty bar."""
        self.show(0)
        return self

    def __exit__(self, *ending: object) -> None:
        """Remove the bar."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def confirm(question: str, *, expected: str, assumed: bool) -> bool:
    """Whether the person types `expected`. `assumed` (--yes) needs no person.

    Raises:
        UsageError: there is no terminal to ask on, and `assumed` is false.
    """
    if assumed:
        return True
    if not sys.stdin.isatty():
        raise UsageError("this changes what is stored, and nobody can be asked: say --yes")
    asked = f"{plain(question)} Type {expected} to go on: "
    print(asked, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == expected
