"""Which service the operator's commands work on."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from oncekey_local import cli
from oncekey_operator.local_runtime import LocalRuntime, running_in
from oncekey_operator.targets import target_arguments

if TYPE_CHECKING:
    from pathlib import Path

SHOW = ("show", "--tenant", "acme", "--operation", "POST /x", "--key", "a-key-of-a-client")


def runtime(*, port: int, pid: int) -> LocalRuntime:
    """A local runtime whose store nobody can reach."""
    return LocalRuntime(
        port=port,
        pid=pid,
        url=f"http://127.0.0.1:{port}",
        store_url="http://127.0.0.1:1",
        region="us-east-1",
        audit_table="audit",
        reconciler_every_s=60,
        variables={"ONCEKEY_TABLE": "records"},
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_runtime_is_found_by_its_file_while_its_process_lives(folder: Path) -> None:
    """The file of a killed runtime does not count."""
    running = runtime(port=8080, pid=os.getpid())
    running.write(folder)
    runtime(port=8081, pid=2**22 + 1).write(folder)  # above the largest process id of Linux

    assert running_in(folder) == [running]


@pytest.mark.parametrize(
    ("ports", "arguments", "sentence"),
    [
        ((), (), "no service is named: say --stack NAME or --table NAME"),
        ((), ("--local",), "no `oncekey dev` runs in"),
        ((8080, 8081), (), "several `oncekey dev` run in this folder: say --local PORT"),
        ((8080,), ("--local", "9"), "on port 9"),
        ((8080,), ("--local", "--table", "t"), "name different services"),
    ],
)
def test_exactly_one_service_must_be_named(
    ports: tuple[int, ...],
    arguments: tuple[str, ...],
    sentence: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With none or several, the command ends with status 2 and says what to do."""
    for port in ports:
        runtime(port=port, pid=os.getpid()).write(folder)

    assert cli.main([*SHOW, *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_store_that_does_not_answer_is_exit_status_3(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script can tell an outage from a record that is not there."""
    runtime(port=8080, pid=os.getpid()).write(folder)

    assert cli.main(SHOW) == 3
    assert "the store did not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "where",
    [
        "",
        " --local 8081",
        " --local",
        " --stack 'pay ments' --stack two --profile ops --region eu-west-1",
        " --table t --outbox-table o --audit-table a --endpoint-url http://127.0.0.1:1",
    ],
)
def test_a_command_that_is_shown_works_on_the_same_service(where: str) -> None:
    """It has the options that name the service, as a shell reads them."""
    options = cli._parser().parse_args(["list", *shlex.split(where)])

    assert target_arguments(options) == where
