"""Clients that send too much, too slowly or too often: refused, and the others are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp.test_utils import RawTestServer as Server

from oncekey_local.description import Function, Route, Service
from oncekey_local.front import front
from oncekey_local.front.front import Front
from oncekey_local.front.http_api_event import MAX_PAYLOAD_BYTES
from oncekey_local.functions.runtime_api import Outcome, OutcomeKind
from tests.support.protected import Protected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from aiohttp.test_utils import BaseTestServer

NO_CONTROL: Any = None
_ROUTE = Route(method="POST", path="/payments", authorized=False)
SERVICE = Service(
    name="flooded",
    functions=(Function(name="pay", handler="m.f", timeout_s=1, routes=(_ROUTE,)),),
    tables=(),
)
HEAD = b"POST /payments HTTP/1.1\r\nHost: x\r\n"
MANY = 100


class Flooded:
    """The front before a protected handler, which this process plays."""

    def __init__(
        self, server: BaseTestServer, session: aiohttp.ClientSession, service: Protected
    ) -> None:
        self.service = service
        self._server = server
        self._session = session

    async def pays(self, key: str) -> int:
        """The status of a payment under this key."""
        url = self._server.make_url("/payments")
        async with self._session.post(url, headers={"Idempotency-Key": key}, data=b"{}") as answer:
            return answer.status

    async def connection(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection of a client's own, on which this was sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        return reader, writer

    async def status_of(self, sent: bytes) -> int:
        """The status of what is answered to these bytes."""
        reader, writer = await self.connection(sent)
        status = int((await reader.readline()).split()[1])
        writer.close()
        return status


def flooded(play: Callable[[Flooded], Coroutine[Any, Any, None]]) -> None:
    """Have `play` use a front."""
    service = Protected()

    async def invoke(event: bytes) -> Outcome:
        answer = service.send(json.loads(event))
        return Outcome(kind=OutcomeKind.RESULT, payload=json.dumps(answer).encode())

    async def run() -> None:
        gateway = Front(SERVICE, {"pay": invoke}, NO_CONTROL)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            Server(gateway.handle) as server,
            aiohttp.ClientSession(connector=connector) as session,
        ):
            await play(Flooded(server, session, service))

    asyncio.run(run())


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param(b"POST /pay", id="half a line"),
        pytest.param(HEAD + b"Idempotency-", id="half a header"),
        pytest.param(HEAD + b"Content-Length: 10\r\n\r\n{", id="a body that does not come"),
        pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", id="half a chunk"),
    ],
)
def test_clients_that_do_not_finish_stop_nobody(beginning: bytes) -> None:
    """While a hundred clients have sent a part of a request, the next one is answered, and the
    handler has run for it alone.

    Red when a request is handled before it is whole, or one client is read at a time.
    """

    async def play(flood: Flooded) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(MANY):
                await stack.enter_async_context(_held(flood, beginning))
            assert await flood.pays("a-key-of-somebody-else") == 201
        assert len(flood.service.runs) == 1

    flooded(play)


@contextlib.asynccontextmanager
async def _held(flood: Flooded, beginning: bytes) -> AsyncIterator[None]:
    _, writer = await flood.connection(beginning)
    yield
    writer.close()


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After half a minute the client gets a 408, and its handler has not run.

    Red when a slow body holds its connection for as long as the client likes.
    """
    monkeypatch.setattr(front, "BODY_TIMEOUT_S", 0.01)

    async def play(flood: Flooded) -> None:
        assert await flood.status_of(HEAD + b"Content-Length: 10\r\n\r\n{") == 408
        assert flood.service.runs == []

    flooded(play)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(HEAD + b"Idempotency-Key: " + b"k" * 9_000 + b"\r\n\r\n", 400, id="a header"),
        pytest.param(HEAD + b"".join(b"X-%d: x\r\n" % n for n in range(40_000)), 400, id="headers"),
        pytest.param(b"POST /" + b"p" * 9_000 + b" HTTP/1.1\r\n\r\n", 400, id="a path"),
        pytest.param(
            HEAD + b"Content-Length: %d\r\n\r\n" % (MAX_PAYLOAD_BYTES + 1), 413, id="a body"
        ),
        pytest.param(
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n700000\r\n" + b"x" * 0x700000,
            413,
            id="a body of unknown length",
        ),
    ],
)
def test_what_is_too_large_is_refused_before_its_end(sent: bytes, status: int) -> None:
    """A client that goes on sending is refused at the limit: nothing waits for the rest.

    Red when the whole of it is read first.
    """

    async def play(flood: Flooded) -> None:
        assert await flood.status_of(sent) == status
        assert await flood.pays("a-key-of-somebody-else") == 201
        assert len(flood.service.runs) == 1

    flooded(play)


def test_a_flood_of_keys_is_answered() -> None:
    """A hundred new keys at once, each sent twice: each runs once, and each request is answered.

    Red when a request is lost among many.
    """

    async def play(flood: Flooded) -> None:
        keys = [f"a-key-of-a-flood-{number:04d}" for number in range(MANY)]
        statuses = await asyncio.gather(*[flood.pays(key) for key in [*keys, *keys]])
        assert statuses == [201] * 2 * MANY
        assert len(flood.service.runs) == MANY

    flooded(play)


def test_a_request_with_many_keys_is_refused() -> None:
    """A hundred different lines of the key's header are one refusal, and nothing is stored."""

    async def play(flood: Flooded) -> None:
        lines = b"".join(b"Idempotency-Key: a-key-of-many-%04d\r\n" % n for n in range(100))
        assert await flood.status_of(HEAD + lines + b"Content-Length: 0\r\n\r\n") == 400
        assert flood.service.store.records == {}

    flooded(play)
