"""A server in a process of its own that answers real HTTP requests with canned replies.

With it a call pays for its socket too, and with TLS for that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import ssl
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.certificates import make_certificate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from multiprocessing.connection import Connection

    from tests.benchmarks.transport import Reply


class Loopback:
    """Answers each request with the next reply that was loaded, as `transport.Player` does.

    Attributes:
        environment: the variables by which boto3, and oncekey, find the server.
    """

    def __init__(self, orders: Connection, environment: Mapping[str, str]) -> None:
        self._orders = orders
        self.environment = environment

    def load(self, replies: Iterable[Reply]) -> None:
        """The next replies. What was left of the last ones is forgotten."""
        self._orders.send([reply.wire() for reply in replies])
        self._orders.recv()

    def is_used_up(self) -> bool:
        """Whether every reply was asked for."""
        return self._state()[0] == 0

    def read_bytes(self) -> int:
        """How many bytes the server has read since it began."""
        return self._state()[1]

    def _state(self) -> tuple[int, int]:
        self._orders.send(None)
        left, read_bytes = self._orders.recv()
        return int(left), int(read_bytes)


@contextlib.contextmanager
def loopback(*, tls: bool = False) -> Iterator[Loopback]:
    """A running server; it ends with the block."""
    context = multiprocessing.get_context("spawn")
    orders, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        chain, bundle = make_certificate(Path(folder)) if tls else (None, None)
        process = context.Process(target=_serve, args=(theirs, chain), daemon=True)
        process.start()
        try:
            url = f"{'https' if tls else 'http'}://127.0.0.1:{orders.recv()}"
            trust = {"AWS_CA_BUNDLE": str(bundle)} if tls else {}
            yield Loopback(orders, {"AWS_ENDPOINT_URL_DYNAMODB": url, **trust})
        finally:
            process.kill()
            process.join()


class _Server:
    """The server's side: the replies that wait, and how many bytes were read."""

    def __init__(self, chain: Path | None) -> None:
        self.waiting: list[bytes] = []
        self.read_bytes = 0
        self._tls: ssl.SSLContext | None = None
        if chain is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(chain)

    def accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
        stream = connection.makefile("rb")
        while line := stream.readline():
            read_bytes, length = len(line), 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                read_bytes += len(line)
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            stream.read(length)
            self.read_bytes += read_bytes + 2 + length
            connection.sendall(self.waiting.pop())


def _serve(orders: Connection, chain: Path | None) -> None:
    listener, server = socket.create_server(("127.0.0.1", 0)), _Server(chain)
    threading.Thread(target=server.accept, args=(listener,), daemon=True).start()
    orders.send(listener.getsockname()[1])
    while True:
        load = orders.recv()
        if load is not None:
            server.waiting[:] = reversed(load)
        orders.send((len(server.waiting), server.read_bytes))
