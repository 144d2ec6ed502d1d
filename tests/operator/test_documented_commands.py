"""The commands in the documentation are commands of the program, with options that it takes."""

from __future__ import annotations

import re
import shlex

import pytest

from oncekey_local import cli
from tests.support.documents import text_of

PAGES = (
    "layer/docs/guides/pausing.md",
    "layer/docs/guides/moving-tables.md",
    "layer/docs/reference/command-line.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_a_block_is_one_that_the_program_takes(page: str) -> None:
    """A person can copy each line as it is.

    Red when a command or an option is renamed, and the page is not.
    """
    blocks = re.findall(r"```console\n(.*?)```", text_of(page), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert lines

    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "oncekey"
        cli._parser().parse_args(arguments)
