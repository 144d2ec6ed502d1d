"""`api_event`: an HTTP request as the event that a handler gets."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from oncekey.http import wire
from oncekey.testing.gateway_shapes import (
    HOSTS,
    MAKERS,
    SOURCE_IP,
    USER_AGENT,
    Event,
    Sent,
    arrives_as_text,
)

ApiShape = Literal["http", "rest", "alb", "alb-multi-value", "function-url"]
Body = str | bytes | Mapping[str, Any] | Sequence[Any] | None
Lines = Mapping[str, str | Sequence[str]]

# The place of a parameter in a route's template: `{order_id}`, or `{proxy+}`.
_PLACE = r"\{([^{}+]+)\+?\}"
_AUTHORIZERS = ("claims", "authorizer", "user_arn")
_VERIFIES: dict[str, tuple[str, ...]] = {
    "http": ("claims", "authorizer", "user_arn"),
    "rest": ("claims", "authorizer", "user_arn", "api_key_id"),
    "function-url": ("user_arn",),
}


def api_event(
    route: str,
    *,
    key: str | None = None,
    body: Body = None,
    shape: ApiShape = "http",
    path_parameters: Mapping[str, str] | None = None,
    query: Lines | None = None,
    headers: Lines | None = None,
    claims: Mapping[str, str] | None = None,
    authorizer: Mapping[str, Any] | None = None,
    user_arn: str | None = None,
    api_key_id: str | None = None,
) -> Event:
    """The event of one HTTP request, new for each call.

        api_event(
            "POST /payments",
            key="key-of-one-payment",
            body={"amount": 1200},
            claims={"tenant_id": "acme"},
        )

    Args:
        route: the method, and the path or its template: `"GET /payments/{payment_id}"`.
        key: the Idempotency-Key; None sends none.
        body: a mapping or a list is sent as JSON, text and bytes as they are. Unless `headers`
            says otherwise, bytes are `application/octet-stream`, all others JSON. In the event,
            bytes are base64, and so is text if the gateway encodes its media type, such as that of
            a form. A REST API encodes no text.
        shape: what calls the function: an HTTP API (payload 2.0), a REST API (payload 1.0), a load
            balancer without or with multi-value headers, or a Function URL.
        path_parameters: the values in the template's places.
        query: the parameters of the query, decoded. A list sends one several times.
        headers: more headers. A list sends one several times.
        claims: of the token that the JWT or Cognito authorizer verified. API Gateway passes each
            on as text.
        authorizer: the values that your own Lambda authorizer returned.
        user_arn: the caller whose IAM signature was verified.
        api_key_id: the id of the API key that the usage plan accepted.

    Raises:
        ValueError: the route is no method and path, a path parameter is missing or unknown, a name
            or a value is no text, or a request of this shape cannot have a caller of this kind.
    """
    if shape not in get_args(ApiShape):
        raise ValueError(f"shape is one of {', '.join(get_args(ApiShape))}, not {shape!r}")
    method, _, template = route.partition(" ") if _is_text(route) else ("", "", "")
    is_path = template.startswith("/") and "?" not in template
    if not re.fullmatch("[A-Z]+", method) or method == "ANY" or not is_path:
        raise ValueError(
            f"route is a method and a path, such as 'POST /payments', not {route!r}"
            + ("; give the query in query=" if "?" in template else "")
        )
    verified = {
        "claims": claims,
        "authorizer": authorizer,
        "user_arn": user_arn,
        "api_key_id": api_key_id,
    }
    told = {name: value for name, value in verified.items() if value is not None}
    known = _VERIFIES.get(shape, ())
    for name in told:
        if name not in known:
            raise ValueError(
                f"an event of shape {shape!r} has no {name}: it may have "
                + (", ".join(known) or "no verified caller")
            )
    authorizers = [name for name in told if name in _AUTHORIZERS]
    if len(authorizers) > 1:
        raise ValueError(f"a request has one authorizer: give one of {', '.join(authorizers)}")
    _check_claims(claims or {})
    _check_singles({"key": key, "user_arn": user_arn, "api_key_id": api_key_id})
    _check_texts("path_parameters", path_parameters or {})
    _check_texts("query", query or {})
    _check_texts("headers", headers or {})
    lines = _headers(headers or {}, key=key, body=body, shape=shape, told=told)
    text, is_base64 = _body(body, lines, shape)
    sent = Sent(
        method=method,
        path=_path(template, path_parameters or {}),
        route=template,
        headers=lines,
        query=[(name, each) for name, lines in (query or {}).items() for each in _listed(lines)],
        text=text,
        is_base64=is_base64,
        path_parameters=dict(path_parameters or {}),
        verified=told,
    )
    return MAKERS[shape](sent)


def _path(template: str, parameters: Mapping[str, str]) -> str:
    wanted = re.findall(_PLACE, template)
    if {*wanted} != {*parameters}:
        raise ValueError(
            f"path_parameters of {template!r} are {', '.join(wanted) or 'none'},"
            f" not {', '.join(parameters) or 'none'}"
        )
    return re.sub(_PLACE, lambda found: parameters[found[1]], template)


def _raw(body: Body) -> bytes | None:
    match body:
        case None | bytes():
            return body
        case str():
            return body.encode()
        case _:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _body(body: Body, headers: dict[str, list[str]], shape: str) -> tuple[str | None, bool]:
    """The body in the event, and whether it is base64."""
    raw = _raw(body)
    if raw is None:
        return None, False
    content_type = next(
        (lines[-1] for name, lines in headers.items() if name.lower() == "content-type"), ""
    )
    is_text = not isinstance(body, bytes) and (shape == "rest" or arrives_as_text(content_type))
    if is_text or not raw:
        return raw.decode(), False
    return base64.b64encode(raw).decode("ascii"), True


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _check_claims(claims: Mapping[str, object]) -> None:
    odd = [f"{name}={value!r}" for name, value in claims.items() if not _is_text(value)]
    if odd:
        raise ValueError(f"API Gateway passes on claims as text, so not {', '.join(odd)}")


def _check_singles(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value is not None and not _is_text(value):
            raise ValueError(f"{name!r} is text, not {value!r}")


def _check_texts(argument: str, given: object) -> None:
    """Check that there are names with texts, and in a query or in headers lists of them."""
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f"{argument} is a mapping of names to texts, not {kind}")  # noqa: TRY004 -- as for all arguments
    is_listed = argument in {"query", "headers"}
    for name, value in given.items():
        is_list = is_listed and isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if not all(map(_is_text, [name, *(value if is_list else [value])])):
            raise ValueError(f"{name!r} of {argument} is text, not {value!r}")


def _listed(lines: str | Sequence[str]) -> list[str]:
    return [lines] if isinstance(lines, str) else list(lines)


def _headers(
    given: Lines,
    *,
    key: str | None,
    body: Body,
    shape: str,
    told: Mapping[str, Any],
) -> dict[str, list[str]]:
    size = len(_raw(body) or b"")
    usual: dict[str, str | None] = {
        "Accept": wire.JSON,
        "Authorization": "Bearer example.jwt.signature" if "claims" in told else None,
        # A REST API does not pass it on.
        "Content-Length": str(size) if size and shape != "rest" else None,
        "Content-Type": _content_type(body),
        "Host": HOSTS.get(shape, "payments.example.com"),
        wire.KEY: key,
        "User-Agent": USER_AGENT,
        "X-Amz-Date": "20261201T000000Z" if shape == "function-url" and told else None,
        "X-Amzn-Trace-Id": "Root=1-6748a1f0-5e1b4b3a7c2d4e6f8091a2b3",
        "X-Amzn-Tls-Cipher-Suite": "TLS_AES_128_GCM_SHA256" if shape == "function-url" else None,
        "X-Amzn-Tls-Version": "TLSv1.3" if shape == "function-url" else None,
        "X-Forwarded-For": SOURCE_IP,
        "X-Forwarded-Port": "443",
        "X-Forwarded-Proto": "https",
    }
    replaced = {name.lower() for name in given}
    headers = {
        name: [value]
        for name, value in usual.items()
        if value is not None and name.lower() not in replaced
    }
    added = {name: _listed(lines) for name, lines in given.items()}
    return {**headers, **{name: lines for name, lines in added.items() if lines}}


def _content_type(body: Body) -> str | None:
    if body is None:
        return None
    return "application/octet-stream" if isinstance(body, bytes) else wire.JSON
