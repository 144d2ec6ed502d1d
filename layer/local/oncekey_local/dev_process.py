"""`oncekey dev` as a separate process, for the demo and the tests."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit

from oncekey_local.dev import READY
from oncekey_local.front import tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

# Longer than any wait that is not stuck.
_PATIENCE_S = 60
# The service ends when this process ends, even if it is killed.
_TIED = ("--exit-with-stdin",)


class DevProcess:
    """A running `oncekey dev`, which ends with the `with` block and leaves nothing behind.

    Creating one returns when the service answers. If the service ends instead, it raises
    `RuntimeError` with the service's output.
    """

    def __init__(
        self,
        *arguments: str,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        reloads: bool = False,
    ) -> None:
        if not reloads:
            arguments = ("--no-reload", *arguments)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "oncekey_local.cli", "dev", "--port", "0", *_TIED, *arguments],
            stdin=subprocess.PIPE,  # never written to: its end tells it that we are gone
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        line = self._ready_line()
        if not line.startswith(READY):
            status, said = self.stop(), self.log()
            self.close()
            raise RuntimeError(
                f"oncekey dev ended with status {status} before it was ready:\n{said}"
            )
        self.url = line.removeprefix(READY).strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self.close()

    @property
    def store_url(self) -> str:
        """The address of the local DynamoDB."""
        return str(self._server("store")["address"])

    @property
    def provider_url(self) -> str:
        """The address of the payment provider."""
        return str(self._server("provider")["address"])

    def token(self, tenant: str | None, *, subject: str = "user_1") -> str:
        """An access token that the service accepts."""
        return tokens.issue(tenant=tenant, subject=subject)

    def processes(self) -> list[dict[str, Any]]:
        """Every process that `oncekey dev` has started, and what it is doing."""
        processes: list[dict[str, Any]] = self._ask("GET", "processes")
        return processes

    def queues(self) -> dict[str, dict[str, int]]:
        """How many messages each queue has: visible, in flight, delayed, and dead letters."""
        queues: dict[str, dict[str, int]] = self._ask("GET", "queues")
        return queues

    def redrive(self, queue: str) -> int:
        """Sends the dead letters of a queue to it again, and returns how many."""
        return int(self._ask("POST", f"redrive?queue={quote(queue)}")["moved"])

    def schedules(self) -> dict[str, str]:
        """The schedule of each scheduled function, in words."""
        schedules: dict[str, str] = self._ask("GET", "schedules")
        return schedules

    def call_now(self, function: str) -> dict[str, Any]:
        """Calls a function as its schedule does. Returns the outcome of the run, and its answer.

        It waits for as long as the function runs.
        """
        run: dict[str, Any] = self._ask("POST", f"schedules/{quote(function)}")
        return run

    def pids(self, *, role: str | None = None) -> list[int]:
        """The process ids, of one role or of all."""
        return [process["pid"] for process in self.processes() if role in {None, process["role"]}]

    def busy(self, function: str) -> list[int]:
        """The ids of the processes that run a request of this function now."""
        return [
            process["pid"]
            for process in self.processes()
            if process["busy"] and process["function"] == function
        ]

    def kill_busy(self, function: str) -> int:
        """Kills one process in the middle of a request of this function; returns its id.

        Raises if none is busy.
        """
        busy = self.busy(function)
        if not busy:
            raise RuntimeError(f"no process of function {function!r} is busy")
        os.kill(busy[0], signal.SIGKILL)
        return busy[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and returns the exit status; raises `RuntimeError` if it does not end."""
        self.process.send_signal(number)
        try:
            return self.process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(
                f"oncekey dev did not end within {_PATIENCE_S} s of {number.name}"
            ) from None

    def log(self) -> str:
        """Its standard error so far."""
        # `seek` would move the offset that the process writes at: it is the same open file.
        said, descriptor = b"", self._log.fileno()
        while piece := os.pread(descriptor, 1 << 20, len(said)):
            said += piece
        return said.decode("utf-8", "replace")

    def close(self) -> None:
        """Closes the pipes and files of a process that has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self._log.close()

    def _ask(self, method: str, what: str) -> Any:
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=_PATIENCE_S
        )
        with contextlib.closing(connection):
            connection.request(method, f"/_dev/{what}")
            response = connection.getresponse()
            said = json.load(response)
        if response.status != 200:
            raise RuntimeError(f"{method} {what} was answered with {response.status}: {said}")
        return said

    def _ready_line(self) -> str:
        assert self.process.stdout is not None
        try:
            return self.process.stdout.readline()
        except BaseException:  # Ctrl-C: nobody will have this object to stop the process with
            self.stop()
            self.close()
            raise

    def _server(self, role: str) -> dict[str, Any]:
        for process in self.processes():
            if process["role"] == role:
                return process
        raise RuntimeError(f"this service runs without a {role}")
