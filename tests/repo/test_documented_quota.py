"""The quota of the documentation runs, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.documents import run_example
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.events import load, with_tenant

if TYPE_CHECKING:
    import pytest


def test_the_documented_quota_limits_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The documented quota is one that a handler works under: a request and its repeat are one new
    key, in each of its two counters.
    """
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table() as client:
        namespace = run_example("layer/docs/guides/quotas.md", "POST /invoices")
        event = with_tenant(load("apigw_http_v2_post"), "acme")
        answers = [namespace["create_invoice"](event, None) for _ in range(2)]
        found = [item for item in client.scan(TableName=TABLE)["Items"] if "count" in item]

    assert [answer["statusCode"] for answer in answers] == [201, 201]
    assert [item["count"] for item in found] == [{"N": "1"}, {"N": "1"}]
