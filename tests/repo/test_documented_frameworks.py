"""The examples of the documentation that use other frameworks run, word for word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.asgi_apps import event_loop
from tests.support.documents import run_example
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.events import load, with_body, with_key, with_route, with_tenant
from tests.support.protected import headers_of

if TYPE_CHECKING:
    import pytest


def test_the_documented_fastapi_app_refunds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The FastAPI app of the documentation, word for word: two requests, one refund; a body that is
    no refund is refused and leaves nothing; the route that is left out needs no key.
    """
    refunds: list[tuple[str, int, str]] = []

    def send_refund(order_id: str, amount: int, key: str) -> str:
        refunds.append((order_id, amount, key))
        return "re_1"

    monkeypatch.setenv("ONCEKEY_TABLE", TABLE)
    signed = with_tenant(load("apigw_http_v2_post"), "acme")
    event = with_route(with_body(signed, '{"amount": 5}'), "POST", "/orders/7/refunds")
    with dynamodb_table() as client, event_loop():
        namespace = run_example(
            "layer/docs/guides/fastapi.md", "IdempotencyMiddleware", send_refund=send_refund
        )
        handler = namespace["lambda_handler"]
        refused = handler(with_body(event, '{"amount": "all"}'), None)
        written = client.scan(TableName=TABLE)["Count"]
        first, replay = (handler(event, None) for _ in range(2))
        login = handler(with_key(with_route(signed, "POST", "/login")), None)

    assert (refused["statusCode"], written) == (400, 0)
    assert (first["statusCode"], json.loads(first["body"])) == (201, {"refund_id": "re_1"})
    assert replay["body"] == first["body"]
    assert headers_of(replay)["idempotent-replayed"] == "true"
    assert [(order, amount) for order, amount, _ in refunds] == [("7", 5)]
    assert login["statusCode"] == 200
