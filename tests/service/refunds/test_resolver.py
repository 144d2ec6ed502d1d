"""How far the search for a refund goes that the provider may have made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import stripe

from functions.refunds import logic
from functions.refunds.resolver import what_became_of
from functions.shared import provider as provider_of_functions
from oncekey import Completed, NotExecuted, Question
from oncekey.clock import SystemClock
from tests.support.provider import sdk
from tests.support.reference_tables import PAYMENT_ID

if TYPE_CHECKING:
    from tests.support.provider import Provider
    from tests.support.reference_tables import Tables

OPERATION_ID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
STARTED_MS = 1_796_083_200_000
LEASE_UNTIL_MS = STARTED_MS + 27_000


def question(**changes: Any) -> Question:
    """What became of the operation of these tests?"""
    asked: dict[str, Any] = {
        "operation": "POST /refunds",
        "operation_id": OPERATION_ID,
        "step": "",
        "downstream_key": "",
        "tenant": "tenant-1",
        "principal": "",
        "key": "key",
        "attempt": 1,
        "started_at_ms": STARTED_MS,
        "lease_until_ms": LEASE_UNTIL_MS,
    }
    return Question(**{**asked, **changes})


class Busy(stripe.RequestsClient):
    """A provider whose account gives back without end; `asked` are the queries."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, str]] = []

    def request_with_retries(self, method: str, url: str, *_args: Any, **_kwargs: Any) -> Any:
        """A full page of somebody else's refunds."""
        assert method == "get"
        query = dict(parse_qsl(urlsplit(url).query))
        self.asked.append(query)
        made = [
            {"id": f"re_{len(self.asked)}_{each}", "object": "refund", "metadata": {}}
            for each in range(int(query["limit"]))
        ]
        page = {"object": "list", "url": "/v1/refunds", "data": made, "has_more": True}
        return json.dumps(page), 200, {}


@pytest.mark.fault("K13.4")
@pytest.mark.parametrize("lease_until_ms", [LEASE_UNTIL_MS, None])
def test_the_search_of_a_refund_ends(
    monkeypatch: pytest.MonkeyPatch, lease_until_ms: int | None
) -> None:
    """The provider is asked for what it made from the operation's beginning until a while after
    the last lease, and for a bounded number of pages; beyond them the refund stays unknown.

    Red when the list has no end in time, or is read for as long as it goes on.
    """
    busy = Busy()
    client = stripe.StripeClient("sk_test_none", http_client=busy)
    monkeypatch.setattr(provider_of_functions, "client", lambda: client)
    now_ms = LEASE_UNTIL_MS + 3_600_000
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: now_ms)

    with pytest.raises(logic.TooManyRefunds):
        what_became_of(question(lease_until_ms=lease_until_ms))

    bounds = {(one["created[gte]"], one["created[lte]"]) for one in busy.asked}
    last_s = (now_ms if lease_until_ms is None else lease_until_ms) // 1000 + 420
    assert bounds == {(str(STARTED_MS // 1000 - 300), str(last_s))}
    assert len(busy.asked) == logic.REFUNDS_MAX / 100 + 1


@pytest.mark.fault("K13.4")
def test_a_refund_within_the_bounds_is_found(
    provider: Provider, tables: Tables, intent_id: str
) -> None:
    """What arrived when the lease was over is found; of another time there is nothing.

    Red when the bounds leave out a call that was under way.
    """
    metadata = {
        "operation_id": OPERATION_ID,
        "payment_id": PAYMENT_ID,
        "refund_id": "ref_1",
        "tenant": "tenant-1",
    }
    with sdk(provider.url) as client:
        made = client.v1.refunds.create(
            {"payment_intent": intent_id, "amount": 300, "metadata": metadata}
        )
    made_ms = made.created * 1000

    found = what_became_of(question(started_at_ms=made_ms - 30_000, lease_until_ms=made_ms - 1))
    earlier = question(started_at_ms=made_ms - 9_000_000, lease_until_ms=made_ms - 8_000_000)

    assert isinstance(found, Completed)
    assert isinstance(what_became_of(earlier), NotExecuted)
    assert [row["refund_id"] for row in tables.rows("refunds")] == ["ref_1"]
