"""What a function sees of an HTTP request, as API Gateway's payload format 2.0 has it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from oncekey_local.front.http_api_event import HttpRequest, Reception, event, event_bytes
from tests.support.events import load
from tests.support.replacing import replace

REQUEST = HttpRequest(
    method="POST",
    raw_path="/payments",
    raw_query="",
    protocol="HTTP/1.1",
    headers=[("Host", "api.example.com"), ("User-Agent", "curl/8")],
    body=b"",
    source_ip="127.0.0.1",
)
RECEPTION = Reception(
    route_key="POST /payments",
    path_parameters={},
    claims={"sub": "user_1", "tenant_id": "acme"},
    request_id="JKJaXmPLvHcESHA=",
    time_ms=1_583_348_638_390,
    domain_name="api.example.com",
)


def made(**changes: Any) -> dict[str, Any]:
    """The event of a request that differs in this from the plain one."""
    return event(replace(REQUEST, **changes), RECEPTION)


def with_body(body: bytes, content_type: str | None) -> dict[str, Any]:
    """The event of a request with this body."""
    return made(body=body, headers=[("Content-Type", content_type)] if content_type else [])


def test_whole_event() -> None:
    """A request becomes the documented event, without the members that have nothing to say."""
    assert made() == {
        "version": "2.0",
        "routeKey": "POST /payments",
        "rawPath": "/payments",
        "rawQueryString": "",
        "headers": {"host": "api.example.com", "user-agent": "curl/8"},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "local",
            "authorizer": {
                "jwt": {"claims": {"sub": "user_1", "tenant_id": "acme"}, "scopes": None}
            },
            "domainName": "api.example.com",
            "domainPrefix": "api",
            "http": {
                "method": "POST",
                "path": "/payments",
                "protocol": "HTTP/1.1",
                "sourceIp": "127.0.0.1",
                "userAgent": "curl/8",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "POST /payments",
            "stage": "$default",
            "time": "04/Mar/2020:19:03:58 +0000",
            "timeEpoch": 1_583_348_638_390,
        },
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("name", ["apigw_http_v2_post", "apigw_http_v2_base64_post"])
def test_same_as_the_sample_event(name: str) -> None:
    """The request of a real-shaped sample event becomes that event, but for the API's name."""
    sample = load(name)
    context = sample["requestContext"]
    body = sample["body"].encode()
    request = HttpRequest(
        method=context["http"]["method"],
        raw_path=sample["rawPath"],
        raw_query=sample["rawQueryString"],
        protocol=context["http"]["protocol"],
        headers=list(sample["headers"].items()),
        body=base64.b64decode(body) if sample["isBase64Encoded"] else body,
        source_ip=context["http"]["sourceIp"],
    )
    reception = Reception(
        route_key=sample["routeKey"],
        path_parameters=sample.get("pathParameters", {}),
        claims=context["authorizer"]["jwt"]["claims"],
        request_id=context["requestId"],
        time_ms=context["timeEpoch"],
        domain_name=context["domainName"],
    )
    made_event = event(request, reception)
    made_event["requestContext"]["apiId"] = context["apiId"]
    made_event["requestContext"]["accountId"] = context["accountId"]
    assert made_event == sample


def test_an_open_route_has_no_authorizer() -> None:
    """Where the gateway asks for no token, it says nothing of the caller."""
    reception = replace(RECEPTION, claims=None)

    assert "authorizer" not in event(REQUEST, reception)["requestContext"]
    assert "authorizer" in event(REQUEST, RECEPTION)["requestContext"]


def test_header_names_are_lower_case() -> None:
    """The letter case of a header name does not reach the function."""
    assert made(headers=[("IDEMPOTENCY-Key", "Abc")])["headers"] == {"idempotency-key": "Abc"}


def test_repeated_headers_are_joined() -> None:
    """Repeated header lines are one value, in their order, with commas between."""
    lines = [("Idempotency-Key", "a"), ("x", "1"), ("idempotency-key", "b, c")]
    assert made(headers=lines)["headers"] == {"idempotency-key": "a,b, c", "x": "1"}


def test_cookies_stand_apart() -> None:
    """Cookies of all lines are a list of their own, and no header."""
    made_event = made(headers=[("Cookie", "a=1; b=2"), ("cookie", "c=3;"), ("x", "1")])
    assert made_event["cookies"] == ["a=1", "b=2", "c=3"]
    assert made_event["headers"] == {"x": "1"}


@pytest.mark.parametrize(
    ("raw_query", "parameters"),
    [
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=1&a=2&a=", {"a": "1,2,"}),
        ("name=J%C3%BCrg+M&x=%26", {"name": "Jürg M", "x": "&"}),
        ("flag&other=", {"flag": "", "other": ""}),
        ("bad=%FF", {"bad": "\N{REPLACEMENT CHARACTER}"}),
    ],
)
def test_query(raw_query: str, parameters: dict[str, str]) -> None:
    """Query parameters are decoded, repeated ones joined, and the raw query is as it was sent."""
    made_event = made(raw_query=raw_query)
    assert made_event["rawQueryString"] == raw_query
    assert made_event["queryStringParameters"] == parameters


def test_path_parameters() -> None:
    """What stands in the places of the route's parameters is passed on."""
    reception = replace(RECEPTION, path_parameters={"payment_id": "p 1"})
    assert event(REQUEST, reception)["pathParameters"] == {"payment_id": "p 1"}


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/xml",
        "application/javascript",
        "text/plain",
        "text/csv;charset=ISO-8859-1",
    ],
)
def test_text_body(content_type: str) -> None:
    """A body of a media type that API Gateway takes for text arrives as text."""
    made_event = with_body('{"name": "Jürg"}'.encode(), content_type)
    assert (made_event["body"], made_event["isBase64Encoded"]) == ('{"name": "Jürg"}', False)


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/octet-stream",
        "application/x-www-form-urlencoded",
        "application/problem+json",
        "multipart/form-data; boundary=x",
        "application/jsonl",
    ],
)
def test_binary_body(content_type: str | None) -> None:
    """A body of any other media type, or none, arrives as base64, even when it could be text."""
    made_event = with_body(b"a=1", content_type)
    assert (made_event["body"], made_event["isBase64Encoded"]) == ("YT0x", True)


def test_false_text_arrives_unchanged() -> None:
    """A body that is said to be text and is not UTF-8 arrives byte for byte, as base64."""
    made_event = with_body(b'{"a": "\xff\xfe"}', "application/json")
    assert made_event["isBase64Encoded"] is True
    assert base64.b64decode(made_event["body"]) == b'{"a": "\xff\xfe"}'


def test_byte_order_mark_is_kept() -> None:
    """A byte order mark is part of the body."""
    assert with_body(b"\xef\xbb\xbf{}", "application/json")["body"] == "\ufeff{}"


def test_no_body() -> None:
    """A request without a body has no member for it, whatever its content type."""
    made_event = with_body(b"", "application/octet-stream")
    assert "body" not in made_event
    assert made_event["isBase64Encoded"] is False


def test_serialised_event_is_ascii() -> None:
    """The event goes to the runtime as ASCII JSON, with header bytes beyond ASCII intact."""
    request = replace(REQUEST, headers=[("x", b"\xe9\xff".decode("latin-1"))])
    sent = event_bytes(request, RECEPTION)
    assert sent.isascii()
    assert json.loads(sent)["headers"]["x"].encode("latin-1") == b"\xe9\xff"
