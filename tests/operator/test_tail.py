"""`oncekey tail`: what it sees of a table that changes."""

from __future__ import annotations

import sys
from functools import partial
from io import BufferedWriter, BytesIO, TextIOWrapper
from typing import TYPE_CHECKING, cast

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from oncekey.value import replace
from oncekey_operator.commands.tail import _show
from oncekey_operator.records.tailing import Change, Tail, all_records, open_records
from tests.support.dynamodb import TABLE, dynamodb_table, items, store_on
from tests.support.operating import operating
from tests.support.protected import Protected, fails, while_running
from tests.support.steps import POST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import RawIOBase

    from mypy_boto3_dynamodb import DynamoDBClient


@pytest.fixture
def table() -> Iterator[DynamoDBClient]:
    """An empty table."""
    with dynamodb_table() as client:
        yield client


def seen(tail: Tail) -> list[tuple[Status | None, Status]]:
    """The states before and after, of each change."""
    return [
        (change.before.status if change.before else None, change.after.status)
        for change in tail.look()
    ]


def test_a_table_that_is_read_whole_shows_each_record_once_for_each_state(
    table: DynamoDBClient,
) -> None:
    """What was there before the first look is no change, and what stays as it is shows no more."""
    service = Protected(store=store_on(table))
    tail = Tail(partial(all_records, table, TABLE), service.store.read)
    assert seen(tail) == []
    service.then = fails(NotExecuted())
    service.send(POST)

    assert seen(tail) == [(None, Status.FAILED_RETRYABLE)]
    assert seen(tail) == []
    service.then = None
    service.send(POST)
    assert seen(tail) == [(Status.FAILED_RETRYABLE, Status.COMPLETED)]
    assert seen(tail) == []


def test_the_index_shows_what_is_open_and_how_it_ends(table: DynamoDBClient) -> None:
    """Without reading the whole table, and without a write: an operator may have no right to one.

    Red when the end of a record that leaves the index is not told, or told twice.
    """
    service = Protected(store=store_on(table))
    tail = Tail(partial(open_records, service.store, 100), service.store.read)
    assert seen(tail) == []

    assert while_running(service, POST, lambda: seen(tail)) == [(None, Status.IN_PROGRESS)]

    assert seen(tail) == [(Status.IN_PROGRESS, Status.COMPLETED)]
    assert seen(tail) == []
    assert len(items(table)) == 1


def test_a_change_is_one_line_without_key_or_answer(
    table: DynamoDBClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line has the operation, its id, the attempt and the states."""
    service = Protected(store=store_on(table))
    service.send(POST)
    (record,) = all_records(table, TABLE)

    _show(Change(None, record), as_json=False)

    (line,) = capsys.readouterr().out.splitlines()
    assert f"POST /payments  single-tenant  {record.operation_id}  attempt 1  COMPLETED" in line
    assert record.key not in line


@pytest.mark.parametrize("as_json", [True, False])
def test_a_program_that_reads_the_changes_gets_each_at_once(
    table: DynamoDBClient, monkeypatch: pytest.MonkeyPatch, *, as_json: bool
) -> None:
    """A change is sent when it is seen, also into a pipe (`oncekey tail --json | jq .status`).

    Red when changes wait in a buffer until there are many of them.
    """
    service = Protected(store=store_on(table))
    service.send(POST)
    (record,) = all_records(table, TABLE)
    pipe = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BufferedWriter(cast("RawIOBase", pipe))))

    _show(Change(None, record), as_json=as_json)

    assert record.operation_id in pipe.getvalue().decode()


def test_a_change_cannot_write_to_the_terminal(
    table: DynamoDBClient, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names and reasons come from code and from other programs, and are shown as text only."""
    service = Protected(store=store_on(table))
    service.send(POST)
    (record,) = all_records(table, TABLE)

    _show(
        Change(None, replace(record, operation="x\x1b]0;title\x07", last_error="y\x1b[2K\u202e")),
        as_json=False,
    )

    (line,) = capsys.readouterr().out.splitlines()
    assert "x�]0;title�" in line
    assert "(y�[2K�)" in line


def test_the_command_says_what_it_cannot_see(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, so that a program reads nothing but changes."""
    with operating(capsys) as service:
        assert service.run("tail", "--looks", "1", "--json") == 0

    assert service.out == ""
    assert "what happens between two looks is not seen" in service.err
    assert "only those that run at a look are seen" in service.err
