"""Calls a WSGI application, which runs to its end on the calling thread, from aiohttp's server."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

from aiohttp import web

from oncekey_local.processes import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import WSGIApplication


def call(application: WSGIApplication, request: web.BaseRequest, body: bytes) -> web.Response:
    """The application's answer to this request with this body."""
    status_line = ""
    headers: list[tuple[str, str]] = []

    def start_response(status: str, response_headers: list[tuple[str, str]], _: Any = None) -> Any:
        nonlocal status_line
        status_line = status
        headers.extend(response_headers)

    content: Iterable[bytes] = application(_environment(request, body), start_response)
    # The length of what an answer to HEAD describes is not that of the answer.
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() != "content-length" or request.method == "HEAD"
    ]
    return web.Response(
        status=int(status_line.split(maxsplit=1)[0]), headers=kept, body=b"".join(content)
    )


def _environment(request: web.BaseRequest, body: bytes) -> dict[str, Any]:
    headers = {
        f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()
    }
    return headers | {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path.encode().decode("latin-1"),  # WSGI's way: each byte a letter
        "RAW_URI": request.raw_path,
        "QUERY_STRING": request.rel_url.raw_query_string,
        "SERVER_NAME": LOOPBACK,
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "CONTENT_TYPE": request.headers.get("Content-Type", "application/x-amz-json-1.0"),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
