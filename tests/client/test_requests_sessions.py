"""What a session of requests sends by itself goes through the adapter, too."""

from __future__ import annotations

import io
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
import requests
from requests.auth import HTTPDigestAuth

from oncekey.client import IdempotentAdapter, Retrying
from oncekey.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHALLENGE = 'Digest realm="payments", nonce="abc", qop="auth"'
_Sent = tuple[str, bytes, str | None]


class _Server(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[_Sent] = []
        self.signed = 0


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """A redirect; or a challenge, then a failure, and then the answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, body, self.headers["Idempotency-Key"]))
        if self.path == "/old":
            self._answer(307, {"Location": "/new"})
        elif self.path == "/signed" and not self.headers["Authorization"]:
            self._answer(401, {"WWW-Authenticate": _CHALLENGE})
        elif self.path == "/signed" and not self.server.signed:
            self.server.signed += 1
            self._answer(503, {})
        else:
            self._answer(201, {})

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": "0"}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_parts: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    """A server that is reached over HTTP."""
    with _Server() as made:
        serving = threading.Thread(target=made.serve_forever, args=(0.01,))
        serving.start()
        yield made
        made.shutdown()
        serving.join()


def _post(server: _Server, path: str, *, auth: HTTPDigestAuth | None = None) -> int:
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", IdempotentAdapter(retrying=Retrying(clock=ManualClock())))
        url = f"http://127.0.0.1:{server.server_port}{path}"
        return session.post(url, data=io.BytesIO(b"a file"), auth=auth, timeout=20).status_code


def test_a_file_follows_a_redirect(server: _Server) -> None:
    """A redirect that keeps the method gets the whole file under the same key.

    Red when requests rewinds what is no file any more.
    """
    assert _post(server, "/old") == 201

    key = server.got[0][2]
    assert server.got == [("/old", b"a file", key), ("/new", b"a file", key)]


def test_a_request_that_answers_a_challenge_is_tried_again(server: _Server) -> None:
    """The second sending of a digest's authentication is retried under the key of the first.

    Red when it goes past the adapter.
    """
    assert _post(server, "/signed", auth=HTTPDigestAuth("a", "b")) == 201

    assert server.got == [("/signed", b"a file", server.got[0][2])] * 3
