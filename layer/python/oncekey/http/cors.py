"""Which browser pages may call an API: cross-origin resource sharing (CORS).

https://fetch.spec.whatwg.org/#http-cors-protocol

One `Cors` value says it for a service. The CDK constructs and the local runtime read it, so that
both answer a browser in the same way. An HTTP API adds the headers by itself. Behind a REST API, a
load balancer or a function URL, the function has to add them: there the value is a decorator.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, TypeVar, cast

from oncekey.effects.handlers import is_coroutine_function
from oncekey.errors import ConfigurationError
from oncekey.http import wire
from oncekey.http.answer import stored_and_given, with_headers
from oncekey.http.event import HttpRequest, Shape, read_request, shape_of
from oncekey.http.headers import is_header_name
from oncekey.misuse import MUST_BE_OUTSIDE
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Handler = TypeVar("Handler", bound=Callable[..., Any])

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Beside the headers that a page may always send and read.
_SENT = ("Authorization", "Content-Type", wire.KEY, wire.FIRST_SENT)
_READ = (*(wire.KEY, wire.REPLAYED, wire.EXPIRES, wire.RETRY_AFTER, "Location"),)
_ANY = "*"
# An origin as browsers send it: scheme and host in lower case, and a port if it is not the scheme's
# own (https://html.spec.whatwg.org/#ascii-serialisation-of-an-origin).
_ORIGIN = (
    r"(?!http:.*:80$|https:.*:443$)"
    r"https?://([a-z0-9_.-]+|\[[0-9a-f:]+\])(:(?!0)[0-9]{1,5})?"
)
_NO_CONTENT = 204
# The longest time for which a browser remembers a preflight (Firefox).
_MAX_AGE_S = 86_400
_ALLOWED_ORIGIN = "Access-Control-Allow-Origin"
# Only a preflight has this one.
_ASKED_METHOD = "access-control-request-method"


class Cors(Value, kw_only=True):
    """The pages that may call an API, and the headers that they may send and read.

    A page may always send `Authorization`, `Content-Type`, `Idempotency-Key` and
    `Repeatability-First-Sent`, and read `Idempotency-Key`, `Idempotent-Replayed`,
    `Idempotency-Expires`, `Retry-After` and `Location`.

    As a decorator, outside all others, it adds the headers to every answer of a handler, also to
    replays and refusals, and answers preflights. A handler behind an HTTP API does not need that.

    Args:
        origins: the pages' origins, such as `https://shop.example`; or `*` alone for every page.
        send_headers: further request headers that a page may send.
        read_headers: further response headers that a page may read.
        credentials: whether browsers send their cookies. An access token in `Authorization` does
            not need it.
        max_age_s: how long a browser remembers the answer to a preflight.

    Raises:
        ConfigurationError: a value is wrong; the message names every fault.
    """

    origins: Sequence[str]
    send_headers: Sequence[str] = ()
    read_headers: Sequence[str] = ()
    credentials: bool = False
    max_age_s: int = 600

    def __post_init__(self) -> None:
        faults = [*self._faults()]
        if faults:
            raise ConfigurationError("Cors", faults)

    @property
    def allowed_headers(self) -> tuple[str, ...]:
        """All request headers that a page may send."""
        return _without_doubles(_SENT, self.send_headers)

    @property
    def exposed_headers(self) -> tuple[str, ...]:
        """All response headers that a page may read."""
        return _without_doubles(_READ, self.read_headers)

    def answer_headers(self, origin: str | None) -> dict[str, str]:
        """The headers of an answer to a page of `origin`. Without one, there are none but `Vary`.

        A cache must not give a page the answer to another one, hence `Vary`.
        """
        headers = {} if _ANY in self.origins else {"Vary": "Origin"}
        if allowed := self._allowed(origin):
            headers[_ALLOWED_ORIGIN] = allowed
            headers["Access-Control-Expose-Headers"] = ",".join(self.exposed_headers)
            if self.credentials:
                headers["Access-Control-Allow-Credentials"] = "true"
        return headers

    def preflight_headers(self, origin: str | None) -> dict[str, str]:
        """The headers of the answer to a preflight of a page of `origin`."""
        headers = self.answer_headers(origin)
        if _ALLOWED_ORIGIN in headers:
            headers.pop("Access-Control-Expose-Headers")
            headers["Access-Control-Allow-Methods"] = ",".join(METHODS)
            headers["Access-Control-Allow-Headers"] = ",".join(self.allowed_headers)
            headers["Access-Control-Max-Age"] = str(self.max_age_s)
        return headers

    @staticmethod
    def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
        """Whether a request is a preflight. The names in `headers` are in lower case."""
        return method == "OPTIONS" and "origin" in headers and _ASKED_METHOD in headers

    def __call__(self, handler: Handler, /) -> Handler:
        """The handler, with the headers on each of its answers.

        Raises:
            ConfigurationError: a decorator of oncekey is put around the result. It would store the
                headers of one page, and its replays and refusals would lack those of the others.
        """

        @functools.wraps(handler)
        def with_cors(event: Any, context: Any) -> Any:
            request = _request(event)
            if request is None:
                return handler(event, context)
            return self._preflight(request) or self._added(handler(event, context), request)

        @functools.wraps(handler)
        async def with_cors_async(event: Any, context: Any) -> Any:
            request = _request(event)
            if request is None:
                return await handler(event, context)
            return self._preflight(request) or self._added(await handler(event, context), request)

        wrapper = with_cors_async if is_coroutine_function(handler) else with_cors
        del wrapper.__wrapped__
        setattr(wrapper, MUST_BE_OUTSIDE, "Cors")
        return cast("Handler", wrapper)

    def _preflight(self, request: HttpRequest) -> dict[str, Any] | None:
        if not self.is_preflight(request.method, dict(request.headers)):
            return None
        headers = self.preflight_headers(_origin(request))
        answer = {"statusCode": _NO_CONTENT, "headers": {}, "body": "", "isBase64Encoded": False}
        return with_headers(answer, headers, request.shape)

    def _added(self, answer: Any, request: HttpRequest) -> Any:
        if not isinstance(answer, dict) or "statusCode" not in answer:
            if request.shape is not Shape.PAYLOAD_2:
                return answer  # the gateway answers such a result with an error of its own
            answer = stored_and_given(answer, request.shape)[1]
        headers = self.answer_headers(_origin(request))
        if "Vary" in headers:
            headers["Vary"] = ", ".join((*_varies(answer), "Origin"))
        return with_headers(answer, headers, request.shape)

    def _allowed(self, origin: str | None) -> str | None:
        if _ANY in self.origins:
            return _ANY if origin else None
        return origin if origin in self.origins else None

    def _faults(self) -> Iterator[str]:
        # A text such as "no" counts as true.
        if not isinstance(self.credentials, bool):
            yield f"credentials is {self.credentials!r}: True or False is needed"
        for argument in ("origins", "send_headers", "read_headers"):
            given: object = getattr(self, argument)
            is_listed = isinstance(given, Collection) and not isinstance(given, str | bytes)
            if not is_listed or not all(isinstance(each, str) for each in getattr(self, argument)):
                yield f"{argument} is a list of texts"
                return
        names = (*self.send_headers, *self.read_headers)
        if not self.origins:
            yield "origins is empty: name the pages' origins, or use no Cors at all"
        for origin in self.origins:
            if origin != _ANY and not re.fullmatch(_ORIGIN, origin):
                yield (
                    f"origin {origin!r} is not scheme and host alone as a browser sends them, like"
                    " https://shop.example: in lower case, and without the scheme's own port"
                )
        if _ANY in self.origins and len(self.origins) > 1:
            yield "origins has '*' and others: '*' alone is every page"
        if _ANY in self.origins and self.credentials:
            yield (
                "credentials=True with origin '*' would let every page act for a signed-in user,"
                " and browsers refuse it: name the origins"
            )
        for name in names:
            if not is_header_name(name) or name == _ANY:
                yield f"{name!r} is no header name"
        age_s: object = self.max_age_s
        if not isinstance(age_s, int) or isinstance(age_s, bool) or not 0 <= age_s <= _MAX_AGE_S:
            yield f"max_age_s is {age_s!r}: a whole number from 0 to {_MAX_AGE_S} is needed"


def _request(event: Any) -> HttpRequest | None:
    return None if shape_of(event) is None else read_request(event)


def _origin(request: HttpRequest) -> str | None:
    lines = request.header_lines("origin")
    return lines[0] if len(lines) == 1 else None


def _varies(answer: Mapping[str, Any]) -> list[str]:
    """What the answer varies by already."""
    single: Mapping[str, Any] = answer.get("headers") or {}
    many: Mapping[str, Any] = answer.get("multiValueHeaders") or {}
    lines = [*single.items(), *((name, line) for name, all_ in many.items() for line in all_ or ())]
    return list(dict.fromkeys(str(line) for name, line in lines if name.lower() == "vary"))


def _without_doubles(first: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    known = {name.lower() for name in first}
    return (*first, *(name for name in more if name.lower() not in known))
