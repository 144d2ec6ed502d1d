"""A function's result as the HTTP response that API Gateway makes of it: payload format 2.0."""

from __future__ import annotations

import base64
import binascii
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from oncekey.http import wire

if TYPE_CHECKING:
    from collections.abc import Iterable

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# A line feed, a carriage return or a NUL would end the header and begin another.
_UNSAFE = re.compile(r"[\r\n\0]")
# Headers that only the gateway may set.
_HOP_BY_HOP = frozenset(
    {"connection", "content-length", "keep-alive", "transfer-encoding", "upgrade"}
)


class InvalidResponse(Exception):  # noqa: N818 - the name of the answer
    """The function's result is not a valid response. The message says why."""


@dataclass(frozen=True, kw_only=True)
class HttpResponse:
    """A response: header lines in order, one for each cookie."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def gateway_response(status: int, message: str) -> HttpResponse:
    """The gateway's own answer, with its one-member body."""
    body = json.dumps({"message": message}, separators=(",", ":")).encode()
    return HttpResponse(status=status, headers=(("content-type", "application/json"),), body=body)


def remark_on(headers: Iterable[tuple[str, Any]], body: str | bytes) -> str:
    """What to say of an answer besides its status: `replayed`, or the code of its problem.

    The code alone: the rest of a problem may repeat what the client sent.
    """
    lines = {name.lower(): str(value) for name, value in headers}
    if lines.get(wire.REPLAYED.lower()) == "true":
        return "replayed"
    if not lines.get("content-type", "").startswith(wire.PROBLEM):
        return ""
    with suppress(ValueError, AttributeError, RecursionError):
        return str(json.loads(body).get("type", "")).rpartition(":")[2]
    return ""


NOT_FOUND = gateway_response(404, "Not Found")
UNAUTHORIZED = gateway_response(401, "Unauthorized")
BAD_REQUEST = gateway_response(400, "Bad Request")
REQUEST_TIMEOUT = gateway_response(408, "Request Timeout")
TOO_LARGE = gateway_response(413, "Request Entity Too Large")
INTERNAL_SERVER_ERROR = gateway_response(500, "Internal Server Error")
SERVICE_UNAVAILABLE = gateway_response(503, "Service Unavailable")


def response(payload: bytes) -> HttpResponse:
    """The response that a function's JSON result describes; raises `InvalidResponse`."""
    try:
        result = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise InvalidResponse("it is not JSON, or nested too deep") from error
    if not isinstance(result, dict) or "statusCode" not in result:
        return _inferred(result)
    body = _body(result)
    headers = _headers(result)
    if not any(name == "content-type" for name, _ in headers):
        headers.append(("content-type", "text/plain;charset=UTF-8"))
    headers += [("set-cookie", cookie) for cookie in _cookies(result)]
    return HttpResponse(status=_status(result["statusCode"]), headers=tuple(headers), body=body)


def _inferred(result: Any) -> HttpResponse:
    text = result if isinstance(result, str) else json.dumps(result, separators=(",", ":"))
    return HttpResponse(
        status=HTTPStatus.OK,
        headers=(("content-type", "application/json"),),
        body=_encoded(text),
    )


def _status(value: object) -> int:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if re.fullmatch(r"[2-5][0-9]{2}", text, re.ASCII):
        return int(text)
    raise InvalidResponse("statusCode must be a number from 200 to 599")


def _headers(result: dict[str, Any]) -> list[tuple[str, str]]:
    headers = result.get("headers")
    if headers is None:
        return []
    if not isinstance(headers, dict):
        raise InvalidResponse("headers must be an object")
    lines = [(name.lower(), _header_value(name, value)) for name, value in headers.items()]
    return [line for line in lines if line[0] not in _HOP_BY_HOP]


def _header_value(name: str, value: object) -> str:
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise InvalidResponse("the value of each header must be text")
    if not _TOKEN.fullmatch(name) or _UNSAFE.search(text) or not _encodable(text):
        raise InvalidResponse("a header has characters that no header may have")
    return text


def _cookies(result: dict[str, Any]) -> list[str]:
    cookies = result.get("cookies")
    if cookies is None:
        return []
    if not isinstance(cookies, list) or not all(isinstance(cookie, str) for cookie in cookies):
        raise InvalidResponse("cookies must be a list of texts")
    return [_header_value("set-cookie", cookie) for cookie in cookies]


def _body(result: dict[str, Any]) -> bytes:
    body = result.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise InvalidResponse("body must be text")
    if not result.get("isBase64Encoded"):
        return _encoded(body)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidResponse("body is said to be base64 and is not") from error


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidResponse("body has half of a surrogate pair, which is no text") from error


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
