"""The provider as a process: how it starts, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.provider import READY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.provider import Provider

# Far more than it takes; reached only when the test fails.
PATIENCE_S = 30


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The process, killed at the end if it has not ended by itself."""
    process = subprocess.Popen(
        [sys.executable, "-m", "oncekey_local.provider", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_it_says_where_it_listens_and_ends_with_its_input() -> None:
    """With --exit-with-stdin the provider lives as long as whoever holds its standard input."""
    with started("--port", "0", "--exit-with-stdin") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        line = process.stdout.readline()
        process.stdin.close()

        assert process.wait(PATIENCE_S) == 0
        assert line.startswith(f"{READY}http://127.0.0.1:")
        assert process.stdout.read() == ""


def test_it_ends_on_sigterm() -> None:
    """SIGTERM ends the provider cleanly and silently, with its input still open."""
    with started("--port", "0", "--exit-with-stdin") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == ""


def test_a_taken_port_is_an_error_that_says_so(provider: Provider) -> None:
    """A provider that cannot have its port says which, and what to do, and ends."""
    port = str(urlsplit(provider.url).port)
    with started("--port", port) as process:
        output, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 1
    assert output == ""
    assert f"cannot listen on 127.0.0.1:{port}" in errors
    assert "--port" in errors


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    """A port is a number from 0 to 65535."""
    with started(f"--port={port}") as process:
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 2
    assert "--port" in errors
