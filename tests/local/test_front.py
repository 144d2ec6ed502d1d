"""The HTTP front by itself, with a function that the test plays."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.test_utils import RawTestServer as Server

from oncekey_local.description import Function, Route, Service
from oncekey_local.front import front, tokens
from oncekey_local.front.front import Front
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from tests.support.sample_service import FAILING

if TYPE_CHECKING:
    import pytest


# Nothing here asks for it.
NO_CONTROL: Any = None


def test_integration_timeout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A function that takes longer than the gateway waits is a 503, and the log says why."""
    monkeypatch.setattr(front, "INTEGRATION_TIMEOUT_S", 0.01)
    cancelled: list[bytes] = []

    async def invoke(event: bytes) -> Outcome:
        never: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            return await never
        except asyncio.CancelledError:
            cancelled.append(event)  # the pool's cue to take it out of its queue
            raise

    async def call() -> tuple[int, bytes]:
        gateway = Front(FAILING, {"fail": invoke}, NO_CONTROL)
        headers = {"Authorization": tokens.issue(tenant="acme")}
        async with Server(gateway.handle) as server, aiohttp.ClientSession() as session:
            answer = await session.post(server.make_url("/fail"), headers=headers)
            return answer.status, await answer.read()

    assert asyncio.run(call()) == (503, b'{"message":"Service Unavailable"}')
    assert len(cancelled) == 1
    assert "[fail] no answer within 0.01 s" in capsys.readouterr().err


def test_a_route_that_is_open_asks_for_no_token() -> None:
    """A route described as not authorized is called without a token; another one is a 401."""
    service = Service(
        name="open",
        functions=(
            Function(
                name="hook",
                handler="m.f",
                timeout_s=1,
                routes=(
                    Route(method="POST", path="/hook", authorized=False),
                    Route(method="POST", path="/closed"),
                ),
            ),
        ),
        tables=(),
    )
    events: list[dict[str, Any]] = []

    async def invoke(event: bytes) -> Outcome:
        events.append(json.loads(event))
        return Outcome(kind=OutcomeKind.RESULT, payload=b'{"statusCode": 204}')

    async def call() -> list[int]:
        gateway = Front(service, {"hook": invoke}, NO_CONTROL)
        async with Server(gateway.handle) as server, aiohttp.ClientSession() as session:
            return [
                (await session.post(server.make_url(path), data=b"{}")).status
                for path in ("/hook", "/closed")
            ]

    assert asyncio.run(call()) == [204, 401]
    (event,) = events
    assert event["routeKey"] == "POST /hook"
    assert "authorizer" not in event["requestContext"]
