"""Powertools' responses as proxy answers, which are stored, and back.

The stored answer is the one that the resolver sends, without the parts that depend on the request:
CORS headers for its origin, Cache-Control, and gzip if its client accepts it. The resolver adds
these to a replay as it does to a first answer. `compress`, which is not a part of a proxy answer,
is stored with it.

This module uses some private names of Powertools, because no public name gives a resolver's
serializer, its answer to an exception, or its routes.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler.api_gateway import Response, ResponseBuilder
from aws_lambda_powertools.event_handler.openapi.exceptions import (
    RequestValidationError,
    ResponseValidationError,
)
from aws_lambda_powertools.shared.cookies import Cookie

try:
    from aws_lambda_powertools.event_handler.depends import DependencyResolutionError
except ImportError:  # older releases have no Depends()
    _WRAPPERS: tuple[type[Exception], ...] = ()
else:
    _WRAPPERS = (DependencyResolutionError,)

from oncekey.http.event import Shape
from oncekey.http.headers import header_lines, with_cookies_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.event_handler.api_gateway import ApiGatewayResolver, Route

    from oncekey.http.answer import Answer

# Requests are validated before any middleware runs. So below a middleware, these exceptions mean
# that the route's answer does not fit its declared type.
_MISFITS = (RequestValidationError, ResponseValidationError)


class _SentCookie(Cookie):
    """A cookie that is written again with its stored text."""

    def __init__(self, text: str) -> None:
        name, _, value = text.partition(";")[0].partition("=")
        super().__init__(name=name, value=value)
        self._text = text

    def __str__(self) -> str:
        return self._text


def response_from(app: ApiGatewayResolver, returned: Any) -> Response[Any]:
    """The response for the value `returned` by a route or a middleware."""
    response: Any = app._to_response(returned)  # noqa: SLF001 -- see the top of this module
    assert isinstance(response, Response), "an HTTP resolver makes no other responses"
    return response


def answer_of(app: ApiGatewayResolver, response: Response[Any]) -> Answer:
    """The answer that the resolver sends for `response`.

    Raises:
        Exception: any exception of the resolver's serializer.
    """
    # A builder without a route adds nothing to the response.
    builder: ResponseBuilder[Any] = ResponseBuilder(response, app._serializer)  # noqa: SLF001
    answer: Answer = builder.build(app.current_event)
    if response.compress is not None:
        answer["compress"] = response.compress
    return answer


def response_of(answer: Mapping[str, Any]) -> Response[Any]:
    """The response that the resolver sends as `answer`, whose event may have had another shape."""
    # The resolver writes cookies in the form of its own event.
    unified = with_cookies_for(dict(answer), Shape.PAYLOAD_2)
    cookies = unified.get("cookies") or []
    # A gateway sends a number, as in `Final(429, headers={"Retry-After": 5})`, as text.
    lines = header_lines(unified)
    response: Response[Any] = Response(
        status_code=int(answer["statusCode"]),
        body=answer.get("body"),
        headers={name: one[0] if len(one) == 1 else one for name, one in lines.items()},
        cookies=[_SentCookie(text) for text in cookies],
        compress=answer.get("compress"),
    )
    if response.body is None and response.is_json():
        # The resolver would serialise it as `null`.
        response.body = ""
    if answer.get("isBase64Encoded"):
        content = _decoded(answer.get("body"))
        if content is None or response.is_json():
            # Otherwise the resolver would serialise these bytes as JSON again.
            response.base64_encoded = True
        else:
            response.body = content
    return response


def answer_to_exception(app: ApiGatewayResolver, route: Route, error: Exception) -> Answer | None:
    """Powertools' answer if `route` raises `error`; None if Powertools does not handle it.

    It is also None if the route's answer does not fit its declared type: Powertools' 422 does not
    tell what the route has done.
    """
    if isinstance(error, _MISFITS):
        return None
    builder = app._call_exception_handler(error, route)  # noqa: SLF001
    return None if builder is None else answer_of(app, builder.response)


def cause_of(error: Exception) -> BaseException:
    """The exception without the one that `Depends()` wraps around it."""
    if isinstance(error, _WRAPPERS) and error.__cause__ is not None:
        return error.__cause__
    return error


def matched_route(app: ApiGatewayResolver) -> Route | None:
    """The route that matches the request; None for the resolver's own routes (404, preflight)."""
    route: Route = app.context["_route"]
    known = [*app._static_routes, *app._dynamic_routes]  # noqa: SLF001
    return route if any(route is other for other in known) else None


def _decoded(body: Any) -> bytes | None:
    """The bytes whose base64 is exactly `body`; None if there are none."""
    if not isinstance(body, str):
        return None
    try:
        content = base64.b64decode(body, validate=True)
    except ValueError:
        return None
    return content if base64.b64encode(content).decode("ascii") == body else None
