"""A way to a server on which answers are lost: an HTTP proxy in the process of the test."""

from __future__ import annotations

import contextlib
import http.client
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE_S = 60


@dataclass
class Passed:
    """An answer that came by, whether or not it was handed on."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Way:
    """The proxy: `url` is where it listens, `passed` what came by, in order.

    The next `drop` answers are lost: the connection is closed once the server has answered.
    `on_answer` is called with each answer before it is handed on.
    """

    url: str = ""
    drop: int = 0
    passed: list[Passed] = field(default_factory=list)
    on_answer: Callable[[Passed], None] = lambda _passed: None


class _Forwarder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_url: str

    def _handed_on(self) -> tuple[Passed, list[tuple[str, str]]]:
        """The server's answer to the request, and its header lines."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.server_url)
        server = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=_PATIENCE_S
        )
        with contextlib.closing(server):
            server.request("POST", self.path, body=body, headers=dict(self.headers.items()))
            response = server.getresponse()
            lines = response.getheaders()
            names = {name.lower(): value for name, value in lines}
            return Passed(response.status, names, response.read()), lines

    def _answer(self, passed: Passed, lines: list[tuple[str, str]]) -> None:
        self.send_response_only(passed.status)
        for name, value in lines:
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(passed.body)))
        self.end_headers()
        self.wfile.write(passed.body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def way_to(url: str) -> Iterator[Way]:
    """A proxy in front of `url`, for the length of a block."""
    way = Way()

    class Handler(_Forwarder):
        server_url = url

        def do_POST(self) -> None:
            """Hand on the request, and the answer unless it is to be lost."""
            passed, lines = self._handed_on()
            way.passed.append(passed)
            way.on_answer(passed)
            if way.drop:
                way.drop -= 1
                self.close_connection = True
                return
            self._answer(passed, lines)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        way.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield way
        finally:
            server.shutdown()
            thread.join()
