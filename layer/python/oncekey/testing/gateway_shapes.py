"""HTTP requests as the events that API Gateway, a load balancer and a Function URL make of them.

The shapes are those of the documents:
https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-integrations-lambda.html
https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html
https://docs.aws.amazon.com/elasticloadbalancing/latest/application/lambda-functions.html
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Event = dict[str, Any]

ACCOUNT_ID, REGION = "123456789012", "eu-central-1"
USER_AGENT = "example-client/1.4 (+https://client.example.com)"
SOURCE_IP = "203.0.113.10"
_TIME, _TIME_MS = "01/Dec/2026:00:00:00 +0000", 1_796_083_200_000
_ACCESS_KEY, _CALLER = "AKIAIOSFODNN7EXAMPLE", "AIDACKCEVSQ6C2EXAMPLE"
_HTTP_API, _REST_API, _STAGE = "a1b2c3d4e5", "f6g7h8i9j0", "prod"
_URL = "urlid" * 6 + "ur"
_TARGETS = (
    f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT_ID}:targetgroup/payments/6d0ecf831eec9f09"
)
HOSTS = {
    "http": f"{_HTTP_API}.execute-api.{REGION}.amazonaws.com",
    "rest": f"{_REST_API}.execute-api.{REGION}.amazonaws.com",
    "function-url": f"{_URL}.lambda-url.{REGION}.on.aws",
}
# An HTTP API and a Function URL send these bodies as text. They send all others as base64, also
# forms and bodies without a type: https://github.com/ministackorg/ministack/pull/766 measured it on
# AWS. AWS documents the same for a load balancer.
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/javascript"})


class Sent(Value, kw_only=True):
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


def arrives_as_text(content_type: str) -> bool:
    """Whether an HTTP API, a Function URL or a load balancer sends such a body as text."""
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type.startswith("text/") or media_type in _TEXT_TYPES


def _payload_2(sent: Sent, *, api: str, host: str, route_key: str, authorizer: Event) -> Event:
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
                "sourceIp": SOURCE_IP,
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


def _http_api(sent: Sent) -> Event:
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
        host=HOSTS["http"],
        route_key=f"{sent.method} {sent.route}",
        authorizer=authorizer,
    )


def _function_url(sent: Sent) -> Event:
    arn = sent.verified.get("user_arn")
    event = _payload_2(
        sent,
        api=_URL,
        host=HOSTS["function-url"],
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


def _rest_api(sent: Sent) -> Event:
    verified = sent.verified
    arn, key_id = verified.get("user_arn"), verified.get("api_key_id")
    identity: Event = dict.fromkeys(
        (
            *("cognitoIdentityPoolId", "accountId", "cognitoIdentityId", "caller", "sourceIp"),
            *("principalOrgId", "accessKey", "cognitoAuthenticationType"),
            *("cognitoAuthenticationProvider", "userArn", "userAgent", "user"),
        )
    )
    identity.update(sourceIp=SOURCE_IP, userAgent=sent.lower["user-agent"])
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
            "domainName": HOSTS["rest"],
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


def _load_balancer(sent: Sent, *, multi_value: bool = False) -> Event:
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


def _multi_value(sent: Sent) -> Event:
    return _load_balancer(sent, multi_value=True)


MAKERS: Mapping[str, Callable[[Sent], Event]] = {
    "http": _http_api,
    "rest": _rest_api,
    "alb": _load_balancer,
    "alb-multi-value": _multi_value,
    "function-url": _function_url,
}
