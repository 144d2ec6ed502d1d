"""What each client makes of a failure of TLS: a certificate is final, a broken record is not."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

import httpx
import pytest
import requests

from oncekey.client import IdempotentAdapter, IdempotentTransport, Retrying
from oncekey.testing import ManualClock
from tests.client.servers import NO_ANSWER
from tests.support.certificates import self_signed
from tests.support.peers import Peer, peer, says

if TYPE_CHECKING:
    from pathlib import Path

Client = Callable[[str, str], int]
Drop = Callable[[ssl.SSLContext, socket.socket], None]

_CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
_TRIES = 3


def _retrying() -> Retrying:
    return Retrying(clock=ManualClock(), attempts=_TRIES)


def _by_httpx(url: str, trusted: str) -> int:
    context = ssl.create_default_context(cafile=trusted)
    wrapped = httpx.HTTPTransport(verify=context, trust_env=False)
    with httpx.Client(transport=IdempotentTransport(wrapped, retrying=_retrying())) as client:
        return client.post(url, json={}).status_code


def _by_async_httpx(url: str, trusted: str) -> int:
    async def call() -> int:
        context = ssl.create_default_context(cafile=trusted)
        wrapped = httpx.AsyncHTTPTransport(verify=context, trust_env=False)
        transport = IdempotentTransport(wrapped, retrying=_retrying())
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.post(url, json={})).status_code

    return asyncio.run(call())


def _by_requests(url: str, trusted: str) -> int:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("https://", IdempotentAdapter(retrying=_retrying()))
        return session.post(url, json={}, timeout=20, verify=trusted).status_code


_CLIENTS: dict[str, Client] = {
    "httpx": _by_httpx,
    "async httpx": _by_async_httpx,
    "requests": _by_requests,
}


@pytest.fixture(params=_CLIENTS, ids=list(_CLIENTS))
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the three clients."""
    return _CLIENTS[request.param]


@pytest.fixture
def server(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    """The server's side of TLS, and the file with its certificate."""
    files = [tmp_path / "certificate.pem", tmp_path / "key.pem"]
    for file, text in zip(files, self_signed(), strict=True):
        file.write_bytes(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[0], files[1])
    return context, str(files[0])


def _in_the_handshake(_context: ssl.SSLContext, connection: socket.socket) -> None:
    connection.recv(65_536)


def _in_a_record(context: ssl.SSLContext, connection: socket.socket) -> None:
    secured = context.wrap_socket(connection, server_side=True)
    secured.recv(65_536)
    raw = secured.detach()
    # What no key of this connection has made.
    os.write(raw, b"\x17\x03\x03\x00\x20" + b"x" * 32)
    os.close(raw)


@pytest.mark.parametrize("drop", [_in_the_handshake, _in_a_record])
def test_a_broken_connection_is_tried_again_over_tls_too(
    client: Client, server: tuple[ssl.SSLContext, str], drop: Drop
) -> None:
    """A connection that breaks off in its handshake or in a record leads to the same request again.

    Red when every failure of TLS counts as one of the certificate.
    """
    context, trusted = server

    def breaks(_peer: Peer) -> Callable[[socket.socket], None]:
        return lambda connection: drop(context, connection)

    def answers(made: Peer) -> Callable[[socket.socket], None]:
        def script(connection: socket.socket) -> None:
            with context.wrap_socket(connection, server_side=True) as secured:
                says(_CREATED, closes=True)(made)(secured)

        return script

    with peer(breaks, answers) as made:
        assert client(made.url.replace("http:", "https:"), trusted) == 201

    assert made.accepted == 2


def test_the_error_of_a_broken_record_has_the_request(
    client: Client, server: tuple[ssl.SSLContext, str]
) -> None:
    """If each answer breaks in a record of TLS, the caller finds the key in the error.

    Red when httpx's error for an async client is passed on as it is.
    """

    def breaks(_peer: Peer) -> Callable[[socket.socket], None]:
        return lambda connection: _in_a_record(server[0], connection)

    with peer(breaks) as made, pytest.raises(NO_ANSWER) as raised:
        client(made.url.replace("http:", "https:"), server[1])

    request = getattr(raised.value, "request", None)
    assert request is not None
    assert (made.accepted, "Idempotency-Key" in request.headers) == (_TRIES, True)


def test_a_certificate_that_is_not_trusted_is_reported_at_once(
    client: Client, server: tuple[ssl.SSLContext, str], tmp_path: Path
) -> None:
    """A certificate is as wrong the next time: the caller gets the error after one connection.

    Red when it is tried again until the time is over.
    """
    other = tmp_path / "other.pem"
    other.write_bytes(self_signed()[0])
    with (
        peer(says(_CREATED), tls=server[0]) as made,
        pytest.raises(NO_ANSWER, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client(made.url, str(other))

    assert (made.accepted, made.requests) == (1, [])
