"""The quota of the README runs, word for word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.events import load, with_tenant

if TYPE_CHECKING:
    import pytest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def test_the_readmes_quota_limits_a_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quota of the README is one that a handler works under: a request and its repeat are one
    new key, in each of its two counters.
    """
    section = README[README.index("## Quotas") :]
    (block,) = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[:1]
    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    with dynamodb_table() as client:
        namespace: dict[str, Any] = {}
        exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102
        event = with_tenant(load("apigw_http_v2_post"), "acme")
        answers = [namespace["create_invoice"](event, None) for _ in range(2)]
        found = [item for item in client.scan(TableName=TABLE)["Items"] if "count" in item]

    assert [answer["statusCode"] for answer in answers] == [201, 201]
    assert [item["count"] for item in found] == [{"N": "1"}, {"N": "1"}]
