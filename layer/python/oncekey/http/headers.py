"""The headers of an answer: which can be sent at all, and which of them a replay repeats.

Some headers describe the result and belong to every replay. Others describe one exchange, and would
be wrong in another one, or reveal the data of another caller.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncekey.http.event import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.http.answer import Answer

# RFC 9110, sections 5.6.2 and 5.5: no line breaks or other control characters, and only Latin-1.
# For anything else a gateway sends an error of its own, or splits the answer.
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE = r"[\t\x20-\x7e\x80-\xff]*"
_PLACES = ("headers", "multiValueHeaders")
_COOKIE = "set-cookie"
# The answers of one handler mostly have the same header names, so the checks are cached.
_ANSWERS_REMEMBERED = 64

# Headers that describe one exchange.
_OF_THE_EXCHANGE = frozenset(
    {
        # The time, the server and the connection.
        *("date", "server", "via", "age", "alt-svc", "server-timing", "x-runtime", "x-powered-by"),
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("x-cache", "x-cache-hits", "x-served-by", "x-timer", "cf-ray", "x-response-time"),
        *("x-varnish", "cdn-loop", "x-process-time", "x-request-start", "timing-allow-origin"),
        # The caller's session and authentication.
        *(_COOKIE, "set-cookie2", "www-authenticate", "authentication-info", "authorization"),
        # Ids of requests and traces.
        *("x-request-id", "request-id", "x-correlation-id", "correlation-id", "x-amzn-requestid"),
        *("x-amzn-request-id", "x-amz-request-id", "x-amz-id-2", "x-amz-apigw-id"),
        *(
            "x-amzn-trace-id",
            "x-trace-id",
            "x-span-id",
            "traceparent",
            "tracestate",
            "traceresponse",
        ),
        *("baggage", "b3", "uber-trace-id", "sentry-trace", "x-cloud-trace-context"),
        # The caller's remaining rate limit.
        *("ratelimit", "x-ratelimit", "x-rate-limit"),
    }
)
_PREFIXES_OF_THE_EXCHANGE = (
    *("access-control-", "proxy-", "ratelimit-", "x-ratelimit-", "x-rate-limit-"),
    *("x-b3-", "x-datadog-", "x-amz-cf-", "x-amzn-remapped-", "x-envoy-", "sec-websocket-"),
)
# Vendors add their own prefixes to these: `X-GitHub-Request-Id`, `X-Amzn-RequestId`.
_OF_THE_EXCHANGE_BY_FORM = (
    r"(.*-)?((request|correlation|conversation|trace|span)-?u?u?id"
    r"|(auth|access|id|refresh|csrf|xsrf|session|security)-?token)"
)


def check_headers(answer: Mapping[str, Any]) -> None:
    """Return if every header and cookie of `answer` can be sent.

    Raises:
        TypeError: one cannot. The message names it, without its value.
    """
    single: Any = answer.get("headers")
    if single:
        _check_names("headers", single)
        for name, value in single.items():
            # A fast path: most values are ASCII texts.
            if not (type(value) is str and value.isascii() and value.isprintable()):
                _check_value(name, value)
    many: Any = answer.get("multiValueHeaders")
    if many:
        _check_names("multiValueHeaders", many)
        for name, lines in many.items():
            if lines is not None and not isinstance(lines, list | tuple):
                raise TypeError(
                    f"oncekey: {name} in multiValueHeaders of the handler's answer is a list of"
                    f" texts, not {type(lines).__name__}"
                )
            for line in lines or ():
                _check_value(name, line)
    cookies: Any = answer.get("cookies")
    if cookies is not None and not isinstance(cookies, list | tuple):
        raise TypeError("oncekey: cookies of the handler's answer is a list of texts")
    for cookie in cookies or ():
        if not isinstance(cookie, str):
            raise TypeError(
                f"oncekey: a cookie of the handler's answer is text, not {type(cookie).__name__}"
            )
        _check_value("a cookie", cookie)


def _check_names(place: str, headers: Any) -> None:
    if not isinstance(headers, dict):
        raise TypeError(f"oncekey: {place} of the handler's answer is a dict")
    if not _are_names(tuple(headers)):
        raise TypeError(f"oncekey: a name in {place} of the handler's answer is no token")


def is_header_name(name: object) -> bool:
    """Whether `name` is a valid header name."""
    return isinstance(name, str) and re.fullmatch(_NAME, name) is not None


@lru_cache(_ANSWERS_REMEMBERED)
def _are_names(names: tuple[object, ...]) -> bool:
    return all(map(is_header_name, names))


def _check_value(name: str, value: object) -> None:
    # A gateway converts numbers and booleans to text, and leaves out None.
    if value is None or isinstance(value, bool | int | float):
        return
    if not isinstance(value, str):
        raise TypeError(
            f"oncekey: {name} in the handler's answer is text, not {type(value).__name__}"
        )
    if re.fullmatch(_VALUE, value) is None:
        raise TypeError(
            f"oncekey: {name} in the handler's answer has a character that no header can have:"
            " a line break, another control character, or one beyond Latin-1"
        )


def for_replay(answer: Answer, chosen: Mapping[str, bool]) -> Answer:
    """`answer` without the headers of its first exchange; the same object if it has none.

    `chosen` (header names in lower case) overrides whether a header is repeated.
    """
    names = (*(answer.get("headers") or ()), *(answer.get("multiValueHeaders") or ()))
    dropped = _of_the_exchange(names)
    if chosen:
        dropped = frozenset(n for n in names if not chosen.get(n.lower(), n not in dropped))
    has_cookies = bool(answer.get("cookies")) and not chosen.get(_COOKIE, False)
    if not dropped and not has_cookies:
        return answer
    kept = {name: value for name, value in answer.items() if name != "cookies" or not has_cookies}
    for place in _PLACES:
        if kept.get(place):
            kept[place] = {n: value for n, value in kept[place].items() if n not in dropped}
    return kept


@lru_cache(_ANSWERS_REMEMBERED)
def _of_the_exchange(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(filter(_is_of_the_exchange, names))


def _is_of_the_exchange(name: str) -> bool:
    lower = name.lower()
    return (
        lower in _OF_THE_EXCHANGE
        or lower.startswith(_PREFIXES_OF_THE_EXCHANGE)
        or re.fullmatch(_OF_THE_EXCHANGE_BY_FORM, lower) is not None
    )


def header_lines(answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """The lines of each header of `answer` as a gateway sends them, for what sends them itself.

    A gateway merges both members
    (https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html#api-gateway-simple-proxy-for-lambda-output-format).
    """
    single: Mapping[str, Any] = answer.get("headers") or {}
    lines = {name: [str(value)] for name, value in single.items() if value is not None}
    names = {name.lower(): name for name in lines}
    many: Mapping[str, Any] = answer.get("multiValueHeaders") or {}
    for name, values in many.items():
        more = [str(value) for value in values or () if value is not None]
        known = lines.get(names.get(name.lower(), name), [])
        if more:
            kept = [line for line in known if line not in more]
            lines[names.get(name.lower(), name)] = [*kept, *more]
    return lines


def with_cookies_for(answer: Answer, shape: Shape) -> Answer:
    """`answer` with its cookies in the member that `shape` reads.

    A load balancer without multi-value headers sends only one cookie: the last.
    """
    if not answer.get("cookies") and not answer.get("multiValueHeaders"):
        return answer
    match shape:
        case Shape.PAYLOAD_2:
            rest, moved = _taken(answer, "multiValueHeaders")
            return {**rest, "cookies": [*(rest.get("cookies") or []), *moved]} if moved else answer
        case Shape.REST | Shape.LOAD_BALANCER_MULTI_VALUE:
            moved = list(answer.get("cookies") or [])
            rest = {name: value for name, value in answer.items() if name != "cookies"}
            return _with_lines(rest, moved) if moved else answer
        case Shape.LOAD_BALANCER:
            rest, moved = _taken(answer, "multiValueHeaders")
            moved = [*moved, *(rest.pop("cookies", None) or [])]
            if not moved:
                return answer
            headers = rest.get("headers") or {}
            is_there = any(name.lower() == _COOKIE for name in headers)
            return rest if is_there else {**rest, "headers": {**headers, "Set-Cookie": moved[-1]}}


def _taken(answer: Answer, place: str) -> tuple[Answer, list[Any]]:
    """A copy of `answer` without the cookies in `place`, and the cookies."""
    headers: dict[str, Any] = answer.get(place) or {}
    cookies = [line for n, lines in headers.items() if n.lower() == _COOKIE for line in lines or ()]
    if not cookies:
        return dict(answer), []
    rest = {name: lines for name, lines in headers.items() if name.lower() != _COOKIE}
    return {**answer, place: rest}, cookies


def _with_lines(answer: Answer, cookies: list[Any]) -> Answer:
    rest, already = _taken(answer, "multiValueHeaders")
    many = rest.get("multiValueHeaders") or {}
    return {**rest, "multiValueHeaders": {**many, "Set-Cookie": [*already, *cookies]}}
