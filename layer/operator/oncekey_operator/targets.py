"""Which service the commands work on: tables by name, the outputs of stacks, or `oncekey dev`."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from oncekey_operator.advice import advice_about
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.local_runtime import FOLDER, running_in

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from oncekey.store.dynamodb.store import DynamoDBStore
    from oncekey_operator.local_runtime import LocalRuntime

# The resources of a target: the functions' variables with their names, and the stacks' outputs with
# the same values. No function uses the audit table.
VARIABLES = {
    "table": "ONCEKEY_TABLE",
    "outbox_table": "ONCEKEY_OUTBOX_TABLE",
    "bucket": "ONCEKEY_RESPONSE_BUCKET",
    "queue_url": "ONCEKEY_QUEUE_URL",
    "escalation_queue_url": "ONCEKEY_ESCALATION_QUEUE_URL",
}
OUTPUTS = {
    "table": "OncekeyTable",
    "outbox_table": "OncekeyOutboxTable",
    "audit_table": "OncekeyAuditTable",
    "bucket": "OncekeyResponseBucket",
    "queue_url": "OncekeyQueueUrl",
    "escalation_queue_url": "OncekeyEscalationQueueUrl",
}
# A command waits longer than a handler, and may try again: a person is waiting, not a lease.
_CONNECT_TIMEOUT_S, _READ_TIMEOUT_S, _TRIES = 2, 5, 3


@dataclass(frozen=True, kw_only=True)
class Target:
    """One service. Nothing is sent before the first call of one of its clients."""

    table: str
    outbox_table: str = ""
    audit_table: str = ""
    bucket: str = ""
    queue_url: str = ""
    escalation_queue_url: str = ""
    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None
    local: LocalRuntime | None = None

    def client(self, service: str) -> Any:
        """A boto3 client of `service`.

        Raises:
            UsageError: the Region or the address is none.
        """
        from botocore.config import Config

        config = Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
            user_agent_extra="oncekey-operator",
        )
        try:
            return self._session.client(service, endpoint_url=self.endpoint_url, config=config)
        except ValueError as error:
            # Also of a Region or an address that the environment or the profile names.
            raise UsageError(f"correct the Region or the address: {error}") from error

    @cached_property
    def dynamodb(self) -> Any:
        """The client of the tables."""
        return self.client("dynamodb")

    @cached_property
    def store(self) -> DynamoDBStore:
        """The layer's own store on these tables."""
        from oncekey.store.dynamodb.store import DynamoDBStore
        from oncekey.store.s3 import ResponseBucket

        bucket = ResponseBucket(self.bucket, client=self.client("s3")) if self.bucket else None
        return DynamoDBStore(
            self.table, client=self.dynamodb, bucket=bucket, outbox=self.outbox_table
        )

    @cached_property
    def who(self) -> str:
        """Who acts: the ARN of the AWS credentials, or on the local runtime the login name.

        Raises:
            CommandError: AWS does not say it.
        """
        if self.local is not None:
            return _login_name()
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            arn: str = self.client("sts").get_caller_identity()["Arn"]
        except (BotoCoreError, ClientError) as error:
            advice = advice_about(error)
            raise CommandError(
                f"AWS does not say who you are: {error}{advice and f': {advice}'}",
                Exit.USAGE if advice else Exit.NO_ANSWER,
            ) from error
        return arn

    def __str__(self) -> str:
        """The place, for a person."""
        if self.local is not None:
            return f"oncekey dev at {self.local.url}"
        where = self.endpoint_url or self.region or self._session.region_name or "no Region"
        return f"table {self.table} ({where})"

    @cached_property
    def _session(self) -> Any:
        import boto3
        from botocore.exceptions import ProfileNotFound

        if self.local is not None:
            return boto3.Session("local", "local", region_name=self.local.region)
        try:
            return boto3.Session(profile_name=self.profile, region_name=self.region)
        except ProfileNotFound as error:
            raise UsageError(str(error)) from error


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container may run under a number without a name. Python 3.13 raises OSError.
        return f"user {os.getuid()}"


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which service the command works on."""
    where = parser.add_argument_group(
        "where", "one of --stack, --table and --local; without any, `oncekey dev` in this folder"
    )
    where.add_argument(
        "--stack",
        action="append",
        default=[],
        metavar="NAME",
        help="the CloudFormation stack whose outputs name the tables; may be repeated",
    )
    where.add_argument("--table", metavar="NAME", help="the table of records")
    where.add_argument("--outbox-table", metavar="NAME", help="the outbox table")
    where.add_argument("--audit-table", metavar="NAME", help="the audit table")
    where.add_argument("--bucket", metavar="NAME", help="the bucket of large answers")
    where.add_argument("--queue-url", metavar="URL", help="the queue of the worker")
    where.add_argument("--escalation-queue-url", metavar="URL", help="the escalation queue")
    where.add_argument(
        "--local",
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="`oncekey dev` in this folder; its port if several run",
    )
    where.add_argument("--profile", metavar="NAME", help="the profile of the AWS credentials")
    where.add_argument("--region", metavar="NAME", help="the AWS Region")
    where.add_argument("--endpoint-url", metavar="URL", help="the address of a compatible store")


def target_arguments(options: argparse.Namespace) -> str:
    """The options that name the service, as they were given, for a command that is to follow.

    Empty if none was given; otherwise it begins with a space.
    """
    import shlex

    words: list[str] = []
    for stack in options.stack:
        words += ["--stack", stack]
    if options.local is not None:
        words += ["--local", *([str(options.local)] if options.local else [])]
    for name in (*OUTPUTS, "profile", "region", "endpoint_url"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", value]
    return "".join(f" {shlex.quote(word)}" for word in words)


def target_of(options: argparse.Namespace) -> Target:
    """The one service that the options name.

    Raises:
        UsageError: they name none, or several, or one that cannot be.
        CommandError: the stack could not be read.
    """
    _check_names(options)
    named = [bool(options.stack), options.table is not None, options.local is not None]
    if sum(named) > 1:
        raise UsageError("--stack, --table and --local name different services: give one of them")
    if options.stack:
        return _of_stacks(options)
    if options.table is not None:
        return Target(**_given(options), **_connection(options), local=None)
    connection = {name: value for name, value in _connection(options).items() if value is not None}
    if given := [*_given(options), *connection]:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(
            f"{names}: `oncekey dev` says that itself; for another service, say --stack NAME or"
            " --table NAME"
        )
    return of_runtime(_runtime(options.local))


def _check_names(options: argparse.Namespace) -> None:
    """Return if no name is empty, and the address is one.

    A script whose variable is unset names nothing. That must not stand for what a stack says.
    """
    given = {**vars(options), "stack": "" if "" in options.stack else None}
    names = ("stack", *OUTPUTS, "profile", "region", "endpoint_url")
    empty = [f"--{name.replace('_', '-')}" for name in names if given[name] == ""]
    if empty:
        verb = "is" if len(empty) == 1 else "are"
        raise UsageError(f"{' and '.join(empty)} {verb} empty: name it, or leave it out")
    if options.endpoint_url is not None and not _is_address(options.endpoint_url):
        raise UsageError(
            f"--endpoint-url {options.endpoint_url!r} is no address: use http://HOST:PORT"
        )


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # A port that is none is told when it is asked for.
        _, host = parts.port, parts.hostname
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host) and not any(map(str.isspace, url))


def _runtime(port: int | None) -> LocalRuntime:
    found = running_in(Path.cwd())
    wanted = [each for each in found if not port or each.port == port]
    if len(wanted) == 1:
        return wanted[0]
    if wanted:
        ports = ", ".join(str(each.port) for each in wanted)
        raise UsageError(f"several `oncekey dev` run in this folder: say --local PORT ({ports})")
    if port is None:
        raise UsageError(
            "no service is named: say --stack NAME or --table NAME, or run this in the folder"
            " where `oncekey dev` runs"
        )
    at = f" on port {port}" if port else ""
    raise UsageError(f"no `oncekey dev` runs in {Path.cwd()}{at} (nothing in {FOLDER}/)")


def of_runtime(runtime: LocalRuntime) -> Target:
    """The tables of a running `oncekey dev`.

    Raises:
        UsageError: its functions have no table of records.
    """
    table = runtime.variables.get("ONCEKEY_TABLE")
    if table is None:
        raise UsageError(f"the service at {runtime.url} has no ONCEKEY_TABLE in its description")
    return Target(
        **_found(VARIABLES, runtime.variables),
        audit_table=runtime.audit_table,
        endpoint_url=runtime.store_url,
        region=runtime.region,
        local=runtime,
    )


def _of_stacks(options: argparse.Namespace) -> Target:
    from botocore.exceptions import BotoCoreError, ClientError

    connection = _connection(options)
    client = Target(table="", **connection).client("cloudformation")
    outputs: dict[str, str] = {}
    for stack in options.stack:
        try:
            (found,) = client.describe_stacks(StackName=stack)["Stacks"]
        except (BotoCoreError, ClientError) as error:
            advice = advice_about(error)
            if advice or _is_no_stack(error):
                why = f"{error}{advice and f': {advice}'}"
                raise UsageError(f"stack {stack!r} cannot be read: {why}") from error
            raise CommandError(f"CloudFormation did not answer: {error}", Exit.NO_ANSWER) from error
        theirs = {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}
        _check_same_service(options.stack, outputs, theirs)
        outputs |= theirs
    fields = _found(OUTPUTS, outputs) | _given(options)
    if "table" not in fields:
        raise UsageError(
            f"no output of {', '.join(options.stack)} is called {OUTPUTS['table']}: name"
            " the stack that has the tables, or say --table NAME"
        )
    return Target(**fields, **connection, local=None)


def _is_no_stack(error: Exception) -> bool:
    """Whether CloudFormation says that there is no such stack, or that it is no name of one."""
    response = getattr(error, "response", {})
    return bool(response.get("Error", {}).get("Code") == "ValidationError")


def _check_same_service(
    stacks: Sequence[str], known: Mapping[str, str], theirs: Mapping[str, str]
) -> None:
    """Return if the stacks do not have one output of ours with two values."""
    for name in OUTPUTS.values():
        if name in known and theirs.get(name, known[name]) != known[name]:
            raise UsageError(
                f"{' and '.join(stacks)} are of different services, which both have an output"
                f" {name}: name the stacks of one"
            )


def _found(names: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """The fields of a target whose names are among `values`."""
    return {field: values[name] for field, name in names.items() if name in values}


def _given(options: argparse.Namespace) -> dict[str, str]:
    given = {name: getattr(options, name) for name in OUTPUTS}
    return {name: value for name, value in given.items() if value is not None}


def _connection(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "region": options.region,
        "profile": options.profile,
        "endpoint_url": options.endpoint_url,
    }
