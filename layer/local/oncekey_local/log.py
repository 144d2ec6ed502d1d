"""The log lines of the local runtime. A failure to write one never stops it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def log(line: str) -> None:
    """Writes a line to standard error; see `say`."""
    say(line, sys.stderr)


def say(line: str, stream: TextIO | None) -> None:
    """Writes a line. It never raises, even if the line cannot be written.

    The reader may have ended (`oncekey dev 2>&1 | head`) while the service continues.
    """
    if stream is None:  # closed from the start; `print` would take standard output for it
        return
    try:
        print(line, file=stream, flush=True)
    except BrokenPipeError:
        _silence(stream)
    except (OSError, ValueError):
        pass  # a full disk, a closed file: the line is lost


def _silence(stream: TextIO) -> None:
    # The rest of the stream's buffer would fail again with each line, and at the interpreter's end,
    # where it changes the exit status.
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
