"""One kept-alive connection, and requests and answers of HTTP/1.1 on it.

It supports only what a JSON service needs: requests as whole bytes, answers with a length or in
chunks. Every wait ends at the deadline of the whole call, however slowly the peer sends.
https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import errno
import select
import socket
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from oncekey.clock import elapsed_s
from oncekey.store.direct.errors import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    RequestNotSent,
    ResponseParserError,
    SSLError,
    TransportError,
)

if TYPE_CHECKING:
    import ssl

    from oncekey.store.direct.certificates import Verification
    from oncekey.store.direct.endpoint import Address

# DynamoDB limits a page to 1 MB and the items of a transaction to 4 MB, in which a refused one can
# return all of them. JSON takes more bytes than DynamoDB counts: a third more for binary values.
MOST_BYTES = 16 * 1024 * 1024
_MOST_BYTES_OF_HEAD = 64 * 1024
_RECEIVE_BYTES = 64 * 1024
# The socket's buffer takes a request of this size at once, so no timeout is set for it.
_SEND_BUFFER_BYTES = 16 * 1024


class Answer(NamedTuple):
    """An answer as it came. `head` is its status line and headers."""

    status: int
    head: bytes
    body: bytes
    stays_open: bool

    def header(self, name: bytes) -> bytes:
        """The value of a header by its name in lower case, or nothing."""
        start = self.head.lower().find(b"\r\n" + name + b":")
        return _value(self.head, start + len(name) + 3) if start >= 0 else b""


class Connection:
    """A connection that carries one request at a time.

    Attributes:
        used_ms: when it carried its last answer, by the wall clock.
    """

    __slots__ = ("_poll", "_socket", "host", "used_ms")

    def __init__(self, made: socket.socket, host: str) -> None:
        self._socket = made
        self.host = host
        self.used_ms = 0
        poll = select.poll()
        # Named here, because Windows has none of them and must be able to import this module.
        poll.register(made, select.POLLIN | select.POLLHUP | select.POLLERR)
        self._poll = poll.poll

    def is_broken(self) -> bool:
        """Whether the peer has closed an idle connection, or has sent what nobody asked for."""
        return bool(self._poll(0))

    def close(self) -> None:
        """Close it in this process. Nothing is sent, so that a parent may go on using it."""
        self._socket.close()

    def exchange(self, request: bytes, deadline_s: float) -> Answer:
        """Send a request and receive the answer, until `deadline_s` by `elapsed_s`.

        Raises:
            RequestNotSent: the peer cannot have received the whole request.
            TransportError: no answer that can be read; the request may have been carried out.
        """
        self._send(request, deadline_s)
        try:
            return _Incoming(self._socket, deadline_s).answer()
        except TimeoutError:
            raise ReadTimeoutError from None
        except TransportError:
            raise
        except (OSError, ValueError) as error:
            # ssl.SSLError is an OSError; the fields of the protocol raise a ValueError.
            kind = ResponseParserError if isinstance(error, ValueError) else ConnectionClosedError
            raise kind from error

    def _send(self, request: bytes, deadline_s: float) -> None:
        send, rest = self._socket.send, memoryview(request)
        try:
            if len(request) > _SEND_BUFFER_BYTES:
                self._socket.settimeout(_left_s(deadline_s))
            while (sent := send(rest)) != len(rest):
                rest = rest[sent:]
                self._socket.settimeout(_left_s(deadline_s))
        except OSError as error:
            raise RequestNotSent from error


class _Incoming:
    """What is received of one answer."""

    __slots__ = ("_deadline_s", "_socket", "data")

    def __init__(self, connection: socket.socket, deadline_s: float) -> None:
        self._socket = connection
        self._deadline_s = deadline_s
        self.data: bytes | bytearray = b""

    def answer(self) -> Answer:
        status, head = self._head()
        # An interim answer, such as 103, precedes the final one.
        while 100 <= status < 200:
            status, head = self._head()
        lower = head.lower()
        chunks = lower.find(b"\r\ntransfer-encoding:")
        body = self._sized(lower) if chunks < 0 else self._chunks(_value(lower, chunks + 20))
        # More than the answer would be taken for the next one.
        is_exact = not self.data
        stays = lower.startswith(b"http/1.1") and b"\r\nconnection: close" not in lower
        return Answer(status, head, body, stays_open=stays and is_exact)

    def _head(self) -> tuple[int, bytes]:
        while (end := self.data.find(b"\r\n\r\n")) < 0:
            if len(self.data) > _MOST_BYTES_OF_HEAD:
                raise ResponseParserError
            self._more()
        head = bytes(self.data[: end + 2])
        self.data = self.data[end + 4 :]
        if not head.startswith(b"HTTP/1.") or not head[9:12].isdigit():
            raise ResponseParserError
        return int(head[9:12]), head

    def _sized(self, head: bytes) -> bytes:
        name = b"\r\ncontent-length:"
        # Without a length, an answer that was cut off would look whole.
        if head.count(name) != 1:
            raise ResponseParserError
        length = _value(head, head.find(name) + len(name))
        if not length.isdigit():
            raise ResponseParserError
        return self._take(int(length))

    def _chunks(self, encoding: bytes) -> bytes:
        if encoding != b"chunked":
            raise ResponseParserError
        body = bytearray()
        while size := int(self._line().partition(b";")[0], 16):
            if size < 0 or len(body) + size > MOST_BYTES:
                raise ResponseParserError
            body += self._take(size)
            if self._line():
                raise ResponseParserError
        # Trailers may follow. An empty line ends them.
        while self._line():
            pass
        return bytes(body)

    def _line(self) -> bytes:
        while (end := self.data.find(b"\r\n")) < 0:
            if len(self.data) > _MOST_BYTES_OF_HEAD:
                raise ResponseParserError
            self._more()
        line = bytes(self.data[:end])
        self.data = self.data[end + 2 :]
        return line

    def _take(self, size: int) -> bytes:
        if size > MOST_BYTES:
            raise ResponseParserError
        while len(self.data) < size:
            self._more()
        taken = bytes(self.data[:size])
        self.data = self.data[size:]
        return taken

    def _more(self) -> None:
        self._socket.settimeout(_left_s(self._deadline_s))
        received = self._socket.recv(_RECEIVE_BYTES)
        if not received:
            raise ConnectionClosedError
        if not self.data:
            self.data = received
        elif isinstance(self.data, bytearray):
            self.data += received
        else:
            self.data = bytearray(self.data + received)


def connect(
    address: Address, host: str, tls: Verification | None, connect_s: float, deadline_s: float
) -> Connection:
    """A new connection: its name resolved and connected within `connect_s`, all by `deadline_s`.

    Raises:
        TransportError: there is none; nothing was sent.
    """
    context = tls.context if tls else None
    try:
        return _secured(address, host, context, connect_s, deadline_s)
    except SSLError as error:
        if tls is None or context is None or not tls.widen(context, error.__cause__):
            raise
    return _secured(address, host, tls.context, connect_s, deadline_s)


def _secured(
    address: Address, host: str, tls: ssl.SSLContext | None, connect_s: float, deadline_s: float
) -> Connection:
    made = _connected(address, min(elapsed_s() + connect_s, deadline_s))
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            # Names are bytes, because Python loads a table of Unicode to encode a text.
            made = tls.wrap_socket(
                made, server_hostname=address.name.encode(), do_handshake_on_connect=False
            )
            made.settimeout(_left_s(deadline_s))
            made.do_handshake()
        made.settimeout(_left_s(deadline_s))
    except TimeoutError:
        made.close()
        raise ConnectTimeoutError from None
    except OSError as error:
        made.close()
        raise SSLError from error
    return Connection(made, host)


def _connected(address: Address, deadline_s: float) -> socket.socket:
    found = _resolved(address, deadline_s)
    failure: OSError | None = None
    for number, (family, kind, protocol, _, where) in enumerate(found):
        made: socket.socket | None = None
        try:
            made = socket.socket(family, kind, protocol)
            # An address that does not answer leaves time for the others.
            made.settimeout(_left_s(deadline_s) / (len(found) - number))
            made.connect(where)
        except OSError as error:
            if made is not None:
                made.close()
            failure = error
        else:
            return made
    if isinstance(failure, TimeoutError):
        raise ConnectTimeoutError from failure
    raise EndpointConnectionError from failure


def _resolved(address: Address, deadline_s: float) -> list[Any]:
    """The addresses of a name. The system's resolver has no timeout, so a thread asks it."""
    try:
        return _look_up(address, socket.AI_NUMERICHOST)
    except OSError:
        pass
    found: list[Any] = []
    failures: list[OSError] = []

    def ask() -> None:
        try:
            found.extend(_look_up(address))
        except (OSError, UnicodeError) as error:
            failures.append(OSError(errno.EHOSTUNREACH, str(error)))

    asking = threading.Thread(target=ask, name="oncekey-dns", daemon=True)
    try:
        asking.start()
    except RuntimeError:
        # This process can have no more threads.
        ask()
    else:
        asking.join(max(0.0, deadline_s - elapsed_s()))
    if failures:
        raise EndpointConnectionError from failures[0]
    if not found:
        raise ConnectTimeoutError
    return found


def _look_up(address: Address, flags: int = 0) -> list[Any]:
    name = address.name.encode("ascii")
    return socket.getaddrinfo(name, address.port, type=socket.SOCK_STREAM, flags=flags)


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - elapsed_s()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _value(head: bytes, start: int) -> bytes:
    return head[start : head.index(b"\r\n", start)].strip()
