"""What the tests of clients send requests through: answers by a script, on a manual clock."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import httpx
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from oncekey.client import IdempotentAdapter, IdempotentTransport, Retrying
from oncekey.problem import PROBLEMS
from oncekey.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

URL = "https://api.example/payments"


@dataclass(frozen=True)
class Reply:
    """An answer of the script. A `broken` one breaks off in its body."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b"{}"
    broken: bool = False


# No answer at all, and one that does not come in time.
LOST, LATE = "lost", "late"
Scripted = Reply | str
OK = Reply(201, body=b'{"payment_id": "pay_1"}')


def problem(code: str, *, retryable: bool | None = None, retry_after: str | None = None) -> Reply:
    """Our refusal of this code."""
    known = PROBLEMS[code]
    body = {"type": code, "retryable": known.retryable if retryable is None else retryable}
    waits = {} if retry_after is None else {"Retry-After": retry_after}
    return Reply(
        known.status,
        {"Content-Type": "application/problem+json", **waits},
        json.dumps(body).encode(),
    )


@dataclass(frozen=True)
class Sent:
    """A request as the server got it, and when."""

    at_s: float
    key: str | None
    first_sent: str | None
    body: bytes


@dataclass
class Server:
    """Answers by the script; its last entry answers all further requests."""

    script: list[Scripted]
    clock: ManualClock = field(default_factory=ManualClock)
    got: list[Sent] = field(default_factory=list[Sent])
    _begun_ms: int = 0

    def __post_init__(self) -> None:
        self._begun_ms = self.clock.now_ms()

    def take(self, headers: Mapping[str, str], body: bytes) -> Scripted:
        """The next answer of the script."""
        at_s = (self.clock.now_ms() - self._begun_ms) / 1000
        names = {name.lower(): value for name, value in headers.items()}
        self.got.append(
            Sent(at_s, names.get("idempotency-key"), names.get("repeatability-first-sent"), body)
        )
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    @property
    def pauses_s(self) -> list[float]:
        """The pauses between the requests."""
        times = [sent.at_s for sent in self.got]
        return [round(b - a, 3) for a, b in itertools.pairwise(times)]

    @property
    def keys(self) -> set[str | None]:
        """The keys of all requests."""
        return {sent.key for sent in self.got}


@dataclass(frozen=True)
class Answered:
    """What the caller of a client gets."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    sent_headers: Mapping[str, str]


class Client(Protocol):
    """Sends one request through one of the clients."""

    def __call__(
        self,
        server: Server,
        method: str = "POST",
        *,
        headers: Mapping[str, str] | None = None,
        body: Any = b'{"amount": 1}',
        **retrying: Any,
    ) -> Answered:
        """The answer. Raises the client's own errors."""
        ...


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        yield self._reply.body
        if self._reply.broken:
            raise httpx.RemoteProtocolError("the connection was closed in the body")

    async def __aiter__(self) -> Any:
        for piece in self:
            yield piece


class ScriptedTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """What a transport of httpx sends through."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The next answer of the script."""
        return self._reply(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The same."""
        return self._reply(request, await request.aread())

    def _reply(self, request: httpx.Request, body: bytes) -> httpx.Response:
        reply = self._server.take(request.headers, body)
        if not isinstance(reply, Reply):
            raise httpx.ConnectError("refused") if reply == LOST else httpx.ReadTimeout("late")
        return httpx.Response(reply.status, headers=reply.headers, stream=_Body(reply))


class _Broken(io.BytesIO):
    def read(self, *sizes: Any) -> bytes:
        if not (found := super().read(*sizes)):
            raise ConnectionResetError("the connection was closed in the body")
        return found


class ScriptedAdapter(BaseAdapter):
    """What an adapter of requests sends through."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def send(
        self, request: requests.PreparedRequest, *arguments: Any, **options: Any
    ) -> requests.Response:
        """The next answer of the script."""
        body = request.body if request.body is not None else b""
        sent = body.encode() if isinstance(body, str) else body
        reply = self._server.take(request.headers, sent)
        if not isinstance(reply, Reply):
            error = requests.ConnectionError if reply == LOST else requests.ReadTimeout
            raise error(request=request)
        response = requests.Response()
        response.status_code = reply.status
        response.headers.update(reply.headers)
        response.request = request
        response.url = request.url or ""
        file = (_Broken if reply.broken else io.BytesIO)(reply.body)
        response.raw = HTTPResponse(file, reply.headers, reply.status, preload_content=False)
        return response

    def close(self) -> None:
        """Nothing is open."""


def by_httpx(
    server: Server,
    method: str = "POST",
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = b'{"amount": 1}',
    **retrying: Any,
) -> Answered:
    """Through a sync client of httpx."""
    settings = Retrying(clock=server.clock, **retrying)
    transport = IdempotentTransport(ScriptedTransport(server), retrying=settings)
    with httpx.Client(transport=transport) as client:
        response = client.request(method, URL, content=body, headers=headers)
    return Answered(
        response.status_code, response.content, response.headers, response.request.headers
    )


def by_async_httpx(
    server: Server,
    method: str = "POST",
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = b'{"amount": 1}',
    **retrying: Any,
) -> Answered:
    """Through an async client of httpx."""

    async def call() -> httpx.Response:
        settings = Retrying(clock=server.clock, **retrying)
        transport = IdempotentTransport(ScriptedTransport(server), retrying=settings)
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(method, URL, content=body, headers=headers)

    response = asyncio.run(call())
    return Answered(
        response.status_code, response.content, response.headers, response.request.headers
    )


def by_requests(
    server: Server,
    method: str = "POST",
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = b'{"amount": 1}',
    **retrying: Any,
) -> Answered:
    """Through a session of requests."""
    settings = Retrying(clock=server.clock, **retrying)
    with requests.Session() as session:
        session.trust_env = False
        session.mount("https://", IdempotentAdapter(ScriptedAdapter(server), retrying=settings))
        response = session.request(method, URL, data=body, headers=headers)
    return Answered(
        response.status_code, response.content, response.headers, response.request.headers
    )


CLIENTS: dict[str, Client] = {
    "httpx": by_httpx,
    "async httpx": by_async_httpx,
    "requests": by_requests,
}
NO_ANSWER = (httpx.TransportError, requests.RequestException)
