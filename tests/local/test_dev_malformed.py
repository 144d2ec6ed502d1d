"""Requests that are none: what is refused, and that nothing of them is in the log."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.looking import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey_local.dev_process import DevProcess

SECRET = b"s3cr3t-"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def connect(url: str) -> socket.socket:
    """A connection of our own."""
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port or 0), timeout=60)


def new_lines(dev: DevProcess) -> Callable[[], list[str]]:
    """What gives the lines of the log that have come since this call."""
    before = len(dev.log())

    def said() -> list[str]:
        return dev.log()[before:].splitlines()

    return said


def opening(dev: DevProcess) -> bytes:
    """The beginning of a request that is allowed."""
    return f"POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: {dev.token('acme')}\r\n".encode()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: " + SECRET * 2000 + b"\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\n" + SECRET + b"\r\n\r\n",
        b"POST /echo HTTP/" + SECRET + b"\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + SECRET + b"\r\n\r\n",
    ],
)
@pytest.mark.parametrize("server", ["service", "store", "provider"])
def test_malformed(dev: DevProcess, server: str, request_bytes: bytes) -> None:
    """A request that is no HTTP is 400, and its bytes are in no log."""
    urls = {"service": dev.url, "store": dev.store_url, "provider": dev.provider_url}
    said = new_lines(dev)
    with connect(urls[server]) as connection:
        connection.sendall(request_bytes)
        with connection.makefile("rb") as stream:
            assert stream.readline().split()[1] == b"400"
    until(lambda: bool(said()))
    [line] = said()
    assert "a malformed request was refused: " in line
    assert SECRET.decode() not in line


def test_body_that_is_none(dev: DevProcess) -> None:
    """A body that is no chunk is refused, and is in no log."""
    said = new_lines(dev)
    with connect(dev.url) as connection:
        connection.sendall(opening(dev) + CHUNKED + SECRET + b"\r\n")
        with connection.makefile("rb") as stream:
            assert stream.readline().split()[1] == b"400"
    assert SECRET.decode() not in "".join(said())
    assert len(said()) <= 2


@pytest.mark.parametrize("rest", [b"Content-Length: 100\r\n\r\ns3cr3t-", CHUNKED + b"9\r\ns3cr3t-"])
def test_client_leaves(dev: DevProcess, rest: bytes) -> None:
    """A client that leaves in the middle of its body leaves one line in the log."""
    said = new_lines(dev)
    with connect(dev.url) as connection:
        connection.sendall(opening(dev) + rest)
    until(lambda: bool(said()))
    dev.pids()  # a round trip, after which a second line would be there
    [line] = said()
    assert line.startswith("POST /echo 400 ")


@pytest.mark.parametrize("server", ["store", "provider"])
def test_caller_leaves(dev: DevProcess, server: str) -> None:
    """A function that is killed in the middle of a call leaves no traceback of its server's."""
    url = {"store": dev.store_url, "provider": dev.provider_url}[server]
    said = new_lines(dev)
    request = b"POST /v1/payment_intents HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer sk_test_1\r\n"
    with connect(url) as connection:
        connection.sendall(request + b"Content-Length: 100\r\n\r\ns3cr3t-")
    # The server has noticed before it takes this one, whose line comes after what it says of that.
    with connect(url) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.0 400"
    until(lambda: any("malformed" in line or "Traceback" in line for line in said()))
    assert "Traceback" not in "".join(said())
    assert SECRET.decode() not in "".join(said())
