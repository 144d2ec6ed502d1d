"""HTTP requests as the events that API Gateway, a load balancer and a Function URL make of them.

The shapes are those of the documents:
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import quote, urlencode

from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable

Event = dict[str, Any]
ApiShape = Literal["http", "rest", "alb", "alb-multi-value", "function-url"]
Body = str | bytes | Mapping[str, Any] | Sequence[Any] | None
Lines = Mapping[str, str | Sequence[str]]

ACCOUNT_ID, REGION = "123456789012", "eu-central-1"
_USER_AGENT = "example-client/1.4 (+https://client.example.com)"
_SOURCE_IP = "203.0.113.10"
_TIME, _TIME_MS = "01/Dec/2026:00:00:00 +0000", 1_796_083_200_000
_ACCESS_KEY, _CALLER = "AKIAIOSFODNN7EXAMPLE", "AIDACKCEVSQ6C2EXAMPLE"
_HTTP_API, _REST_API, _STAGE = "a1b2c3d4e5", "f6g7h8i9j0", "prod"
_URL = "urlid" * 6 + "ur"
_TARGETS = (
    f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT_ID}:targetgroup/payments/6d0ecf831eec9f09"
)
_HOSTS = {
    "http": f"{_HTTP_API}.execute-api.{REGION}.amazonaws.com",
    "rest": f"{_REST_API}.execute-api.{REGION}.amazonaws.com",
    "function-url": f"{_URL}.lambda-url.{REGION}.on.aws",
}
_VERIFIES: dict[str, tuple[str, ...]] = {
    "http": ("claims", "authorizer", "user_arn"),
    "rest": ("claims", "authorizer", "user_arn", "api_key_id"),
    "function-url": ("user_arn",),
}


class _Sent(Value, kw_only=True):
    """A request. Header names have their usual spelling, and each header its lines."""

    method: str
    path: str
    route: str
    headers: dict[str, list[str]] = field(repr=False)
    query: list[tuple[str, str]]
    text: str | None = field(repr=False)
    is_base64: bool
    path_parameters: dict[str, str]
    verified: dict[str, Any] = field(repr=False)

    @property
    def lower(self) -> dict[str, str]:
        """The headers in lower case, the lines of each joined by commas."""
        return {name.lower(): ",".join(lines) for name, lines in self.headers.items()}


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
        body: a mapping or a list is sent as JSON, text as it is, and bytes as base64. Unless
            `headers` says otherwise, bytes are `application/octet-stream`, all others JSON.
        shape: what calls the function: an HTTP API (payload 2.0), a REST API (payload 1.0), a load
            balancer without or with multi-value headers, or a Function URL.
        path_parameters: the values in the template's places.
        query: the parameters of the query, decoded. A list sends one several times.
        headers: more headers. A list sends one several times.
        claims: of the token that the JWT or Cognito authorizer verified.
        authorizer: the values that your own Lambda authorizer returned.
        user_arn: the caller whose IAM signature was verified.
        api_key_id: the id of the API key that the usage plan accepted.

    Raises:
        ValueError: the route is no method and path, a path parameter is missing or unknown, or a
            request of this shape cannot have a caller of this kind.
    """
    if shape not in get_args(ApiShape):
        raise ValueError(f"shape is one of {', '.join(get_args(ApiShape))}, not {shape!r}")
    method, _, template = route.partition(" ")
    if not re.fullmatch("[A-Z]+", method) or not template.startswith("/"):
        raise ValueError(f"route is a method and a path, such as 'POST /payments', not {route!r}")
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
    text = _text(body)
    sent = _Sent(
        method=method,
        path=_path(template, path_parameters or {}),
        route=template,
        headers=_headers(headers or {}, key=key, body=body, text=text, shape=shape, told=told),
        query=[(name, each) for name, lines in (query or {}).items() for each in _listed(lines)],
        text=text,
        is_base64=isinstance(body, bytes),
        path_parameters=dict(path_parameters or {}),
        verified=told,
    )
    return _MAKERS[shape](sent)


def _path(template: str, parameters: Mapping[str, str]) -> str:
    wanted = re.findall(r"\{(\w+)\+?\}", template)
    if {*wanted} != {*parameters}:
        raise ValueError(
            f"path_parameters of {template!r} are {', '.join(wanted) or 'none'},"
            f" not {', '.join(parameters) or 'none'}"
        )
    return re.sub(r"\{(\w+)\+?\}", lambda found: parameters[found[1]], template)


def _text(body: Body) -> str | None:
    if body is None or isinstance(body, str):
        return body
    if isinstance(body, bytes):
        return base64.b64encode(body).decode("ascii")
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _listed(lines: str | Sequence[str]) -> list[str]:
    return [lines] if isinstance(lines, str) else list(lines)


def _headers(
    given: Lines,
    *,
    key: str | None,
    body: Body,
    text: str | None,
    shape: str,
    told: Mapping[str, Any],
) -> dict[str, list[str]]:
    size = len(body) if isinstance(body, bytes) else len((text or "").encode())
    usual: dict[str, str | None] = {
        "Accept": "application/json",
        "Authorization": "Bearer example.jwt.signature" if "claims" in told else None,
        # A REST API does not pass it on.
        "Content-Length": str(size) if text and shape != "rest" else None,
        "Content-Type": _content_type(body),
        "Host": _HOSTS.get(shape, "payments.example.com"),
        "Idempotency-Key": key,
        "User-Agent": _USER_AGENT,
        "X-Amz-Date": "20261201T000000Z" if shape == "function-url" and told else None,
        "X-Amzn-Trace-Id": "Root=1-6748a1f0-5e1b4b3a7c2d4e6f8091a2b3",
        "X-Amzn-Tls-Cipher-Suite": "TLS_AES_128_GCM_SHA256" if shape == "function-url" else None,
        "X-Amzn-Tls-Version": "TLSv1.3" if shape == "function-url" else None,
        "X-Forwarded-For": _SOURCE_IP,
        "X-Forwarded-Port": "443",
        "X-Forwarded-Proto": "https",
    }
    replaced = {name.lower() for name in given}
    headers = {
        name: [value]
        for name, value in usual.items()
        if value is not None and name.lower() not in replaced
    }
    return {**headers, **{name: _listed(lines) for name, lines in given.items()}}


def _content_type(body: Body) -> str | None:
    if body is None:
        return None
    return "application/octet-stream" if isinstance(body, bytes) else "application/json"


def _payload_2(sent: _Sent, *, api: str, host: str, route_key: str, authorizer: Event) -> Event:
    headers = sent.lower
    cookies = [each.strip() for each in headers.pop("cookie", "").split(";") if each.strip()]
    parameters: dict[str, str] = {}
    for name, value in sent.query:
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    # API Gateway leaves these out if they are empty.
    present = {
        "cookies": cookies,
        "queryStringParameters": parameters,
        "pathParameters": sent.path_parameters if route_key != "$default" else {},
    }
    return {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": sent.path,
        "rawQueryString": urlencode(sent.query, quote_via=quote),
        "headers": headers,
        **{name: value for name, value in present.items() if value},
        "requestContext": {
            "accountId": ACCOUNT_ID,
            "apiId": api,
            **({"authorizer": authorizer} if authorizer else {}),
            "domainName": host,
            "domainPrefix": api,
            "http": {
                "method": sent.method,
                "path": sent.path,
                "protocol": "HTTP/1.1",
                "sourceIp": _SOURCE_IP,
                "userAgent": headers["user-agent"],
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": route_key,
            "stage": "$default",
            "time": _TIME,
            "timeEpoch": _TIME_MS,
        },
        **({} if sent.text is None else {"body": sent.text}),
        "isBase64Encoded": sent.is_base64,
    }


def _http_api(sent: _Sent) -> Event:
    authorizer: Event = {}
    if "claims" in sent.verified:
        authorizer["jwt"] = {"claims": dict(sent.verified["claims"]), "scopes": None}
    if "authorizer" in sent.verified:
        authorizer["lambda"] = dict(sent.verified["authorizer"])
    if "user_arn" in sent.verified:
        authorizer["iam"] = _iam(sent.verified["user_arn"])
    return _payload_2(
        sent,
        api=_HTTP_API,
        host=_HOSTS["http"],
        route_key=f"{sent.method} {sent.route}",
        authorizer=authorizer,
    )


def _function_url(sent: _Sent) -> Event:
    arn = sent.verified.get("user_arn")
    event = _payload_2(
        sent,
        api=_URL,
        host=_HOSTS["function-url"],
        route_key="$default",
        authorizer={} if arn is None else {"iam": _iam(arn)},
    )
    event["requestContext"]["requestId"] = "e1506fd5-9e7b-434f-bd42-4f8fa224b599"
    if arn is None:
        event["requestContext"]["accountId"] = "anonymous"
    return event


def _iam(user_arn: str) -> Event:
    return {
        "accessKey": _ACCESS_KEY,
        "accountId": ACCOUNT_ID,
        "callerId": _CALLER,
        "cognitoIdentity": None,
        "principalOrgId": None,
        "userArn": user_arn,
        "userId": _CALLER,
    }


def _rest_api(sent: _Sent) -> Event:
    verified = sent.verified
    arn, key_id = verified.get("user_arn"), verified.get("api_key_id")
    identity: Event = dict.fromkeys(
        (
            *("cognitoIdentityPoolId", "accountId", "cognitoIdentityId", "caller", "sourceIp"),
            *("principalOrgId", "accessKey", "cognitoAuthenticationType"),
            *("cognitoAuthenticationProvider", "userArn", "userAgent", "user"),
        )
    )
    identity.update(sourceIp=_SOURCE_IP, userAgent=sent.lower["user-agent"])
    if arn is not None:
        identity.update(userArn=arn, accountId=ACCOUNT_ID, accessKey=_ACCESS_KEY)
        identity.update(caller=_CALLER, user=_CALLER)
    if key_id is not None:
        identity.update(apiKeyId=key_id, apiKey="example-api-key-value")
    authorizer: Event = dict(verified.get("authorizer", {}))
    if "authorizer" in verified:
        authorizer.setdefault("principalId", "user-1")
    if "claims" in verified:
        authorizer["claims"] = dict(verified["claims"])
    query = _multi(sent.query)
    return {
        "resource": sent.route,
        "path": sent.path,
        "httpMethod": sent.method,
        "headers": {name: lines[-1] for name, lines in sent.headers.items()},
        "multiValueHeaders": sent.headers,
        "queryStringParameters": {name: lines[-1] for name, lines in query.items()} or None,
        "multiValueQueryStringParameters": query or None,
        "pathParameters": sent.path_parameters or None,
        "stageVariables": None,
        "requestContext": {
            "resourceId": "abc123",
            "resourcePath": sent.route,
            "httpMethod": sent.method,
            **({"authorizer": authorizer} if authorizer else {}),
            "extendedRequestId": "JKJaXEXAMPLEHcE=",
            "requestTime": _TIME,
            "path": f"/{_STAGE}{sent.path}",
            "accountId": ACCOUNT_ID,
            "protocol": "HTTP/1.1",
            "stage": _STAGE,
            "domainPrefix": _REST_API,
            "requestTimeEpoch": _TIME_MS,
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "identity": identity,
            "domainName": _HOSTS["rest"],
            "deploymentId": "d1e2f3",
            "apiId": _REST_API,
        },
        "body": sent.text,
        "isBase64Encoded": sent.is_base64,
    }


def _multi(query: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for name, value in query:
        lines.setdefault(name, []).append(value)
    return lines


def _load_balancer(sent: _Sent, *, multi_value: bool = False) -> Event:
    # A load balancer passes the query on as it was sent.
    query = _multi([(quote(name), quote(value)) for name, value in sent.query])
    headers = {name.lower(): lines for name, lines in sent.headers.items()}
    if multi_value:
        lines: Event = {"multiValueQueryStringParameters": query, "multiValueHeaders": headers}
    else:
        lines = {
            "queryStringParameters": {name: values[-1] for name, values in query.items()},
            "headers": {name: values[-1] for name, values in headers.items()},
        }
    return {
        "requestContext": {"elb": {"targetGroupArn": _TARGETS}},
        "httpMethod": sent.method,
        "path": sent.path,
        **lines,
        "body": sent.text or "",
        "isBase64Encoded": sent.is_base64,
    }


def _multi_value(sent: _Sent) -> Event:
    return _load_balancer(sent, multi_value=True)


_MAKERS: Mapping[str, Callable[[_Sent], Event]] = {
    "http": _http_api,
    "rest": _rest_api,
    "alb": _load_balancer,
    "alb-multi-value": _multi_value,
    "function-url": _function_url,
}
