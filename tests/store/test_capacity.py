"""The page on cost and capacity: its figures are from the simulation, and its example runs."""

from __future__ import annotations

from typing import Any

import pytest

from infra.service_resources import IDEMPOTENCY
from oncekey.record.identity import Identity
from oncekey_local.store.tables import create_table_request
from tests.support import capacity
from tests.support.documents import run_example, text_of
from tests.support.dynamodb import dynamodb_table
from tests.support.events import load, with_tenant
from tests.support.protected import is_replay

POST = load("apigw_http_v2_post")


def test_the_pages_figures_are_those_of_the_simulation() -> None:
    """The tables are drawn by `python -m tests.support.capacity`.

    Red when a price, a limit, the hash or the number of writes changes and the page does not.
    """
    page = text_of(capacity.PAGE)

    assert capacity.page_with(page) == page


def test_the_shards_that_the_page_advises_are_half_full() -> None:
    """A shard for each 250 first requests a second of the peak leaves half of each shard free."""
    advised = capacity.PEAK // 250
    counts = [0] * advised
    for number in range(capacity.PEAK):
        identity = Identity(tenant="acme", operation="POST /payments", key=f"key-{number}")
        counts[int(identity.due_shard(advised))] += capacity.INDEX_WRITES

    assert sum(counts) / advised == pytest.approx(capacity.PARTITION_WRITES / 2, rel=0.01)
    assert max(counts) < 0.7 * capacity.PARTITION_WRITES


def test_the_documented_split_keeps_a_tenant_in_its_table() -> None:
    """Each tenant has one table of the four, where its retry finds the answer; and a request
    without a tenant is refused.
    """
    tenants = [f"tenant-{number}" for number in range(6)]
    with dynamodb_table() as client:
        for number in range(4):
            client.create_table(**create_table_request(f"payments-{number}", IDEMPOTENCY))
        handler = run_example("layer/docs/reference/cost.md", "crc32")["handler"]

        first = [handler(with_tenant(POST, tenant), None) for tenant in tenants]
        again = [handler(with_tenant(POST, tenant), None) for tenant in tenants]
        assert handler(with_tenant(POST, None), None)["statusCode"] == 403
        cells: Any = [client.scan(TableName=f"payments-{number}")["Items"] for number in range(4)]

    assert [is_replay(answer) for answer in first + again] == [False] * 6 + [True] * 6
    found = {item["tenant"]["S"]: cell for cell, items in enumerate(cells) for item in items}
    expected = capacity.cells(tenants, 4)
    assert len(set(expected)) > 1
    assert found == dict(zip(tenants, expected, strict=True))
