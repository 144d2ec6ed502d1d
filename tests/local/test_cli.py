"""The `oncekey` command line."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from oncekey_local import cli, tokens
from tests.support.dev_service import ROOT, SAMPLE_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator


def oncekey(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a process of its own."""
    command = [sys.executable, "-m", "oncekey_local.cli", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_token(capsys: pytest.CaptureFixture[str]) -> None:
    """`oncekey dev token` prints one token for the tenant, and nothing else."""
    status = cli.main(["dev", "token", "--tenant", "acme", "--subject", "s", "--expires-in-s", "9"])
    claims = tokens.verify(capsys.readouterr().out.strip())
    assert status == 0
    assert (claims["tenant_id"], claims["sub"]) == ("acme", "s")
    assert int(claims["exp"]) - int(claims["iat"]) == 9


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "COMMAND"),
        (["dev", "token"], "--tenant"),
        (["dev", "--port", "70000"], "'70000' is no port"),
        (["dev", "--sandboxes", "0"], "'0' is no number of processes"),
        (["dev", "--timeout-s", "never"], "'never' is no timeout"),
        (["dev", "--timeout-s", "nan"], "'nan' is no timeout"),
        (["dev", "--env", "NAME"], "'NAME' must look like NAME=VALUE"),
        (["dev", "--env", "1X=2"], "must look like NAME=VALUE"),
    ],
)
def test_usage_error(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command line that makes no sense ends with status 2 and a sentence that says what does."""
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    assert exit_.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("nonsense", "must look like infra.service:SERVICE"),
        ("no.such.module:SERVICE", "No module named"),
        ("tests.support.sample_service:MISSING", "names nothing"),
        ("tests.support.sample_service:_HERE", "names a str"),
        ("tests.support.broken_function:SERVICE", "fails on import"),
    ],
)
def test_bad_service(reference: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A description that cannot be loaded ends with status 2 and says why."""
    assert cli.main(["dev", "--service", reference]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--port", "--store-port", "--provider-port"])
def test_taken_port(option: str, taken_port: int) -> None:
    """A port that is taken is a clear error before any process is started."""
    others = [] if option == "--port" else ["--port", "0"]
    ended = oncekey("dev", "--service", SAMPLE_SERVICE, option, str(taken_port), *others)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"oncekey dev: cannot listen on 127.0.0.1:{taken_port} for the")
    assert len(ended.stderr.splitlines()) == 1
