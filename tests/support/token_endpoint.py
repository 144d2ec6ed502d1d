"""An issuer that gives its one client access tokens (RFC 6749, 4.4)."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = {"client_id": "canary", "client_secret": "s3cret", "audience": "payments"}


@contextlib.contextmanager
def issuing(token: str) -> Iterator[str]:
    """For the length of a block, give this token to the client; yields the address."""
    _Endpoint.token = token
    with ThreadingHTTPServer(("127.0.0.1", 0), _Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


class _Endpoint(BaseHTTPRequestHandler):
    token: ClassVar[str] = ""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        form = {name: one for name, (one,) in parse_qs(self.rfile.read(length).decode()).items()}
        known = form == {"grant_type": "client_credentials", **CLIENT}
        body = json.dumps({"access_token": self.token} if known else {"error": "invalid_client"})
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class's name
        """Say nothing."""
