"""Which service the operator's commands work on."""

from __future__ import annotations

import argparse
import getpass
import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import boto3
import pytest
from botocore.client import BaseClient
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    LoginRefreshRequired,
    LoginTokenLoadError,
    PartialCredentialsError,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from moto import mock_aws

from oncekey.store.dynamodb.schema import IDEMPOTENCY as SCHEMA
from oncekey_local import cli
from oncekey_operator.commands import run
from oncekey_operator.exits import CommandError
from oncekey_operator.local_runtime import LocalRuntime, running_in
from oncekey_operator.targets import Target, target_arguments, target_of
from tests.support.operating import REGION

ROOT = Path(__file__).resolve().parents[2]
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
        ((8080,), ("--profile", "production"), "say --stack NAME or --table NAME"),
        (
            (8080,),
            ("--local", "--bucket", "b", "--region", "r"),
            "--bucket, --region: ",
        ),
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


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("--table", ""), "--table is empty"),
        (("--stack", ""), "--stack is empty"),
        (("--stack", "pay", "--stack", ""), "--stack is empty"),
        (("--table", "t", "--bucket", "", "--queue-url", ""), "--bucket and --queue-url are empty"),
        (("--table", "t", "--region", ""), "--region is empty"),
        (("--table", "t", "--profile", ""), "--profile is empty"),
        (("--table", "t", "--region", "bad region"), "'bad region' doesn't match"),
        *(
            (("--table", "t", "--region", REGION, "--endpoint-url", url), "--endpoint-url")
            for url in ("", "foo", "http://", "http://a b/", "http://[::1", "http://[::1]:99999")
        ),
        (("--table", "t", "--endpoint-url", "ftp://127.0.0.1/"), "--endpoint-url"),
    ],
)
def test_a_place_that_cannot_be_is_a_wrong_command_line(
    wrong: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is no outage, and no traceback. A script whose variable is unset names no place.

    Red when an empty name takes the place of what a stack says.
    """
    assert cli.main([*SHOW, *wrong]) == 2
    assert sentence in capsys.readouterr().err


def test_a_table_that_has_no_name_is_a_wrong_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """boto3 sends no such call, so no store has not answered."""
    with mock_aws():
        line = ["move", "--table", "t", "--to", "", "--reason", "r", "--yes", "--region", REGION]
        boto3.client("dynamodb", region_name=REGION).create_table(**SCHEMA.create_request("t"))

        assert cli.main(line) == 2
    assert "correct the name" in capsys.readouterr().err


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


def stack(name: str, **outputs: str) -> None:
    """A deployed stack with these outputs."""
    template = {
        "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
        "Outputs": {output: {"Value": value} for output, value in outputs.items()},
    }
    client = boto3.client("cloudformation", region_name=REGION)
    client.create_stack(StackName=name, TemplateBody=json.dumps(template))


def test_the_stacks_of_two_services_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Their outputs have the same names, and nothing is done to the tables of the second one.

    Red when the table of one service is used with the outbox and the audit table of another.
    """
    with mock_aws():
        stack("pay", OncekeyTable="pay-records", OncekeyAuditTable="pay-audit")
        stack("more-of-pay", OncekeyTable="pay-records", OncekeyOutboxTable="pay-outbox")
        stack("ship", OncekeyTable="ship-records")
        where = ["list", "--region", REGION, "--stack", "pay", "--stack"]

        found = target_of(cli._parser().parse_args([*where, "more-of-pay"]))
        assert (found.table, found.audit_table, found.outbox_table) == (
            "pay-records",
            "pay-audit",
            "pay-outbox",
        )
        assert cli.main([*where, "ship"]) == 2
    assert "pay and ship are of different services" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyError("uid not found: 1234"), OSError("No username set")])
def test_who_has_no_login_name_is_audited_by_a_number(
    error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may run under a user id that has no name."""
    runtime(port=8080, pid=os.getpid()).write(folder)
    monkeypatch.setattr(getpass, "getuser", Mock(side_effect=error))

    assert target_of(cli._parser().parse_args(["list"])).who == f"user {os.getuid()}"


@pytest.mark.parametrize("command", ["plan --rps 5", "dev token --tenant acme", "openapi"])
def test_who_reads_no_further_ends_no_command_with_an_error(command: str) -> None:
    """`oncekey ... | head -1`: exit status 0 and no complaint, however little it prints."""
    read, write = os.pipe()
    os.close(read)
    program = [sys.executable, "-m", "oncekey_local.cli", *command.split()]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        program, stdout=write, stderr=subprocess.PIPE, cwd=ROOT, env=variables, check=False
    )
    os.close(write)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_without_utf_8_gets_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its encoding does not have is written as an escape, and the command goes on."""
    terminal = io.TextIOWrapper(io.BytesIO(), "latin-1")
    monkeypatch.setattr(sys, "stdout", terminal)

    assert run("show", lambda _: terminal.write("zürich → łódź") * 0, argparse.Namespace()) == 0
    assert terminal.buffer.getvalue() == r"zürich \u2192 \u0142ód\u017a".encode("latin-1")


def refused_as(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let AWS refuse each call, with this code."""

    def refuse(_: object, name: str, __: object) -> None:
        raise ClientError({"Error": {"Code": code, "Message": "as told"}}, name)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ValidationError", 2),  # there is no such stack
        ("AccessDenied", 2),
        ("ExpiredToken", 2),
        ("InvalidClientTokenId", 2),  # no such access key
        ("SignatureDoesNotMatch", 2),  # a wrong secret, or a wrong clock of this machine
        ("Throttling", 3),
        ("ServiceUnavailable", 3),
        ("InternalFailure", 3),
    ],
)
def test_a_stack_that_aws_cannot_tell_of_now_is_exit_status_3(
    monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    """A script that tries again after an outage does so also if CloudFormation is throttled.

    A stack that is not there, or may not be read, is a wrong command line.
    """
    refused_as(monkeypatch, code)

    assert cli.main(["list", "--stack", "payments", "--region", REGION]) == status


@pytest.mark.parametrize("code", ["InvalidSignatureException", "RequestExpired"])
def test_a_wrong_clock_of_this_machine_is_no_outage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    """AWS refuses what seems to be signed at another time. The person is told of the clock."""
    refused_as(monkeypatch, code)

    assert cli.main(["list", "--table", "records", "--region", REGION]) == 2
    assert "this machine's clock" in capsys.readouterr().err


@pytest.mark.parametrize(("code", "status"), [("ExpiredToken", 2), ("Throttling", 3)])
def test_credentials_that_have_expired_are_no_outage(
    monkeypatch: pytest.MonkeyPatch, code: str, status: int
) -> None:
    """Who acts is asked first. If the credentials are of no use, a later try does not help."""
    target = Target(table="records", region=REGION)
    refused_as(monkeypatch, code)

    with pytest.raises(CommandError) as error:
        _ = target.who

    assert error.value.status == status


@pytest.mark.parametrize(
    "error",
    [
        LoginRefreshRequired(),
        LoginTokenLoadError(error_msg="no token"),
        PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
        SSOTokenLoadError(error_msg="no token"),
        TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
        UnauthorizedSSOTokenError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_login_that_is_over_is_no_outage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BotoCoreError
) -> None:
    """No usable credentials are found on this machine, so AWS is asked nothing.

    Red when a script tries again and again until somebody logs in.
    """

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)

    assert cli.main(["list", "--table", "records", "--region", REGION]) == 2
    assert "log in as for the AWS CLI" in capsys.readouterr().err
