"""Child processes in their own sessions, whose output is read line by line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING

from oncekey_local.log import log

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Mapping

LOOPBACK = "127.0.0.1"
# The developer's variables that a child gets. All others are left out, above all AWS_* and proxies.
_INHERITED = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)
# The runtime client puts 600 characters about AWS's updates of the runtime before each error at the
# import of a handler. Here nobody updates it.
_ABOUT_RUNTIME_UPDATES = "LAMBDA_WARNING: Unhandled exception."


def clean_environment() -> dict[str, str]:
    """The variables that every child needs to run Python with the project on its path."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    path = [os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]  # noqa: PTH109 - text, for a variable
    return kept | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }


class StartFailed(Exception):  # noqa: N818 - it says what happened
    """A process of the service did not start. The message names it and where to look."""


class Child:
    """A running child process.

    Its standard output and standard error go to standard error, with a label.
    """

    def __init__(self, process: Process, label: str, on_line: Callable[[str], None] | None) -> None:
        self.pid = process.pid
        self.label = label
        self._process = process
        self._on_line = on_line
        self._output = asyncio.create_task(self._forward_output())

    @classmethod
    async def start(
        cls,
        *,
        label: str,
        module: str,
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str],
        on_line: Callable[[str], None] | None = None,
    ) -> Child:
        """Starts `python -m module` with exactly this environment.

        `on_line` sees each line of its output.
        """
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "oncekey_local.child",
            str(os.getpid()),
            module,
            *arguments,
            stdin=PIPE,  # never written to: its end tells the child that we are gone
            stdout=PIPE,
            stderr=STDOUT,
            env=environment,
            start_new_session=True,  # a terminal's Ctrl-C reaches only us
        )
        return cls(process, label, on_line)

    async def wait(self) -> int:
        """Returns the status, negative for a signal, when process and output have ended."""
        status = await self._process.wait()
        # A descendant that left the process group may hold the pipe open for ever: do not wait for
        # that.
        await asyncio.wait([self._output], timeout=1)
        return status

    def kill(self) -> None:
        """Sends SIGKILL to the process and its children. It has ended when `wait` returns."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _forward_output(self) -> None:
        assert self._process.stdout is not None
        rest = b""
        while chunk := await self._process.stdout.read(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            self._forward(lines)
        if rest:
            self._forward([rest])

    def _forward(self, lines: list[bytes]) -> None:
        # Lambda's runtime client writes one log entry a line, with carriage returns and hard spaces
        # inside.
        for line in (part for whole in lines for part in whole.rstrip(b"\r").split(b"\r")):
            text = line.decode("utf-8", "backslashreplace").replace("\N{NO-BREAK SPACE}", " ")
            if _ABOUT_RUNTIME_UPDATES in text:
                continue
            log(f"[{self.label} {self.pid}] {text}")
            if self._on_line:
                self._on_line(text)


def listening_socket(port: int, *, purpose: str) -> socket.socket:
    """A socket that listens on this port of the loopback address, 0 for any free one.

    Raises `OSError` with a message for the person who chose the port.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        message = (
            f"cannot listen on {LOOPBACK}:{port} for the {purpose}: {reason}; "
            "choose another port, or 0 for a free one"
        )
        raise OSError(error.errno, message) from error
    listener.setblocking(False)  # noqa: FBT003 - the standard library's way
    return listener


def free_port(port: int, *, purpose: str) -> int:
    """This port, or any free one for 0, checked to be free a moment ago.

    Raises `OSError` like `listening_socket`.
    """
    with contextlib.closing(listening_socket(port, purpose=purpose)) as listener:
        chosen: int = listener.getsockname()[1]
        return chosen
