"""The HTTP front by itself, with a function that the test plays."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.test_utils import RawTestServer as Server

from oncekey_local import front, tokens
from oncekey_local.front import Front
from tests.support.sample_service import FAILING

if TYPE_CHECKING:
    import pytest

    from oncekey_local.runtime_api import Outcome


# Nothing here asks for it.
NO_CONTROL: Any = None


def test_integration_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that takes longer than the gateway waits costs the client a 503."""
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
