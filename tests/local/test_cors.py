"""The front answers browsers as the deployed HTTP API does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer as Server

from oncekey_local.description import Cors, Function, Route, Service
from oncekey_local.front.front import Front
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOP = "https://shop.example"
NO_CONTROL: Any = None
ANSWER = b'{"statusCode": 200, "headers": {"Access-Control-Allow-Origin": "https://wrong.example"}}'


def described(*routes: Route, cors: Cors | None) -> Service:
    """A service of one function."""
    function = Function(name="f", handler="m.f", timeout_s=1, routes=routes)
    return Service(name="pages", functions=(function,), tables=(), cors=cors)


ROUTES = (
    Route(method="POST", path="/payments"),
    Route(method="POST", path="/open", authorized=False),
)


def answers(
    cors: Cors | None, *requests: tuple[str, str, Mapping[str, str]]
) -> list[tuple[int, Mapping[str, str]]]:
    """Status and headers of the answers to requests: method, path and headers."""

    async def invoke(event: bytes) -> Outcome:
        return Outcome(kind=OutcomeKind.RESULT, payload=ANSWER)

    async def call() -> list[tuple[int, Mapping[str, str]]]:
        gateway = Front(described(*ROUTES, cors=cors), {"f": invoke}, NO_CONTROL)
        async with Server(gateway.handle) as server, aiohttp.ClientSession() as session:
            found: list[tuple[int, Mapping[str, str]]] = []
            for method, path, headers in requests:
                answer = await session.request(method, server.make_url(path), headers=headers)
                found.append((answer.status, answer.headers))
            return found

    return asyncio.run(call())


PREFLIGHT = {
    "Origin": SHOP,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
}


def test_a_preflight_needs_no_token() -> None:
    """The preflight of a route that needs a token is answered with 204 and the permissions."""
    cors = Cors(origins=[SHOP])

    ((status, headers),) = answers(cors, ("OPTIONS", "/payments", PREFLIGHT))

    assert status == 204
    assert headers["Access-Control-Allow-Origin"] == SHOP
    assert {"authorization", "content-type", "idempotency-key"} <= {
        *headers["Access-Control-Allow-Headers"].lower().split(",")
    }
    assert "POST" in headers["Access-Control-Allow-Methods"].split(",")
    assert headers["Access-Control-Max-Age"] == "600"


def test_every_answer_can_be_read_by_the_page() -> None:
    """A function's answer, whose own headers are replaced, and the gateway's 401 and 404 name the
    page's origin.
    """
    page = {"Origin": SHOP}

    found = answers(
        Cors(origins=[SHOP]),
        *(("POST", path, page) for path in ("/open", "/payments", "/nowhere")),
    )

    assert [status for status, _ in found] == [200, 401, 404]
    for _, headers in found:
        assert headers["Access-Control-Allow-Origin"] == SHOP
        assert "Idempotent-Replayed" in headers["Access-Control-Expose-Headers"].split(",")


@pytest.mark.parametrize(
    ("cors", "origin"), [(None, SHOP), (Cors(origins=[SHOP]), "https://evil.example")]
)
def test_no_other_page_is_let_in(cors: Cors | None, origin: str) -> None:
    """Without CORS a preflight is a 404; with it, another page is given no permission."""
    ((status, headers),) = answers(cors, ("OPTIONS", "/payments", {**PREFLIGHT, "Origin": origin}))

    assert status == (404 if cors is None else 204)
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("method", ["ANY", "OPTIONS"])
def test_a_route_that_would_take_the_preflights_is_refused(method: str) -> None:
    """A described route that needs a token must not match OPTIONS if pages call the service."""
    route = Route(method=method, path="/payments")

    with pytest.raises(ValueError, match="would take the browsers' preflights"):
        described(route, cors=Cors(origins=[SHOP]))
    assert described(route, cors=None).cors is None
