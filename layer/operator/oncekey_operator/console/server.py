"""The console as a server of its own, on the loopback address."""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

from oncekey_operator.console.exchange import Request

if TYPE_CHECKING:
    from oncekey_operator.console.console import Console

LOOPBACK = "127.0.0.1"
# More than any action has to say.
_MOST_BODY_BYTES = 2 * 1024 * 1024


def request_of(
    method: str, target: str, headers: dict[str, str], body: bytes, *, prefix: str = "/"
) -> Request:
    """The request for a path and query as they were sent, below `prefix`."""
    # Not by `urlsplit`, which takes a path with two slashes for a host, and may refuse it.
    path, _, query = target.partition("#")[0].partition("?")
    return Request(
        method=method,
        path=unquote(path.removeprefix(prefix)),
        query=dict(parse_qsl(query)),
        headers=headers,
        body=body,
    )


class ConsoleServer(ThreadingHTTPServer):
    """Serves one console. Port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, console: Console, port: int) -> None:
        self.console = console
        super().__init__((LOOPBACK, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a page that was closed before its answer came."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{LOOPBACK}:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    server: ConsoleServer
    protocol_version = "HTTP/1.1"
    timeout = 30  # a connection that says nothing holds no thread for ever

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def log_message(self, *_: Any) -> None:
        """The requests of a page that asks every few seconds are no news."""

    def _handle(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _MOST_BODY_BYTES:
            self.close_connection = True
            self.send_error(413)
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(length))
        request = request_of(self.command, self.path, headers, body)
        response = self.server.console.handle(request)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)
