"""A server in a process of its own that answers real HTTP requests with canned replies.

With it a call pays for its socket too. There is no TLS: only a real endpoint's costs are missing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from multiprocessing.connection import Connection

    from tests.benchmarks.transport import Reply


class Loopback:
    """Answers each request with the next reply that was put in, as `transport.Player` does."""

    def __init__(self, orders: Connection, port: int) -> None:
        self._orders = orders
        self.url = f"http://127.0.0.1:{port}"

    def put_in(self, replies: Iterable[Reply]) -> None:
        """The next replies. What was left of the last ones is forgotten."""
        self._orders.send([on_the_wire(reply) for reply in replies])
        self._orders.recv()

    def is_played(self) -> bool:
        """Whether every reply was asked for."""
        self._orders.send(None)
        return bool(self._orders.recv() == 0)


@contextlib.contextmanager
def loopback() -> Iterator[Loopback]:
    """A running server; it ends with the block."""
    context = multiprocessing.get_context("spawn")
    orders, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield Loopback(orders, orders.recv())
    finally:
        process.kill()
        process.join()


def on_the_wire(reply: Reply) -> bytes:
    """The bytes of a reply."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in reply.headers().items())
    return f"HTTP/1.1 {reply.status} OK\r\n{lines}\r\n".encode() + reply.body


def _serve(orders: Connection) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    waiting: list[bytes] = []
    threading.Thread(target=_accept, args=(listener, waiting), daemon=True).start()
    orders.send(listener.getsockname()[1])
    while True:
        put_in = orders.recv()
        if put_in is None:
            orders.send(len(waiting))
        else:
            waiting[:] = reversed(put_in)
            orders.send(len(waiting))


def _accept(listener: socket.socket, waiting: list[bytes]) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=(connection, waiting), daemon=True).start()


def _answer(connection: Any, waiting: list[bytes]) -> None:
    stream = connection.makefile("rb")
    while stream.readline():
        length = 0
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        stream.read(length)
        connection.sendall(waiting.pop())
