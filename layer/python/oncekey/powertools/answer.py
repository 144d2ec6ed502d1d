"""Powertools' responses as the proxy answers that are stored, and back.

What is stored is the answer as the resolver would send it, but for what the resolver adds for one
request: CORS headers for its origin, Cache-Control, and gzip where its client accepts that. A
replay becomes a response again before the resolver adds them, so they come out as they would on a
first answer to the same request. `compress`, which no proxy answer has, is stored beside it.

Some of what is used here is private in Powertools: nothing public gives a resolver's serializer,
its answer to an exception, or the routes that it knows.
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
from oncekey.http.headers import with_cookies_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.event_handler.api_gateway import ApiGatewayResolver, Route

    from oncekey.http.answer import Answer

# Raised below a middleware these say that the route's own answer does not fit its declared type:
# requests are validated before any middleware runs.
_MISFITS = (RequestValidationError, ResponseValidationError)


class _SentCookie(Cookie):
    """A cookie that was written before, and is written the same again."""

    def __init__(self, text: str) -> None:
        name, _, value = text.partition(";")[0].partition("=")
        super().__init__(name=name, value=value)
        self._text = text

    def __str__(self) -> str:
        return self._text


def response_from(app: ApiGatewayResolver, returned: Any) -> Response[Any]:
    """The response that `returned`, by a route or a middleware, stands for."""
    response: Any = app._to_response(returned)  # noqa: SLF001 -- see the top of this module
    assert isinstance(response, Response), "an HTTP resolver makes no other responses"
    return response


def answer_of(app: ApiGatewayResolver, response: Response[Any]) -> Answer:
    """The answer that `response` is sent as.

    Raises:
        Exception: what the resolver's serializer raises.
    """
    # A builder that knows no route adds nothing to the response.
    builder: ResponseBuilder[Any] = ResponseBuilder(response, app._serializer)  # noqa: SLF001
    answer: Answer = builder.build(app.current_event)
    if response.compress is not None:
        answer["compress"] = response.compress
    return answer


def response_of(answer: Mapping[str, Any]) -> Response[Any]:
    """The response that is sent as `answer`, in whichever shape that was stored."""
    # However they were sent, the resolver sends cookies as its own event wants them.
    unified = with_cookies_for(dict(answer), Shape.PAYLOAD_2)
    many: dict[str, list[str]] = dict(unified.get("multiValueHeaders") or {})
    cookies = unified.get("cookies") or []
    # A number, as of `Final(429, headers={"Retry-After": 5})`, is a line of text to a gateway.
    single = {
        name: str(value)
        for name, value in (answer.get("headers") or {}).items()
        if value is not None
    }
    response: Response[Any] = Response(
        status_code=int(answer["statusCode"]),
        body=answer.get("body"),
        headers={**many, **single},
        cookies=[_SentCookie(text) for text in cookies],
        compress=answer.get("compress"),
    )
    if answer.get("isBase64Encoded"):
        content = _decoded(answer.get("body"))
        if content is None or response.is_json():
            # Bytes of this type would be serialised as JSON once more.
            response.base64_encoded = True
        else:
            response.body = content
    return response


def answer_to_exception(app: ApiGatewayResolver, route: Route, error: Exception) -> Answer | None:
    """What Powertools answers where `route` raises `error`; None where it lets it through.

    None as well for a misfit between the route's answer and its declared type: the answer that
    Powertools gives then says nothing of what was done.
    """
    if isinstance(error, _MISFITS):
        return None
    builder = app._call_exception_handler(error, route)  # noqa: SLF001
    return None if builder is None else answer_of(app, builder.response)


def cause_of(error: Exception) -> BaseException:
    """What was raised, without what `Depends()` wraps around it."""
    if isinstance(error, _WRAPPERS) and error.__cause__ is not None:
        return error.__cause__
    return error


def matched_route(app: ApiGatewayResolver) -> Route | None:
    """The route that the request was matched with; None for the resolver's own (404, preflight)."""
    route: Route = app.context["_route"]
    known = [*app._static_routes, *app._dynamic_routes]  # noqa: SLF001
    return route if any(route is other for other in known) else None


def _decoded(body: Any) -> bytes | None:
    """The bytes that are sent as `body`; None if there are none that come out as it is."""
    if not isinstance(body, str):
        return None
    try:
        content = base64.b64decode(body, validate=True)
    except ValueError:
        return None
    return content if base64.b64encode(content).decode("ascii") == body else None
