"""An order is placed once and shipped once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey.outbox import Delivered
from oncekey.testing import MemoryStore, use_store
from orders import place, worker

ORDER = {"item": "tea", "quantity": 2}


def request(body: object = ORDER, *, key: str = "a-key-of-the-client", tenant: str = "acme") -> Any:
    """`POST /orders`, as an HTTP API hands it over."""
    return {
        "version": "2.0",
        "rawPath": "/orders",
        "headers": {"idempotency-key": key},
        "requestContext": {
            "http": {"method": "POST"},
            "authorizer": {"jwt": {"claims": {"tenant_id": tenant}}},
        },
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


@pytest.fixture(autouse=True)
def orders_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that names the table of orders."""
    monkeypatch.setenv("ORDERS_TABLE", "orders")


def test_a_retry_gets_the_first_answer() -> None:
    """Two requests with one key place one order, and get the same answer."""
    with use_store(MemoryStore()) as store:
        first, second = place.handler(request(), None), place.handler(request(), None)

    assert (first["statusCode"], second["body"]) == (201, first["body"])
    assert second["headers"]["Idempotent-Replayed"] == "true"
    assert (len(store.writes), len(store.messages)) == (1, 1)


def test_another_order_under_the_same_key_is_refused() -> None:
    """A key belongs to one order: another body gets 422, and nothing is written."""
    with use_store(MemoryStore()) as store:
        place.handler(request(), None)
        other = place.handler(request({**ORDER, "quantity": 3}), None)

    assert other["statusCode"] == 422
    assert len(store.writes) == 1


def test_a_key_belongs_to_one_tenant() -> None:
    """Two tenants may use the same key; each places an order of its own."""
    with use_store(MemoryStore()) as store:
        answers = [place.handler(request(tenant=tenant), None) for tenant in ("acme", "other")]

    assert answers[0]["body"] != answers[1]["body"]
    assert len(store.writes) == 2


@pytest.mark.parametrize("body", [None, [], {}, {"item": "tea"}, {"item": "tea", "quantity": 0}])
def test_a_bad_body_leaves_nothing_behind(body: object) -> None:
    """What is no order gets 400, and the same key works once the body is right."""
    with use_store(MemoryStore()) as store:
        bad = place.handler(request(body), None)
        written = len(store.records)
        good = place.handler(request(), None)

    assert (bad["statusCode"], written, good["statusCode"]) == (400, 0, 201)


def test_a_repeated_message_ships_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker books one parcel for a message that is delivered twice."""
    keys: list[str] = []

    def book_parcel(item: str, *, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return "parcel-1"

    monkeypatch.setattr(worker, "book_parcel", book_parcel)
    with use_store(MemoryStore()) as store:
        place.handler(request(), None)
        (message,) = store.messages
        members = ("id", "topic", "operation_id", "operation", "tenant", "created_at_ms")
        delivered = Delivered(
            payload=json.loads(message.payload),
            **{name: getattr(message, name) for name in members},
        )
        for _ in range(2):
            worker.topics.handle(delivered, None)

    assert len(keys) == 1
    assert [write.kind for write in store.writes] == ["put", "update"]
