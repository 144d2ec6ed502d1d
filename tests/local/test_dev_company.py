"""`oncekey dev` and whoever started it, reads it, or lives next to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oncekey_local.dev import READY
from oncekey_local.dev_process import DevProcess
from oncekey_local.front import tokens
from tests.support.dev_service import ROOT, SAMPLE_SERVICE, is_alive, running, send, watched

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


def test_log_leaves_the_file_alone() -> None:
    """Reading the log does not move where the service writes the next line of it."""
    with running() as dev:
        echo(dev.url)
        dev.stop()
        descriptor = dev._log.fileno()
        os.lseek(descriptor, 7, os.SEEK_SET)
        log = dev.log()
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 7
    assert log.startswith("[")
    assert "POST /echo 200" in log


def test_home() -> None:
    """A function's home is a directory of the service's own, which ends with it."""
    with running() as dev:
        environment = echo(dev.url)["environment"]
        home = Path(environment["HOME"])
        assert home.is_dir()
        assert home != Path.home()
        assert Path(environment["XDG_CONFIG_HOME"]).is_relative_to(home)
        (home / "left").write_text("by a function")
    assert not home.exists()
