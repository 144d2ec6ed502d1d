"""DynamoDB on moto behind a socket, for the direct transport, which `mock_aws` does not patch.

It has the tables of the `mocked_aws` around it, so that a client of boto3's in the same process
sees what was written through the socket.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from moto.moto_server.werkzeug_app import create_backend_app

from oncekey import DynamoDBStore
from oncekey.store.direct.client import DirectClient
from tests.support.dynamodb import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


def read_request(connection: socket.socket) -> tuple[dict[str, str], bytes] | None:
    """The headers, by their names in lower case, and the body of a request; None at the end."""
    data = b""
    while b"\r\n\r\n" not in data:
        received = connection.recv(65536)
        if not received:
            return None
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")[1:]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65536)
    return headers, body


def answer(
    body: bytes, status: int = 200, headers: dict[str, str] | None = None, *, crc: bool = True
) -> bytes:
    """An answer of DynamoDB's, as it is sent."""
    lines = {"Content-Type": "application/x-amz-json-1.0", "Content-Length": str(len(body))}
    if crc:
        lines["x-amz-crc32"] = str(crc32(body))
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Whatever\r\n{head}\r\n".encode() + body


@dataclass
class Wire:
    """The socket's address, what came by, and what is to be lost.

    `lose` applies requests and drops the answers, `refuse` drops requests before they are applied:
    the connection is closed.
    """

    url: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    stores: list[DynamoDBStore] = field(default_factory=list)
    _lose: dict[str, int] = field(default_factory=dict)
    _refuse: dict[str, int] = field(default_factory=dict)

    @property
    def operations(self) -> list[str]:
        """The names of the calls."""
        return [name for name, _ in self.calls]

    @property
    def environment(self) -> dict[str, str]:
        """What leads a client here."""
        return ENVIRONMENT | {"AWS_ENDPOINT_URL": self.url}

    def client(self, call_timeout_ms: int = 20_000) -> DirectClient:
        """A direct client that reaches this socket, with patience for a busy machine."""
        return DirectClient(self.environment, call_timeout_ms)

    def store(self, **options: Any) -> DynamoDBStore:
        """A store on the table under test whose calls go through this socket."""
        store = DynamoDBStore(TABLE, **options)
        store._client = self.client()  # type: ignore[assignment]  # as the store makes it itself
        self.stores.append(store)
        return store

    def lose(self, operation: str, count: int = 1) -> None:
        """Apply the next `count` calls of `operation` and drop their answers."""
        self._lose[operation] = count

    def refuse(self, operation: str, count: int = 1) -> None:
        """Drop the next `count` calls of `operation` before they are applied."""
        self._refuse[operation] = count

    def serve(self, connection: socket.socket, app: Any, one_at_a_time: threading.Lock) -> None:
        """Answer the requests of one connection until it ends."""
        with connection, contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := read_request(connection)) is not None:
                headers, body = request
                name = headers["x-amz-target"].rpartition(".")[2]
                self.calls.append((name, json.loads(body)))
                if _take(self._refuse, name):
                    return
                with one_at_a_time:
                    applied = app.post("/", data=body, headers=headers)
                if _take(self._lose, name):
                    return
                connection.sendall(answer(applied.data, applied.status_code))


def _take(counts: dict[str, int], operation: str) -> bool:
    left = counts.get(operation, 0)
    counts[operation] = max(0, left - 1)
    return left > 0


@cache
def _moto() -> Any:
    return create_backend_app("dynamodb").test_client()


@contextlib.contextmanager
def wire() -> Iterator[Wire]:
    """A socket in front of moto's tables. It must be opened within `mocked_aws`."""
    made, app, lock = Wire(), _moto(), threading.Lock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        threads: list[threading.Thread] = []
        accepted: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    accepted.append(connection)
                    serving = threading.Thread(target=made.serve, args=(connection, app, lock))
                    threads.append(serving)
                    serving.start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield made
        finally:
            for store in made.stores:
                store._connected().close()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for connection in accepted:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for serving in threads:
                serving.join()
