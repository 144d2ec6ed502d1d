"""The commands of the guides on pausing and on moving tables, run as they are written."""

from __future__ import annotations

import contextlib
import re
import shlex
from typing import TYPE_CHECKING

import boto3
import pytest

from oncekey.store.dynamodb.schema import IDEMPOTENCY
from oncekey.store.dynamodb.tables import create_tables
from oncekey_local import cli
from tests.support.aws_engine import mocked_aws
from tests.support.documents import text_of
from tests.support.operating import REGION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

OLD, NEW, AUDIT = "old-table", "new-table", "audit"


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[DynamoDBClient]:
    """A client of the tables that the guides name. AWS's variables say where they are."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
    }.items():
        monkeypatch.setenv(name, value)
    with mocked_aws():
        found = boto3.client("dynamodb", region_name=REGION)
        create_tables(found, OLD, outbox="outbox", audit=AUDIT)
        found.create_table(**IDEMPOTENCY.create_request(NEW))
        yield found


def commands_of(page: str) -> list[list[str]]:
    """The commands of the page's only block, as a shell reads them."""
    (block,) = re.findall(r"```console\n(.*?)```", text_of(page), re.DOTALL)
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines()]


def run(arguments: list[str], *where: str) -> int:
    """Run a command that changes something without being asked."""
    is_asked = "--reason" in arguments
    with contextlib.suppress(SystemExit):
        return cli.main([*arguments, *where, *(("--yes",) if is_asked else ())])
    return 2


def paused(client: DynamoDBClient, capsys: pytest.CaptureFixture[str], table: str) -> str:
    """What is paused in a table."""
    capsys.readouterr()
    assert cli.main(["pause", "--table", table]) == 0
    return capsys.readouterr().out


def test_the_guide_on_pausing_pauses_and_resumes(
    client: DynamoDBClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command does what its line says; afterwards the tenant and everything are paused."""
    where = ("--table", OLD, "--audit-table", AUDIT)

    assert [run(each, *where) for each in commands_of("layer/docs/guides/pausing.md")] == [0] * 5

    said = paused(client, capsys, OLD)
    assert "acme" in said
    assert "A leaked key is replaced." in said
    assert "everything" in said
    assert "POST /refunds" not in said


def test_the_guide_on_moving_moves_a_table(
    client: DynamoDBClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands end well, the new table has the items and serves, and the old one is paused."""
    counter = {"pk": {"S": "due#shards"}, "shards": {"N": "16"}}
    client.put_item(TableName=OLD, Item=counter)

    found = commands_of("layer/docs/guides/moving-tables.md")
    assert [run(each) for each in found] == [0] * len(found)

    assert counter in client.scan(TableName=NEW)["Items"]
    assert "nothing is paused" in paused(client, capsys, NEW)
    assert "everything" in paused(client, capsys, OLD)
