"""Peers of the direct transport that do what a test says: one script for each connection."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from oncekey.store.aws_errors import store_error
from oncekey.store.direct.client import DirectClient
from oncekey.store.direct.errors import TransportError
from tests.support.wire import ENVIRONMENT, answer, read_request

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator

    from oncekey import StoreError
    from oncekey.clock import Clock

    Script = Callable[[socket.socket], None]

OK = answer(b"{}")


def failure(client: DirectClient) -> StoreError:
    """What the store makes of the failure of a call, which is an outage."""
    with pytest.raises(TransportError) as raised:
        client.put_item(TableName="a-table", Item={})
    made = store_error(raised.value)
    assert made.reason == type(raised.value).__name__
    assert (made.is_outage, made.transient, made.kind) == (True, True, "outage")
    return made


@dataclass
class Peer:
    """A server. `accepted` counts its connections, `requests` are what it was sent, whole."""

    url: str = ""
    accepted: int = 0
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    clients: list[DirectClient] = field(default_factory=list)

    def client(
        self, call_timeout_ms: int = 20_000, clock: Clock | None = None, **environment: str
    ) -> DirectClient:
        """A client that reaches it, with patience for a busy machine."""
        described = {**ENVIRONMENT, "AWS_ENDPOINT_URL": self.url, **environment}
        client = DirectClient(described, call_timeout_ms, clock)
        self.clients.append(client)
        return client

    def receive(self, connection: socket.socket) -> bool:
        """Receive one request; False if the client has closed the connection."""
        request = read_request(connection)
        if request is not None:
            self.requests.append(request)
        return request is not None


def says(*pieces: bytes, closes: bool = False) -> Callable[[Peer], Script]:
    """A script that sends these pieces after each request, and may then close the connection."""

    def of(peer: Peer) -> Script:
        def script(connection: socket.socket) -> None:
            while peer.receive(connection):
                for piece in pieces:
                    connection.sendall(piece)
                if closes:
                    return

        return script

    return of


def in_turn(*answers: bytes) -> Callable[[Peer], Script]:
    """A script whose requests get these answers, one after the other; the last one repeats."""

    def of(peer: Peer) -> Script:
        def script(connection: socket.socket) -> None:
            while peer.receive(connection):
                connection.sendall(answers[min(len(peer.requests), len(answers)) - 1])

        return script

    return of


@contextlib.contextmanager
def peer(*scripts: Callable[[Peer], Script], tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    """A peer whose first connection follows the first script, and so on; the last one repeats."""
    made = Peer()
    connections: list[socket.socket] = []
    threads: list[threading.Thread] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made.url = f"http{'s' if tls else ''}://127.0.0.1:{listener.getsockname()[1]}"

        def serve(connection: socket.socket, script: Script) -> None:
            with contextlib.suppress(OSError), connection:
                secured = tls.wrap_socket(connection, server_side=True) if tls else connection
                with secured:
                    script(secured)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    script = scripts[min(made.accepted, len(scripts) - 1)](made)
                    made.accepted += 1
                    connections.append(connection)
                    threads.append(threading.Thread(target=serve, args=(connection, script)))
                    threads[-1].start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield made
        finally:
            for client in made.clients:
                client.close()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
