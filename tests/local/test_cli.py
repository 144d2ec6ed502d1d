"""The `oncekey` command line."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from oncekey_local import cli
from oncekey_local.front import tokens
from tests.support.dev_service import ROOT, SAMPLE_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def oncekey(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command as a process of its own."""
    command = [sys.executable, "-m", "oncekey_local.cli", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


WITHOUT_EXTRA = """
import sys
hidden, *arguments = sys.argv[1:]
sys.modules.update(dict.fromkeys(hidden.split(',')))  # as if they were not installed
from oncekey_local import cli
sys.exit(cli.main(arguments))
"""
# What boto3 alone does not bring.
EXTRA = "aiohttp,awslambdaric,flask,jwt,moto"
TOKEN = ("dev", "token", "--tenant", "acme")


def oncekey_without(hidden: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command where these modules are not installed."""
    command = [sys.executable, "-c", WITHOUT_EXTRA, hidden, *arguments]
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
        ([*TOKEN, "--expires-in-s", "99999999999999999999"], "is no lifetime: use whole seconds"),
        ([*TOKEN, "--expires-in-s", "-99999999999999"], "is no lifetime"),
        ([*TOKEN, "--expires-in-s", "253402300800"], "is no lifetime"),
        ([*TOKEN, "--expires-in-s", "soon"], "'soon' is no lifetime"),
        (["dev", "--port", "70000"], "'70000' is no port"),
        (["dev", "--sandboxes", "0"], "'0' is no number of processes"),
        (["dev", "--timeout-s", "never"], "'never' is no timeout"),
        (["dev", "--timeout-s", "nan"], "'nan' is no timeout"),
        (["dev", "--retry-s", "0"], "'0' is no interval"),
        (["dev", "--retry-s", "soon"], "'soon' is no interval"),
        (["dev", "--schedule-s", "0"], "at most 300; or off"),
        (["dev", "--window-s", "-1"], "'-1' is no window"),
        (["dev", "--window-s", "inf"], "'inf' is no window"),
        (["dev", "--visibility-timeout-s", "0"], "'0' is no visibility timeout"),
        (["dev", "--visibility-timeout-s", "1.5"], "'1.5' is no visibility timeout"),
        (["dev", "--visibility-timeout-s", "43201"], "'43201' is no visibility timeout"),
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
        ("nonsense", "must look like MODULE:NAME, such as service:SERVICE"),
        ("no.such.module:SERVICE", "run from the root of the project, or correct the name"),
        ("tests.support.sample_service:MISSING", "names nothing"),
        ("tests.support.sample_service:MISSING", "use tests.support.sample_service:SERVICE or"),
        (
            "tests.support.misdescribed:SERVICE",
            "'tests.support.nowhere.handler', and there",
        ),
        (
            "tests.support.needy_service:SERVICE",
            "needs another one: No module named",
        ),
        (
            "tests.support.self_contradictory:SERVICE",
            "oncekey dev: the description of service 'contradictory' is wrong: function 'lost'",
        ),
        ("tests.support.sample_service:_HERE", "names a str"),
        ("tests.support.broken_function:SERVICE", "fails on import"),
    ],
)
def test_bad_service(reference: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A description that cannot be loaded ends with status 2 and says why."""
    assert cli.main(["dev", "--service", reference]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "no pyproject.toml in"),
        ('[tool]\noncekey = "service:SERVICE"\n', "pyproject.toml names no service: say"),
        ("[project]\n", "pyproject.toml names no service: say --service MODULE:NAME, or add"),
        ("[tool.oncekey", "pyproject.toml cannot be read"),
    ],
)
def test_no_service_is_named(
    text: str | None,
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without --service, pyproject.toml names the description; else the error says how to."""
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert cli.main(["dev"]) == 2
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


@pytest.mark.parametrize(
    "arguments", [["dev", "--port", "0"], ["demo"], ["dev", "token", "--tenant", "acme"]]
)
def test_base_installation(arguments: list[str]) -> None:
    """Every command says which extra it needs where only the base is installed, with status 2."""
    ended = oncekey_without(EXTRA, *arguments)
    assert ended.returncode == 2
    assert ended.stdout == ""
    what = ", ".join(EXTRA.split(","))
    assert ended.stderr == f"oncekey: this command needs {what}: install oncekey[local]\n"


@pytest.mark.parametrize("hidden", EXTRA.split(","))
def test_one_dependency_is_missing(hidden: str) -> None:
    """A dependency that only a child process would load is missed before anything is started."""
    ended = oncekey_without(hidden, "dev", "--port", "0", "--service", SAMPLE_SERVICE)
    assert ended.returncode == 2
    assert ended.stderr == f"oncekey: this command needs {hidden}: install oncekey[local]\n"


@pytest.mark.parametrize("command", ["dev", "demo"])
def test_help_needs_no_extra(command: str) -> None:
    """`--help` answers on a base installation too."""
    ended = oncekey_without(EXTRA, command, "--help")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"usage: oncekey {command} ")


def test_demo_takes_no_other_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    """`oncekey demo` refuses what it does not know, before it plays anything."""
    with pytest.raises(SystemExit) as exit_:
        cli.main(["demo", "--unknown"])
    assert exit_.value.code == 2
    assert "--unknown" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_store_refuses_a_port_that_is_none(port: str) -> None:
    """The store's port is checked as that of `oncekey dev` is."""
    ended = subprocess.run(
        [sys.executable, "-m", "oncekey_local.store.store", f"--port={port}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert f"'{port}' is no port: use 0 to 65535" in ended.stderr
