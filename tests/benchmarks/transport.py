"""What stands in for the network: canned answers at the place where botocore sends a request.

Serialising, signing, parsing and the checksum of the answer are botocore's own and are measured.
Only `URLLib3Session.send` is replaced, for every client of the process. Of oncekey's direct
transport only the socket is replaced, so that its HTTP is measured too.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from unittest import mock

from botocore.awsrequest import AWSResponse
from botocore.httpsession import URLLib3Session
from urllib3._collections import HTTPHeaderDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from botocore.awsrequest import AWSPreparedRequest


@dataclass(frozen=True, slots=True)
class Request:
    """What was sent: DynamoDB's name of the operation, the JSON body, and the bytes of all."""

    operation: str
    body: bytes
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered."""

    status: int
    body: bytes

    def headers(self) -> dict[str, str]:
        """The headers that DynamoDB sends."""
        return {
            "Server": "Server",
            "Date": "Sun, 29 Nov 2026 00:00:00 GMT",
            "Content-Type": "application/x-amz-json-1.0",
            "Content-Length": str(len(self.body)),
            "Connection": "keep-alive",
            "x-amzn-RequestId": "4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG",
            "x-amz-crc32": str(zlib.crc32(self.body)),
        }

    def wire(self) -> bytes:
        """The answer as it is sent."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers().items())
        return f"HTTP/1.1 {self.status} OK\r\n{lines}\r\n".encode() + self.body


class Source(Protocol):
    """Where replies come from, in the order in which they were loaded."""

    def load(self, replies: Iterable[Reply], /) -> None:
        """The next replies. What was left of the last ones is forgotten."""

    def is_used_up(self) -> bool:
        """Whether every reply was asked for."""


class _Raw:
    """The part of urllib3's response that botocore reads."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


class Player:
    """Answers each request of a thread with the next reply that this thread has loaded."""

    def __init__(self) -> None:
        self._own = threading.local()
        # What the direct transport has sent.
        self.sent_bytes = 0

    def load(self, replies: Iterable[Reply]) -> None:
        """The next replies. What was left of the last ones is forgotten."""
        headers: dict[Reply, HTTPHeaderDict] = {}
        self._own.replies = iter(
            [
                (each, headers.setdefault(each, HTTPHeaderDict(each.headers())), each.wire())
                for each in replies
            ]
        )

    def is_used_up(self) -> bool:
        """Whether every reply was asked for."""
        return next(self._own.replies, None) is None

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        """In place of `URLLib3Session.send`."""
        reply, headers, _ = next(self._own.replies)
        return AWSResponse(request.url, reply.status, headers, _Raw(reply.body))

    def received(self) -> bytes:
        """The bytes of the next reply."""
        _, _, wire = next(self._own.replies)
        return bytes(wire)


class Wire:
    """What a connection of the direct transport uses of a socket. Nobody is at its other end."""

    def __init__(self, player: Player) -> None:
        self._player = player
        # A file that nothing can be read from, for the transport's own look at the socket.
        self._silent, self._other_end = socket.socketpair()

    def fileno(self) -> int:
        """A file that can be polled."""
        return self._silent.fileno()

    def settimeout(self, _seconds: float) -> None:
        """Nothing waits."""

    def send(self, data: bytes | memoryview) -> int:
        """Everything is sent at once."""
        self._player.sent_bytes += len(data)
        return len(data)

    def recv(self, _size: int) -> bytes:
        """The whole reply comes at once."""
        return self._player.received()

    def close(self) -> None:
        """Close the file."""
        self._silent.close()
        self._other_end.close()


def request_of(prepared: AWSPreparedRequest) -> Request:
    """What `prepared` puts on the wire."""
    headers = {name.lower(): _text(value) for name, value in prepared.headers.items()}
    body = prepared.body if isinstance(prepared.body, bytes) else str(prepared.body).encode()
    host = prepared.url.split("/")[2]
    lines = sum(len(name) + len(value) + 4 for name, value in headers.items())
    # urllib3 adds the host and `Accept-Encoding: identity`.
    added = len(f"Host: {host}\r\nAccept-Encoding: identity\r\n")
    sent = len("POST / HTTP/1.1\r\n") + lines + added + 2 + len(body)
    return Request(headers["x-amz-target"].rpartition(".")[2], body, sent)


@contextlib.contextmanager
def sending_by(send: Callable[[AWSPreparedRequest], AWSResponse]) -> Iterator[None]:
    """Every request of botocore goes to `send` meanwhile."""
    original = URLLib3Session.send

    def replacement(_session: URLLib3Session, request: Any) -> Any:
        return send(request)

    URLLib3Session.send = replacement  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        URLLib3Session.send = original  # type: ignore[method-assign]


@contextlib.contextmanager
def playing(player: Player) -> Iterator[None]:
    """Requests of botocore and of oncekey's direct transport are answered by `player` meanwhile.

    A connection of the direct transport is its own, over a socket that is none.
    """
    from oncekey.store.direct import client
    from oncekey.store.direct.connection import Connection

    def connect(_address: object, host: str, *_: object) -> Connection:
        wire: Any = Wire(player)
        return Connection(wire, host)

    with sending_by(player.send), mock.patch.object(client, "connect", connect):
        yield


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
