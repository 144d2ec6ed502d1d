"""`oncekey demo` as a process, with an eye on every process that it starts."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.dev_service import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PATIENCE_S = 150
# For processes that come and go without a word.
_LOOK_EVERY_S = 0.1


@dataclass(kw_only=True)
class Ended:
    """A demo that has ended: its exit status, what it wrote, and the processes that it started."""

    status: int = 0
    output: str = ""
    started: dict[int, int] = field(default_factory=dict[int, int])
    still_there: list[int] = field(default_factory=list[int])


def play(
    *arguments: str,
    cwd: Path = ROOT,
    terminal: bool = False,
    environment: Mapping[str, str] | None = None,
    interrupt_at: str | None = None,
    number: signal.Signals = signal.SIGINT,
) -> Ended:
    """Plays the demo to its end.

    `terminal` gives it a pseudo-terminal in place of a pipe. A signal `number` is sent to it, and
    to nobody else, as soon as it has written `interrupt_at`.
    """
    reader, process = _started(arguments, cwd, environment or {}, terminal=terminal)
    ended = Ended()

    def on_output(text: str) -> None:
        nonlocal interrupt_at
        ended.output += text
        if interrupt_at is not None and interrupt_at in ended.output:
            interrupt_at = None
            process.send_signal(number)

    try:
        for text in _read(reader):
            on_output(text)
            _watch_descendants(process.pid, ended.started)
        ended.status = process.wait(timeout=_PATIENCE_S)
        ended.still_there = [pid for pid, watch in ended.started.items() if not _has_ended(watch)]
    finally:
        for descriptor in (reader, *ended.started.values()):
            os.close(descriptor)
        process.kill()
        process.wait()
    return ended


def _started(
    arguments: tuple[str, ...], cwd: Path, environment: Mapping[str, str], *, terminal: bool
) -> tuple[int, subprocess.Popen[bytes]]:
    """The end of the line that the demo writes to, and its process."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "oncekey_local.cli", "demo", *arguments],
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", **environment},
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
        start_new_session=True,
    )
    os.close(writer)
    return reader, process


def _read(reader: int) -> Iterator[str]:
    """Whole lines as they come, and every now and then nothing, until the output ends."""
    end = time.monotonic() + _PATIENCE_S
    rest = b""
    while time.monotonic() < end:
        chunk = None
        if select.select([reader], [], [], _LOOK_EVERY_S)[0]:
            try:
                chunk = os.read(reader, 65536)
            except OSError:  # how a pseudo-terminal ends
                return
            if not chunk:
                return
        *lines, rest = (rest + (chunk or b"")).split(b"\n")
        yield "".join(f"{line.decode()}\n" for line in lines)


def _watch_descendants(ancestor: int, watched: dict[int, int]) -> None:
    """Takes hold of the processes below `ancestor` themselves: an id may be used again."""
    for children in Path(f"/proc/{ancestor}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for pid in map(int, children.read_text().split()):
                if pid not in watched:
                    watched[pid] = os.pidfd_open(pid)
                _watch_descendants(pid, watched)


def _has_ended(watch: int) -> bool:
    # At once: the demo has said that it ended.
    return bool(select.select([watch], [], [], 0)[0])
