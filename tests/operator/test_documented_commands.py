"""The commands in the documentation are commands of the program, with options that it takes."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from oncekey_local import cli
from oncekey_operator import commands
from tests.support.documents import text_of

ROOT = Path(__file__).parents[2]
PAGE = "layer/docs/reference/command-line.md"
# Every page with a block of commands, the runbook's among them.
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [ROOT / "README.md", *(ROOT / "layer/docs").rglob("*.md")]
    if re.search(r"```console\noncekey ", path.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_block_is_one_that_the_program_takes(page: str) -> None:
    """A person can copy each line as it is.

    Red when a command or an option is renamed, and the page is not.
    """
    blocks = re.findall(r"```console\n(.*?)```", text_of(page), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    given = [line for line in lines if line.startswith("oncekey ")]
    assert given

    for line in given:
        _, *arguments = shlex.split(line, comments=True)
        cli._parser().parse_args(arguments)


def test_every_command_of_the_runbook_is_one_that_the_program_takes() -> None:
    """Its commands stand within the sentences.

    Red when a command or an option is renamed, and the runbook is not.
    """
    given = re.findall(r"`(oncekey [^`]*)`", text_of("layer/docs/guides/runbook.md"))
    assert len(given) > 10

    for line in given:
        _, *arguments = shlex.split(re.sub(r"\bN\b", "7", line))
        cli._parser().parse_args(arguments)


def test_every_option_that_a_section_names_is_one_of_its_command() -> None:
    """The tables of options are those of the parsers.

    Red when an option is renamed, or a section is left over.
    """
    _, *sections = re.split(r"^## `oncekey ", text_of(PAGE), flags=re.MULTILINE)
    assert sections

    for section in sections:
        name, _, text = section.partition("`")
        told = io.StringIO()
        with contextlib.redirect_stdout(told), pytest.raises(SystemExit):
            cli._parser().parse_args([*name.split(), "--help"])
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        named = set(re.findall(r"--[a-z][a-z-]+", " ".join(rows)))
        assert named <= set(re.findall(r"--[a-z][a-z-]+", told.getvalue())), name


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_every_command_of_an_operator_has_a_section(name: str) -> None:
    """The page has all commands, so that nobody has to read the code to find one."""
    assert f"\n## `oncekey {name}`\n" in text_of(PAGE)
