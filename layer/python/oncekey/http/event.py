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
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from oncekey.errors import RequestRefused
from oncekey.http import wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# The text up to the next semicolon outside quotes.
_PARAMETER = r';?(?:[^;"]|"(?:[^"\\]|\\.)*"?)+|;'
_ESCAPE = r"\\(.)"


class Shape(StrEnum):
    """The layout of an event and of its answer."""

    PAYLOAD_2 = "payload-2.0"  # HTTP API and Function URL
    REST = "payload-1.0"
    LOAD_BALANCER = "alb"
    LOAD_BALANCER_MULTI_VALUE = "alb-multi-value"


class HttpRequest:
    """A request. It is read before the handler can change the event, and never changes.

    `path` is the concrete path and not the route template. `raw_query` is still percent-encoded.
    `context` is the event's request context: what the gateway and its authorizer say about the
    caller.
    """

    __slots__ = ("_lines", "context", "is_base64", "method", "path", "raw_query", "shape", "text")

    def __init__(
        self,
        *,
        shape: Shape,
        method: str,
        path: str,
        raw_query: str,
        lines: Mapping[str, list[str]],
        text: str,
        is_base64: bool,
        context: Mapping[str, Any],
    ) -> None:
        self.shape = shape
        self.method = method
        self.path = path
        self.raw_query = raw_query
        self.text = text
        self.is_base64 = is_base64
        self.context = context
        # Header name in lower case → its lines.
        self._lines = lines

    def __repr__(self) -> str:
        """Method and path only, because a client may send secrets in every other part."""
        return f"HttpRequest({self.shape.value}: {self.method} {self.path})"

    def at(self, path: str, raw_query: str) -> HttpRequest:
        """The same request with another address."""
        return HttpRequest(
            shape=self.shape,
            method=self.method,
            path=path,
            raw_query=raw_query,
            lines=self._lines,
            text=self.text,
            is_base64=self.is_base64,
            context=self.context,
        )

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers as pairs of lower-case name and value, one pair for each line."""
        return tuple((name, line) for name, lines in self._lines.items() for line in lines)

    @property
    def body(self) -> bytes:
        """The body, decoded.

        Raises:
            RequestRefused: it is marked as base64 and is not (`request-invalid`).
        """
        if not self.is_base64:
            return self.text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(self.text, validate=True)
        except ValueError as error:
            detail = "The body is marked as base64 and is not."
            raise RequestRefused("request-invalid", detail) from error

    def header_lines(self, name: str) -> list[str]:
        """The values of the header `name` (in lower case).

        There is one value for each line, if the gateway does not join lines.
        """
        return [*self._lines.get(name, ())]

    @property
    def media_type(self) -> str:
        """The body's media type without parameters, in lower case; empty if there is none."""
        lines = self._lines.get("content-type")
        return lines[0].partition(";")[0].strip().lower() if lines else ""

    @property
    def content_type(self) -> str:
        """The body's media type in one spelling, with its parameters except the charset.

        Names are in lower case and sorted. A value has quotes only if it needs them. All different
        lines of the header are included.
        """
        lines = self._lines.get("content-type", [])
        if lines == [wire.JSON]:
            return wire.JSON
        return ", ".join(dict.fromkeys(map(_content_type, lines)))

    @property
    def served_path(self) -> str:
        """The path without prefixes that depend on the address used, if the event reveals them.

        These are the stage of an HTTP API, and the base path of a REST API's custom domain. The
        base path cannot be recognised if the route is greedy.
        """
        if self.shape is Shape.PAYLOAD_2:
            return _without_stage(self.path, self.context)
        return _as_in(self.path, self.context.get("resourcePath"))


def unread_request(event: Any) -> HttpRequest:
    """A request with only the shape and the context, for an event that is passed on unread."""
    return HttpRequest(
        shape=shape_of(event) or Shape.PAYLOAD_2,
        method="",
        path="",
        raw_query="",
        lines={},
        text="",
        is_base64=False,
        context=request_context(event),
    )


def _content_type(line: str) -> str:
    media_type, *parameters = re.findall(_PARAMETER, line) or [""]
    found: list[tuple[str, str]] = []
    for parameter in parameters:
        name, _, value = parameter.strip(" \t;").partition("=")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = re.sub(_ESCAPE, r"\1", value[1:-1])
        # A value with special characters is quoted, so that it cannot look like more parameters.
        found.append((name.strip().lower(), value if value.isalnum() else json.dumps(value)))
    kept = sorted(pair for pair in found if pair[0] not in {"", "charset"})
    return ";".join([media_type.strip().lower(), *(f"{name}={value}" for name, value in kept)])


def _without_stage(path: str, context: Mapping[str, Any]) -> str:
    stage = context.get("stage")
    if not isinstance(stage, str) or stage in {"", "$default"}:
        return path
    # A route may begin with the stage's name. Then that is a part of the path.
    template = str(context.get("routeKey") or "").partition(" ")[2]
    return path if begins_with(template, f"/{stage}") else without_prefix(path, f"/{stage}")


def _as_in(path: str, template: object) -> str:
    """The last segments of `path` if they match `template`, otherwise the whole path."""
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
    """Whether `path` begins with the segments of `prefix`."""
    return path == prefix or path.startswith(f"{prefix}/")


def without_prefix(path: str, prefix: str) -> str:
    """`path` without `prefix`, or unchanged if it does not begin with it."""
    return path[len(prefix) :] or "/" if begins_with(path, prefix) else path


def read_request(event: Mapping[str, Any]) -> HttpRequest:
    """Read `event`.

    Raises:
        TypeError: the event is not an HTTP request of any of the four shapes.
    """
    if not isinstance(event, dict):
        raise TypeError(
            f"oncekey: an HTTP event is a dict, not {type(event).__name__}: write @idempotent above"
            " a decorator that converts the event (event_parser, event_source), to get it as it is"
        )
    shape = shape_of(event)
    if shape is None:
        raise TypeError(_no_request(event))
    try:
        return _read(event, shape)
    except (AttributeError, KeyError, TypeError) as error:
        # A member has another type than in any event of a gateway.
        raise TypeError(_no_request(event)) from error


def _read(event: Mapping[str, Any], shape: Shape) -> HttpRequest:
    context: Mapping[str, Any] = event["requestContext"]
    if shape is Shape.PAYLOAD_2:
        method, path = context["http"]["method"], event["rawPath"]
        raw_query = str(event.get("rawQueryString") or "")
    else:
        method, path, raw_query = event["httpMethod"], event["path"], _raw_query(event, shape)
    return HttpRequest(
        shape=shape,
        method=str(method).upper(),
        path=str(path),
        raw_query=raw_query,
        lines=_header_lines(event),
        text=str(event.get("body") or ""),
        is_base64=bool(event.get("isBase64Encoded")),
        context=context,
    )


def _no_request(event: object) -> str:
    from oncekey.misuse import A_REQUEST, event_kind

    no_request = (
        "oncekey: the event is no HTTP request of API Gateway (HTTP or REST API),"
        " an Application Load Balancer or a Function URL"
    )
    kind = event_kind(event)
    if not kind:
        return no_request
    if kind == A_REQUEST:
        return (
            f"{no_request}: it looks like one, and lacks a member that every gateway sends, such as"
            " requestContext.http or path, or has it in another type; in a test, make it with"
            " oncekey.testing.api_event"
        )
    return f"{no_request}, but {kind}: protect the function of one of them by @idempotent_function"


def request_context(event: object) -> Mapping[str, Any]:
    """The request context of `event`, which describes the caller; empty if it has none."""
    context: object = event.get("requestContext") if isinstance(event, dict) else None
    return context if isinstance(context, dict) else {}


def shape_of(event: object) -> Shape | None:
    """The shape of `event`, or None if it is not an HTTP request."""
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


def _header_lines(event: Mapping[str, Any]) -> Mapping[str, list[str]]:
    many: Mapping[str, Any] | None = event.get("multiValueHeaders")
    if many is not None:
        return _joined((name, values or ()) for name, values in many.items())
    single: Mapping[str, Any] = event.get("headers") or {}
    lines = {name.lower(): [str(value)] for name, value in single.items() if value is not None}
    if len(lines) == len(single):
        return lines
    # The sizes differ if a header has no value, or if a name occurs in two spellings.
    return _joined((name, [value]) for name, value in single.items() if value is not None)


def _joined(headers: Iterable[tuple[str, Iterable[Any]]]) -> Mapping[str, list[str]]:
    joined: dict[str, list[str]] = {}
    for name, values in headers:
        joined.setdefault(name.lower(), []).extend(map(str, values))
    return joined


def _raw_query(event: Mapping[str, Any], shape: Shape) -> str:
    many: Mapping[str, list[str]] | None = event.get("multiValueQueryStringParameters")
    single: Mapping[str, str] = event.get("queryStringParameters") or {}
    pairs = (
        [(name, value) for name, values in many.items() for value in values or [""]]
        if many is not None
        else list(single.items())
    )
    if pairs and shape is Shape.REST:
        from urllib.parse import quote

        # A REST API decodes the query. A load balancer passes it on unchanged.
        pairs = [
            (quote(name, errors="surrogatepass"), quote(value or "", errors="surrogatepass"))
            for name, value in pairs
        ]
    return "&".join(f"{name}={value or ''}" for name, value in pairs)
