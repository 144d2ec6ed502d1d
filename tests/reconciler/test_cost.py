"""What a run of the reconciler costs follows what is due, never the size of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest

from oncekey import Completed
from oncekey.settings import DUE_SHARDS
from tests.support.dynamodb import TABLE, dynamodb_table, store_on
from tests.support.many_records import Reads, multiply
from tests.support.reconciled import PAID, Unrecorded, knows, reconciler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.reconciler.report import Report

SETTLED, DUE = 20_000, 50
LONG_MS = 600_000

pytestmark = pytest.mark.usefixtures("no_resolvers")


class OnTable(Unrecorded):
    """A handler and its reconciler on a table of DynamoDB."""

    def __init__(self, client: DynamoDBClient) -> None:
        store = store_on(client)
        # The store thinks of the client's own long time-outs; nothing takes time here.
        store._call_timeout_ms = 0
        super().__init__(store=store)

    def reconciles_all(self) -> Report:
        """A run after lease and grace."""
        self.clock.advance(LONG_MS)
        return reconciler(self).run(self.clock.now_ms() + 50_000)


@pytest.fixture(scope="module")
def full_table() -> Iterator[DynamoDBClient]:
    """A table with twenty thousand completed records, copies of a real one."""
    with dynamodb_table() as client:
        service = OnTable(client)
        service.sends()
        (item,) = client.scan(TableName=TABLE)["Items"]
        assert item["status"] == {"S": "COMPLETED"}
        multiply(TABLE, item["pk"]["S"], SETTLED)
        yield client


@pytest.mark.requirement("B6")
@pytest.mark.parametrize(
    ("written_with", "run_with"),
    [(1, 1), (16, 16), *(pytest.param(more, 1, marks=pytest.mark.proof) for more in (16, 20))],
    ids=str,
)
def test_a_run_reads_what_is_due_and_nothing_else(
    full_table: DynamoDBClient,
    written_with: int,
    run_with: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beside twenty thousand completed records, fifty that are due cost fifty index entries and
    fifty records; also after the number of shards was lowered, which hides none of them.

    Red when the index holds settled records, when a Scan or a filter looks for what is due, or when
    only the present shards are read.
    """
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", str(written_with))
    service = OnTable(full_table)
    knows(Completed(PAID))
    if written_with > DUE_SHARDS:
        # As in production, where it runs each minute: it has noted that number.
        service.store.most_due_shards(written_with)
    for number in range(DUE):
        service.fails(f"key-{written_with}-{run_with}-of-number-{number:04d}")
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", str(run_with))
    # Another process, whose recorder hears of nothing that came before.
    client = boto3.client("dynamodb", region_name="eu-central-1")
    reads = Reads(client)
    other = OnTable(client)
    other.clock = service.clock

    report = other.reconciles_all()

    assert (report.visited, report.settled, report.failed) == (DUE, DUE, 0)
    assert reads.scanned == DUE
    # The records, and the item that remembers the shards.
    assert reads.items == DUE + 1
    assert reads.queries == max(written_with, DUE_SHARDS)


@pytest.mark.usefixtures("full_table")
def test_a_run_with_nothing_to_do_reads_nothing() -> None:
    """Beside twenty thousand completed records, a run reads one item: that of the shards."""
    client = boto3.client("dynamodb", region_name="eu-central-1")
    reads = Reads(client)

    assert OnTable(client).reconciles_all().visited == 0
    assert (reads.scanned, reads.items) == (0, 1)
