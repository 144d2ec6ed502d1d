"""HTTP requests as Lambda receives them, in all four shapes.

HTTP API (payload 2.0), REST API (payload 1.0), Application Load Balancer, and Function URL (payload
2.0).
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from oncekey.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# A piece up to the next semicolon that stands in no quotes.
_PARAMETER = re.compile(r';?(?:[^;"]|"(?:[^"\\]|\\.)*"?)+|;')
_ESCAPE = re.compile(r"\\(.)")


class Shape(StrEnum):
    """How the event is laid out, and how its answer must be."""

    PAYLOAD_2 = "payload-2.0"  # HTTP API and Function URL
    REST = "payload-1.0"
    LOAD_BALANCER = "alb"
    LOAD_BALANCER_MULTI_VALUE = "alb-multi-value"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request, read once, before the handler can touch the event.

    `path` is concrete, `raw_query` still percent-encoded, `headers` are pairs in lower case with
    one entry a line, `context` is the event's request context: what the gateway and its authorizer
    state about the caller.
    """

    shape: Shape
    method: str
    path: str
    raw_query: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    text: str = field(repr=False)
    is_base64: bool
    context: Mapping[str, Any] = field(repr=False)

    @property
    def body(self) -> bytes:
        """The body, decoded.

        Raises:
            RequestRefused: it is said to be base64 and is not (`request-invalid`).
        """
        if not self.is_base64:
            return self.text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(self.text, validate=True)
        except ValueError as error:
            detail = "The body is marked as base64 and is not."
            raise RequestRefused("request-invalid", detail) from error

    def header_lines(self, name: str) -> list[str]:
        """The values of the header `name` (given in lower case).

        There is one for each line, as far as the gateway tells lines apart.
        """
        return [value for header, value in self.headers if header == name]

    @property
    def media_type(self) -> str:
        """The body's media type without parameters, in lower case; empty if it is not stated."""
        return next(iter(self.header_lines("content-type")), "").partition(";")[0].strip().lower()

    @property
    def content_type(self) -> str:
        """The body's media type in one spelling, with its parameters but for the charset.

        Names are in lower case and sorted, values without quotes. Lines that differ are all there.
        """
        lines = dict.fromkeys(_content_type(line) for line in self.header_lines("content-type"))
        return ", ".join(lines)

    @property
    def served_path(self) -> str:
        """The path without what only says by which way it came, as far as the event says so.

        That is the stage of an HTTP API, and the base path of a REST API's custom domain, unless
        its route is greedy.
        """
        if self.shape is Shape.PAYLOAD_2:
            return _without_stage(self.path, self.context)
        return _as_in(self.path, self.context.get("resourcePath"))


def unread_request(event: Any) -> HttpRequest:
    """What is known of an event that is passed on unread: its shape and its context."""
    return HttpRequest(
        shape=shape_of(event) or Shape.PAYLOAD_2,
        method="",
        path="",
        raw_query="",
        headers=(),
        text="",
        is_base64=False,
        context=request_context(event),
    )


def _content_type(line: str) -> str:
    media_type, *parameters = _PARAMETER.findall(line) or [""]
    found: list[tuple[str, str]] = []
    for parameter in parameters:
        name, _, value = parameter.strip(" \t;").partition("=")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = _ESCAPE.sub(r"\1", value[1:-1])
        # Quoted only where it must be, so that no value can be taken for further parameters.
        found.append((name.strip().lower(), value if value.isalnum() else json.dumps(value)))
    kept = sorted(pair for pair in found if pair[0] not in {"", "charset"})
    return ";".join([media_type.strip().lower(), *(f"{name}={value}" for name, value in kept)])


def _without_stage(path: str, context: Mapping[str, Any]) -> str:
    stage = context.get("stage")
    if not isinstance(stage, str) or stage in {"", "$default"}:
        return path
    # A route may begin like the stage; then the path does so by itself.
    template = str(context.get("routeKey") or "").partition(" ")[2]
    return path if begins_with(template, f"/{stage}") else without_prefix(path, f"/{stage}")


def _as_in(path: str, template: object) -> str:
    """The end of `path` that has the segments of `template`, where it has more than these."""
    if not isinstance(template, str) or not template.startswith("/") or "+}" in template:
        return path
    segments, wanted = path.split("/")[1:], template.split("/")[1:]
    end = segments[-len(wanted) :]
    if len(segments) <= len(wanted):
        return path
    pairs = zip(wanted, end, strict=True)
    is_same = all(each.startswith("{") or each == segment for each, segment in pairs)
    return "/" + "/".join(end) if is_same else path


def begins_with(path: str, prefix: str) -> bool:
    """Whether the first segments of `path` are those of `prefix`."""
    return path == prefix or path.startswith(f"{prefix}/")


def without_prefix(path: str, prefix: str) -> str:
    """`path` without `prefix`, if that is what it begins with."""
    return path[len(prefix) :] or "/" if begins_with(path, prefix) else path


def read_request(event: Mapping[str, Any]) -> HttpRequest:
    """Read `event`.

    Raises:
        TypeError: the event is not an HTTP request of any of the four shapes.
    """
    if not isinstance(event, dict):
        raise TypeError(f"oncekey: an HTTP event is a dict, not {type(event).__name__}")
    shape = shape_of(event)
    if shape is None:
        raise TypeError(
            "oncekey: the event is no HTTP request of API Gateway (HTTP or REST API),"
            " an Application Load Balancer or a Function URL"
        )
    context: Mapping[str, Any] = event.get("requestContext") or {}
    if shape is Shape.PAYLOAD_2:
        method, path, raw_query = (
            context["http"]["method"],
            event["rawPath"],
            event.get("rawQueryString") or "",
        )
    else:
        method, path, raw_query = event["httpMethod"], event["path"], _raw_query(event, shape)
    return HttpRequest(
        shape=shape,
        method=str(method).upper(),
        path=str(path),
        raw_query=raw_query,
        headers=tuple(_headers(event)),
        text=str(event.get("body") or ""),
        is_base64=bool(event.get("isBase64Encoded")),
        context=context,
    )


def request_context(event: object) -> Mapping[str, Any]:
    """What `event` states about its caller; empty if it is no HTTP request."""
    context: object = event.get("requestContext") if isinstance(event, dict) else None
    return context if isinstance(context, dict) else {}


def shape_of(event: object) -> Shape | None:
    """The shape of `event`, or None if it is no HTTP request of any."""
    context = request_context(event)
    if not isinstance(event, dict) or not context:
        return None
    if isinstance(context.get("http"), dict) and "rawPath" in event:
        return Shape.PAYLOAD_2
    if "httpMethod" not in event or "path" not in event:
        return None
    if "elb" not in context:
        return Shape.REST
    multi_value = event.get("multiValueHeaders") is not None
    return Shape.LOAD_BALANCER_MULTI_VALUE if multi_value else Shape.LOAD_BALANCER


def _headers(event: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    many: Mapping[str, Any] | None = event.get("multiValueHeaders")
    if many is not None:
        return [
            (name.lower(), str(value)) for name, values in many.items() for value in values or []
        ]
    single: Mapping[str, Any] = event.get("headers") or {}
    return [(name.lower(), str(value)) for name, value in single.items() if value is not None]


def _raw_query(event: Mapping[str, Any], shape: Shape) -> str:
    many: Mapping[str, list[str]] | None = event.get("multiValueQueryStringParameters")
    single: Mapping[str, str] = event.get("queryStringParameters") or {}
    pairs = (
        [(name, value) for name, values in many.items() for value in values or [""]]
        if many is not None
        else list(single.items())
    )
    # A REST API decodes the query; a load balancer hands it on as it came.
    encode = partial(quote, errors="surrogatepass") if shape is Shape.REST else str
    return "&".join(f"{encode(name)}={encode(value or '')}" for name, value in pairs)
