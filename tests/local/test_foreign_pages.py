"""Pages of other origins get nothing from the control paths of the local servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer, TestServer

from oncekey_local.front.control import Control
from oncekey_local.front.front import Front
from oncekey_local.provider.server import create_application
from oncekey_local.store.engines import moto_engines
from oncekey_local.store.store import Store
from tests.support.sample_service import FAILING

if TYPE_CHECKING:
    from aiohttp.test_utils import BaseTestServer

FOREIGN = [
    {"Host": "evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]
NO_EVENT_SOURCES: Any = None


def front() -> BaseTestServer:
    """The front, with nothing running behind it."""
    control = Control(list, NO_EVENT_SOURCES)
    return RawTestServer(Front(FAILING, {}, control).handle)


def provider() -> BaseTestServer:
    """The payment provider."""
    return TestServer(create_application())


def store() -> BaseTestServer:
    """The local DynamoDB, SQS and S3."""
    return RawTestServer(Store(moto_engines()).handle)


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (front, "/_dev/processes"),
        (provider, "/_faults"),
        (provider, "/_reset"),
        (store, "/_faults"),
    ],
)
def test_foreign_pages_are_refused(made: Any, path: str) -> None:
    """A foreign Host, Origin or site gets 403; a program of this machine gets its answer."""

    async def statuses() -> list[int]:
        method = "POST" if path == "/_reset" else "GET"
        async with made() as server, aiohttp.ClientSession() as session:
            return [
                (await session.request(method, server.make_url(path), headers=headers)).status
                for headers in [*FOREIGN, {}]
            ]

    assert asyncio.run(statuses()) == [403] * len(FOREIGN) + [200]


def test_no_fault_is_set_from_a_foreign_page() -> None:
    """A form of another page, which needs no preflight, does not take the store down."""

    async def faults() -> Any:
        async with store() as server, aiohttp.ClientSession() as session:
            url = server.make_url("/_faults")
            headers = {"Content-Type": "text/plain", "Origin": "https://evil.example"}
            await session.post(url, data='{"down": true}', headers=headers)
            return await (await session.get(url)).json()

    assert asyncio.run(faults())["down"] is False
