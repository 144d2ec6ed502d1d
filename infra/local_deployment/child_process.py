"""A child process that reports when it is ready, and ends with its own children when we end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotReady
from pathlib import Path
from typing import TYPE_CHECKING, Self

from oncekey_local import child

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Far beyond the few seconds that it takes.
_PATIENCE_S = 120


class ChildProcess:
    """`python -m module`, from its start to the end of the `with` block.

    Creating one returns when a line of its output holds `ready`, and raises `RuntimeError`, with
    what it said, if it ends or takes too long instead. It is killed with its process group, and
    dies with this process however that ends.

    Attributes:
        line: The line that said that it is ready.
    """

    def __init__(
        self,
        python: str,
        module: str,
        *arguments: str,
        ready: str,
        environment: Mapping[str, str],
        folder: Path,
    ) -> None:
        self._said: list[str] = []
        self._module = module
        # By its path: the interpreter may be one that does not have our package. -P: what stands
        # beside that file is not to be found by the module.
        command = [python, "-P", str(Path(child.__file__)), str(os.getpid()), module, *arguments]
        self._process = _start(command, environment, folder)
        self._ready: Future[str] = Future()
        self._reader = threading.Thread(target=self._read, args=(ready,), daemon=True)
        self._reader.start()
        try:
            self.line = self._ready.result(_PATIENCE_S)
        except (EOFError, NotReady):
            self.stop()
            raise RuntimeError(f"{module} does not start; it said:\n{self.said()}") from None
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def said(self) -> str:
        """Its output so far, standard error included."""
        return "".join(self._said)

    def stop(self) -> None:
        """Kill it and what it has started; returns when it is gone."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=1)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self, ready: str) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.append(line)
            if ready in line and not self._ready.done():
                self._ready.set_result(line.strip())
        if not self._ready.done():
            self._ready.set_exception(EOFError())


def _start(
    command: Sequence[str], environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # never written to: its end tells the child that we are gone
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
        text=True,
        errors="replace",
        start_new_session=True,
    )
