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
_STANDARD_OUTPUT = 1
# As Lambda, which cuts a longer line: output without the end of a line must not fill the memory.
_LONGEST_LINE_BYTES = 256 * 1024


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

    def __init__(self, transport: asyncio.SubprocessTransport, life: _Life) -> None:
        self.pid = transport.get_pid()
        self._transport = transport
        self._life = life

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
        transport, life = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Life(label, on_line),
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
        return cls(transport, life)

    async def wait(self) -> int:
        """Returns the status, negative for a signal, when process and output have ended."""
        await self._life.ended.wait()
        # A descendant that left the process group may hold the pipe open for ever: do not wait for
        # that.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._life.silent.wait()
        self._transport.close()
        status = self._transport.get_returncode()
        assert status is not None
        return status

    def kill(self) -> None:
        """Sends SIGKILL to the process and its children. It has ended when `wait` returns."""
        if self._transport.get_returncode() is None:
            _kill_group(self.pid)


class _Life(asyncio.SubprocessProtocol):
    """What happens to a process. Its end is seen whoever else holds its output.

    `ended`: the process is gone. `silent`: nobody can write to its output any more.
    """

    def __init__(self, label: str, on_line: Callable[[str], None] | None) -> None:
        self.ended = asyncio.Event()
        self.silent = asyncio.Event()
        self._label = label
        self._on_line = on_line
        self._pid = 0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._pid = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - there is one
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) >= _LONGEST_LINE_BYTES:
            lines, self._rest = [*lines, self._rest], b""
        self._forward(lines)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd != _STANDARD_OUTPUT:
            return
        if self._rest:
            self._forward([self._rest])
            self._rest = b""
        self.silent.set()

    def process_exited(self) -> None:
        # As in Lambda, whatever it has started ends with it.
        _kill_group(self._pid)
        self.ended.set()

    def _forward(self, lines: list[bytes]) -> None:
        # Lambda's runtime client writes one log entry a line, with carriage returns and hard spaces
        # inside.
        for line in (part for whole in lines for part in whole.rstrip(b"\r").split(b"\r")):
            text = line.decode("utf-8", "backslashreplace").replace("\N{NO-BREAK SPACE}", " ")
            if _ABOUT_RUNTIME_UPDATES in text:
                continue
            log(f"[{self._label} {self._pid}] {text}")
            if self._on_line:
                self._on_line(text)


def _kill_group(pid: int) -> None:
    # macOS refuses it for a group of which only ended processes are left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


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
