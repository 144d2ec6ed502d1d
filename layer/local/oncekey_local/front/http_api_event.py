"""An HTTP request as the event that API Gateway's HTTP API makes of it: payload format 2.0.

This module is pure: it computes the event from values only.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from oncekey.testing.gateway_shapes import arrives_as_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ACCOUNT_ID = "123456789012"
API_ID = "local"
STAGE = "$default"
# Lambda's limit for the event and for the answer of a synchronous invocation.
MAX_PAYLOAD_BYTES = 6 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """A request as it came over the wire.

    Header bytes are read as Latin-1, so that every byte is preserved.
    """

    method: str
    raw_path: str
    raw_query: str
    protocol: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    source_ip: str


@dataclass(frozen=True, kw_only=True)
class Reception:
    """The gateway's additions to a request: its route, its caller's claims, an id and the time.

    `claims` is None if the route has no authorizer.
    """

    route_key: str
    path_parameters: Mapping[str, str]
    claims: Mapping[str, str] | None
    request_id: str
    time_ms: int
    domain_name: str


def event_bytes(request: HttpRequest, reception: Reception) -> bytes:
    """The event as the JSON document that the function's runtime reads."""
    return json.dumps(event(request, reception), separators=(",", ":")).encode()


def event(request: HttpRequest, reception: Reception) -> dict[str, Any]:
    """The event. Like API Gateway, it leaves out some members if they are empty."""
    headers, cookies = _headers_and_cookies(request.headers)
    optional: dict[str, Any] = {
        "cookies": cookies,
        "queryStringParameters": _query_parameters(request.raw_query),
        "pathParameters": dict(reception.path_parameters),
    }
    body, is_base64 = _body(request.body, headers.get("content-type", ""))
    return {
        "version": "2.0",
        "routeKey": reception.route_key,
        "rawPath": request.raw_path,
        "rawQueryString": request.raw_query,
        "headers": headers,
        **{name: value for name, value in optional.items() if value},
        "requestContext": _request_context(request, reception, headers),
        **({"body": body} if request.body else {}),
        "isBase64Encoded": is_base64,
    }


def _request_context(
    request: HttpRequest, reception: Reception, headers: Mapping[str, str]
) -> dict[str, Any]:
    claims = reception.claims
    authorizer = {} if claims is None else {"jwt": {"claims": dict(claims), "scopes": None}}
    return {
        "accountId": ACCOUNT_ID,
        "apiId": API_ID,
        **({"authorizer": authorizer} if authorizer else {}),
        "domainName": reception.domain_name,
        "domainPrefix": reception.domain_name.partition(".")[0],
        "http": {
            "method": request.method,
            "path": request.raw_path,
            "protocol": request.protocol,
            "sourceIp": request.source_ip,
            "userAgent": headers.get("user-agent", ""),
        },
        "requestId": reception.request_id,
        "routeKey": reception.route_key,
        "stage": STAGE,
        "time": datetime.fromtimestamp(reception.time_ms / 1000, tz=UTC).strftime(
            "%d/%b/%Y:%H:%M:%S +0000"
        ),
        "timeEpoch": reception.time_ms,
    }


def _headers_and_cookies(lines: Sequence[tuple[str, str]]) -> tuple[dict[str, str], list[str]]:
    """The headers by lower-case name, repeated lines joined by commas; and the single cookies."""
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for name, value in lines:
        lower = name.lower()
        if lower == "cookie":
            cookies += [cookie for part in value.split(";") if (cookie := part.strip())]
        else:
            headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
    return headers, cookies


def _query_parameters(raw_query: str) -> dict[str, str]:
    """The decoded parameters. The values of repeated names are joined by commas."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(raw_query, keep_blank_values=True):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    return parameters


def _body(body: bytes, content_type: str) -> tuple[str, bool]:
    if not body:
        return "", False
    if arrives_as_text(content_type):
        try:
            return body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass  # declared as text, but it is not: only base64 preserves it
    return base64.b64encode(body).decode("ascii"), True
