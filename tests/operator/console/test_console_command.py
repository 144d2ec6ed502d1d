"""`oncekey console`: what it prints, and how it ends."""

from __future__ import annotations

import functools
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from oncekey_local import cli

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLE = ("--table", "records", "--region", "eu-central-1")


def test_the_printed_address_leads_in_and_ctrl_c_ends_it() -> None:
    """The token is in the address, the console only reads, and Ctrl-C is a good end."""
    command = [sys.executable, "-m", "oncekey_local.cli", "console", "--port", "0", *TABLE]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A run of the tests in the background ignores Ctrl-C, and its processes would, too.
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 -- it takes no lock
    )
    try:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("oncekey console: ").strip()
        url, _, token = address.partition("#token=")
        request = urllib.request.Request(f"{url}api/session", headers={"X-Oncekey-Console": token})
        with urllib.request.urlopen(request, timeout=60) as answer:
            session = json.load(answer)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    assert url.startswith("http://127.0.0.1:")
    assert session["place"] == "table records (eu-central-1)"
    assert (session["changes"], session["reveals"], session["workshop"]) == (False, False, False)


@pytest.mark.parametrize("arguments", [("--port", "70000", *TABLE), ("--table", "a", "--local")])
def test_a_wrong_command_line_is_said(
    arguments: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A port that is none, and two targets, are exit status 2."""
    assert cli.main(["console", *arguments]) == 2
    assert capsys.readouterr().err.startswith("oncekey console: ")


def test_a_taken_port_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence names the port, and what to say instead."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])

        assert cli.main(["console", "--port", port, *TABLE]) == 2
    assert f"port {port}" in capsys.readouterr().err
