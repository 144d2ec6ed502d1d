"""Writes what happens and why, to a terminal or a file."""

from __future__ import annotations

import asyncio
import math
import os
import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from oncekey_local.demo.words import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from oncekey_local.demo.log import Exchange
    from oncekey_local.demo.promises import Broken, Promise

WIDTH = 100
INDENT = "    "
SHORT_KEY = 8

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Replacements for an output that cannot show these characters, for example with LC_ALL=C.
_PLAIN = {"→": "->", "←": "<-", "✓": "ok", "✗": "NO", "·": "-", "…": "...", "─": "-"}


@dataclass(frozen=True)
class Narrator:
    """Writes line by line without buffering, and in colour if requested."""

    output: TextIO
    colour: bool

    @classmethod
    def to(cls, output: TextIO, environment: Mapping[str, str] = os.environ) -> Narrator:
        """A narrator, with colour if the output is a terminal and NO_COLOR is not set."""
        return cls(output, colour=output.isatty() and not environment.get("NO_COLOR"))

    def line(self, text: str = "", *styles: str) -> None:
        """One line, without line breaks added."""
        print(self.styled(self._shown(text), *styles), file=self.output, flush=True)

    def paragraph(self, text: str, *styles: str, indent: str = INDENT, mark: str = "") -> None:
        """Text with line breaks at the width. `mark` is put before its first line."""
        first = f"{indent}{mark} " if mark else indent
        rest = " " * len(self._shown(first))
        wrapped = textwrap.wrap(
            self._shown(text),
            WIDTH,
            initial_indent=self._shown(first),
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in wrapped:
            self.line(line, *styles)

    def title(self, number: int, title: str) -> None:
        """The beginning of a scene."""
        self.line()
        self.line(f"{number:2}  {title}", "bold")

    def request(self, text: str) -> None:
        """A request that is sent."""
        self.paragraph(text, "cyan", mark="→")

    def answers(self, exchanges: Iterable[Exchange]) -> None:
        """Received answers. Equal ones share a line."""
        for text, times in Counter(_answer(each) for each in exchanges).items():
            self.paragraph(f"{times} x {text}" if times > 1 else text, mark="←")

    def event(self, text: str) -> None:
        """An action on the service, or an event in it."""
        self.paragraph(text, "yellow", mark="·")

    def verdicts(self, promises: Iterable[Promise], broken: Iterable[Broken]) -> None:
        """The kept and broken promises of a scene. General promises appear only if broken."""
        seen = {each.expected: each.seen for each in broken}
        for promise in promises:
            if promise.expected not in seen:
                self.paragraph(promise.expected, "green", mark="✓")
        for expected, what in seen.items():
            self.paragraph(f"{expected} (seen: {what})", "red", mark="✗")

    async def countdown(self, seconds: float, what: str) -> None:
        """Waits, and shows the remaining time on a terminal."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if not self.output.isatty():
            self.event(f"{what} ({seconds:.0f} s)")
            await asyncio.sleep(seconds)
            return
        while (left := end - loop.time()) > 0:
            whole = math.ceil(left)
            text = self._shown(f"{INDENT}· {what}: {whole:2} s ")
            print(f"\r{self.styled(text, 'yellow')}", end="", file=self.output, flush=True)
            await asyncio.sleep(left - whole + 1)
        print("\r", end="", file=self.output)
        self.line(f"{INDENT}· {what}: done", "yellow")

    def styled(self, text: str, *styles: str) -> str:
        """The text in these styles if colour is on, otherwise unchanged."""
        if not (self.colour and styles):
            return text
        return f"\x1b[{';'.join(_STYLES[style] for style in styles)}m{text}\x1b[0m"

    def _shown(self, text: str) -> str:
        try:
            text.encode(self.output.encoding or "utf-8")
        except UnicodeEncodeError:
            for symbol, plain in _PLAIN.items():
                text = text.replace(symbol, plain)
        return text


def _answer(each: Exchange) -> str:
    parts = [shown(each)]
    if each.replayed:
        parts.append("Idempotent-Replayed: true")
    if retry_after := each.headers.get("retry-after"):
        parts.append(f"Retry-After: {retry_after}")
    if (expires := each.headers.get("idempotency-expires")) and not each.replayed:
        parts.append(f"Idempotency-Expires: {expires}")
    return "   ".join(parts)
