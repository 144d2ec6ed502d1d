"""How it is told: colour where it is wanted, symbols where they can be shown, lines that fit."""

from __future__ import annotations

import asyncio
import io

import pytest

from oncekey_local.demo.narrator import Narrator


class Terminal(io.StringIO):
    """An output that says that it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


@pytest.mark.parametrize(
    ("output", "environment", "colour"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colour(output: io.StringIO, environment: dict[str, str], colour: bool) -> None:
    """Colour is for terminals, and not where NO_COLOR is set to anything."""
    Narrator.to(output, environment).line("text", "bold", "red")
    assert output.getvalue() == ("\x1b[1;31mtext\x1b[0m\n" if colour else "text\n")


def test_symbols() -> None:
    """An output that knows ASCII only gets other signs, and no error."""
    raw = io.BytesIO()
    narrator = Narrator(io.TextIOWrapper(raw, encoding="ascii"), colour=False)
    narrator.request("POST …")
    narrator.event("it happens")
    assert raw.getvalue() == b"    -> POST ...\n    - it happens\n"


def test_paragraph() -> None:
    """Text is broken to 100 columns, and what follows a mark stands under its text."""
    output = io.StringIO()
    Narrator(output, colour=False).event("word " * 40)
    first, *rest = output.getvalue().splitlines()
    assert first.startswith("    · word word")
    assert all(line.startswith("      word") for line in rest)
    assert max(len(line) for line in (first, *rest)) <= 100
    assert sum(line.count("word") for line in (first, *rest)) == 40


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (io.StringIO(), "    · waiting (0 s)\n"),
        (Terminal(), "\r    · waiting: done\n"),
    ],
)
def test_countdown(output: io.StringIO, told: str) -> None:
    """A countdown is one line in a file, and the last of its states on a terminal."""
    asyncio.run(Narrator(output, colour=False).countdown(0, "waiting"))
    assert output.getvalue() == told
