"""Which route answers a request."""

from __future__ import annotations

import pytest

from oncekey_local.description import Function, Route, Service
from oncekey_local.front.routing import Router

ROUTES = (
    "GET /payments/{payment_id}",
    "GET /payments/latest",
    "ANY /payments",
    "POST /payments",
    "GET /files/{path+}",
    "GET /files/{name}",
    "GET /a/{first}/b/{second-part}",
    "GET /",
)
ROUTER = Router(
    Service(
        name="routed",
        tables=(),
        functions=tuple(
            Function(
                name=f"function-{number}",
                handler="module.handler",
                timeout_s=3,
                routes=(Route(method=key.split()[0], path=key.split()[1]),),
            )
            for number, key in enumerate(ROUTES)
        ),
    )
)


@pytest.mark.parametrize(
    ("request_line", "route_key", "parameters"),
    [
        ("GET /payments/p_1", "GET /payments/{payment_id}", {"payment_id": "p_1"}),
        ("GET /payments/p%2F1%20x", "GET /payments/{payment_id}", {"payment_id": "p/1 x"}),
        ("GET /payments/latest", "GET /payments/latest", {}),
        ("POST /payments", "POST /payments", {}),
        ("DELETE /payments", "ANY /payments", {}),
        ("GET /files/a", "GET /files/{name}", {"name": "a"}),
        ("GET /files/a/b/c", "GET /files/{path+}", {"path": "a/b/c"}),
        ("GET /a/1/b/2", "GET /a/{first}/b/{second-part}", {"first": "1", "second-part": "2"}),
        ("GET /", "GET /", {}),
    ],
)
def test_match(request_line: str, route_key: str, parameters: dict[str, str]) -> None:
    """The most specific route that fits answers, with the path's parameters decoded."""
    match = ROUTER.match(*request_line.split())
    assert match is not None
    assert (match.route.key, dict(match.parameters)) == (route_key, parameters)
    assert match.function.name == f"function-{ROUTES.index(route_key)}"


@pytest.mark.parametrize(
    "request_line",
    ["POST /payments/p_1", "GET /payments/", "GET /paymentsX", "GET /payments/p/1", "GET /files/"],
)
def test_no_match(request_line: str) -> None:
    """A request that fits no route has none."""
    assert ROUTER.match(*request_line.split()) is None
