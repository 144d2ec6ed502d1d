"""`oncekey dev` and whoever started it, reads it, or lives next to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oncekey_local.dev import READY
from oncekey_local.dev_process import DevProcess
from oncekey_local.front import tokens
from tests.support.dev_service import ROOT, SAMPLE_SERVICE, is_alive, running, send, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.proof

COMMAND = [sys.executable, "-m", "oncekey_local.cli", "dev", "--port", "0"]

STARTER = """
import sys
from oncekey_local.dev_process import DevProcess
dev = DevProcess("--service", sys.argv[1])
print(dev.process.pid, *dev.pids(), flush=True)
sys.stdin.read()
"""


def echo(url: str) -> Any:
    """A request to the sample service, which must be answered well."""
    answer = send(url, "POST", "/echo", token=tokens.issue(tenant="acme"), body=b"{}")
    assert answer.status == 200
    return answer.json()


def test_readers_gone() -> None:
    """Requests are answered as ever when nobody reads the output, and the service ends well.

    Without a standard input it runs as well: it is not tied to it unless told to.
    """
    with subprocess.Popen(
        [*COMMAND, "--service", SAMPLE_SERVICE],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as dev:
        assert dev.stdout is not None
        assert dev.stderr is not None
        line = dev.stdout.readline()
        assert line.startswith(READY)
        dev.stdout.close()
        dev.stderr.close()
        try:
            for _ in range(3):
                echo(line.removeprefix(READY).strip())
        finally:
            dev.terminate()
        assert dev.wait(timeout=60) == 0


def test_starter_killed() -> None:
    """When the process that started the service is killed, the service ends, with all it began."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, SAMPLE_SERVICE],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        assert len(pids) > 1
        try:
            with watched(pids) as wait:
                starter.kill()
                wait()
        finally:
            if is_alive(pids[0]):
                os.kill(pids[0], signal.SIGTERM)


def test_interrupted_while_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a service is awaited leaves no process behind."""
    started: list[subprocess.Popen[str]] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            assert self.stdout is not None
            monkeypatch.setattr(self.stdout, "readline", self.interrupt, raising=False)

        def interrupt(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        DevProcess("--service", SAMPLE_SERVICE, cwd=str(ROOT))
    [process] = started
    try:
        assert process.returncode is not None
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Used:
    """A service that has answered a request and has ended; and the home of its function."""

    dev: DevProcess
    environment: dict[str, str]
    had_home: bool


@pytest.fixture(scope="module")
def used() -> Iterator[Used]:
    """The sample service, which has left a file in its home."""
    with running() as dev:
        environment = echo(dev.url)["environment"]
        home = Path(environment["HOME"])
        had_home = home.is_dir()
        (home / "left").write_text("by a function")
        dev.stop()
        yield Used(dev, environment, had_home)


def test_log_leaves_the_file_alone(used: Used) -> None:
    """Reading the log does not move where the service writes the next line of it."""
    descriptor = used.dev._log.fileno()
    os.lseek(descriptor, 7, os.SEEK_SET)
    log = used.dev.log()
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 7
    assert log.startswith("[")
    assert "POST /echo 200" in log


def test_home(used: Used) -> None:
    """A function's home is a directory of the service's own, which ends with it."""
    home = Path(used.environment["HOME"])
    assert used.had_home
    assert home != Path.home()
    assert Path(used.environment["XDG_CONFIG_HOME"]).is_relative_to(home)
    assert not home.exists()
