"""An order is placed once and shipped once, whatever happens on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oncekey.outbox import delivered
from oncekey.testing import UseStore, api_event, assert_idempotent, sqs_event
from orders import place, show, worker

ORDER = {"item": "tea", "quantity": 2}


def request(body: Any) -> dict[str, Any]:
    """`POST /orders` of one client, always with the same key."""
    return api_event(
        "POST /orders", key="a-key-of-the-client", body=body, claims={"tenant_id": "acme"}
    )


@pytest.fixture(autouse=True)
def orders_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that names the table of orders."""
    monkeypatch.setenv("ORDERS_TABLE", "orders")


@pytest.fixture
def parcels(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The parcels that a fake carrier has booked, by key: it recognises a repeated one."""
    booked: dict[str, str] = {}

    def book_parcel(item: str, *, idempotency_key: str) -> str:
        return booked.setdefault(idempotency_key, f"{item}-{len(booked)}")

    monkeypatch.setattr(worker, "book_parcel", book_parcel)
    return booked


def test_a_retry_gets_the_first_answer(use_store: UseStore) -> None:
    """Two requests with one key place one order, and get the same answer."""
    store = use_store()

    first, retry = (place.handler(request(ORDER), None) for _ in range(2))

    assert (first["statusCode"], retry["body"]) == (201, first["body"])
    assert retry["headers"]["Idempotent-Replayed"] == "true"
    assert (len(store.writes), len(store.messages)) == (1, 1)


def test_an_order_is_placed_once_whatever_happens() -> None:
    """Retries, races, other bodies, other tenants, and a kill at each call of the store."""
    assert_idempotent(place.handler, request(ORDER))


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"item": "tea"},
        {**ORDER, "quantity": 0},
        {**ORDER, "quantity": 10**39},
        '{"item": "\\ud800", "quantity": 1}',
        {**ORDER, "item": "x" * 250_000},
    ],
)
def test_a_bad_body_leaves_nothing_behind(use_store: UseStore, body: Any) -> None:
    """What is no order gets 400, and the same key works once the body is right."""
    store = use_store()

    bad = place.handler(request(body), None)
    written = len(store.records)
    good = place.handler(request(ORDER), None)

    assert (bad["statusCode"], written, good["statusCode"]) == (400, 0, 201)


class OneOrder:
    """A table with one order of the tenant acme."""

    def get_item(self, **_: Any) -> dict[str, Any]:
        """The same order, whatever is asked for."""
        return {"Item": {"pk": "1", "tenant": "acme", "status": "placed", **ORDER}}


@pytest.mark.parametrize(("tenant", "status"), [("acme", 200), ("other", 404)])
def test_an_order_is_shown_to_its_tenant_alone(
    monkeypatch: pytest.MonkeyPatch, tenant: str, status: int
) -> None:
    """To another tenant, the order looks absent."""
    monkeypatch.setattr(show, "orders", OneOrder)
    event = api_event(
        "GET /orders/{order_id}", path_parameters={"order_id": "1"}, claims={"tenant_id": tenant}
    )

    assert show.handler(event, None)["statusCode"] == status


def test_a_repeated_message_ships_once(use_store: UseStore, parcels: dict[str, str]) -> None:
    """The worker books one parcel for a message that the queue delivers twice."""
    store = use_store()
    place.handler(request(ORDER), None)
    (message,) = store.messages

    for _ in range(2):
        assert worker.handler(sqs_event([message]), None) == {"batchItemFailures": []}

    assert list(parcels.values()) == ["tea-0"]
    assert [write.kind for write in store.writes] == ["put", "update"]


def test_a_message_ships_once_whatever_happens(
    use_store: UseStore, parcels: dict[str, str]
) -> None:
    """The same for a worker that is killed at each call of the store."""
    store = use_store()
    place.handler(request(ORDER), None)
    (record,) = sqs_event(store.messages)["Records"]
    message = delivered(record["body"])

    assert_idempotent(
        worker.ship,
        message,
        effects=parcels,
        reset=parcels.clear,
        other_tenant=replace(message, tenant="other"),
    )
