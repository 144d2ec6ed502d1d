"""A request to the console and its response, as values: any server can carry them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON_TYPE = "application/json"
# Nothing but the console's own files is loaded, nothing inline runs, and no page may frame it.
# https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/Content-Security-Policy
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `path` begins after the console's own address; header names are lower-case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response, complete with its headers."""

    status: int
    body: bytes
    content_type: str

    @property
    def headers(self) -> dict[str, str]:
        """All headers except the length."""
        return {"Content-Type": self.content_type, **_HEADERS}


def json_response(content: object, *, status: int = 200) -> Response:
    """`content` as JSON."""
    return Response(
        status=status, body=json.dumps(content).encode(), content_type=f"{JSON_TYPE}; charset=utf-8"
    )


def problem(status: int, message: str) -> Response:
    """A refusal. The page shows `message` as it is."""
    return json_response({"message": message}, status=status)
