"""What the runtime says is never more important than what it does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from oncekey_local.log import log, say

if TYPE_CHECKING:
    import pytest


def test_reader_gone() -> None:
    """A line that nobody reads is lost, the next one too, and closing the stream is no error."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        say("a line", stream)
        say("another", stream)


def test_closed_stream() -> None:
    """A line for a stream that is closed is lost."""
    reader, writer = os.pipe()
    stream = os.fdopen(writer, "w")
    stream.close()
    os.close(reader)
    say("a line", stream)


def test_no_stream(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a standard error a line is lost, and not on standard output."""
    monkeypatch.setattr(sys, "stderr", None)
    log("a line")
    assert capsys.readouterr().out == ""


def test_exit_status() -> None:
    """Lines that nobody read do not change the exit status of the process."""
    code = "import sys\nfrom oncekey_local.log import say\nsay('a line', sys.stdout)"
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run([sys.executable, "-c", code], stdout=writer, check=False, timeout=60)
    os.close(writer)
    assert ended.returncode == 0
