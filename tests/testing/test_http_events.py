"""`api_event` makes the events that AWS sends."""

from __future__ import annotations

import base64
import inspect
from typing import Any, get_args

import pytest

from oncekey.http.event import read_request
from oncekey.testing import api_event
from oncekey.testing.http_events import ApiShape
from tests.support.events import load

KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"
BODY = {"customer_id": "cus_1", "amount": 1200, "currency": "eur"}
CALLER = "arn:aws:iam::123456789012:user/example-caller"
SHAPES = get_args(ApiShape)
every_shape = pytest.mark.parametrize("shape", SHAPES)


def claims_of(event: dict[str, Any]) -> dict[str, str]:
    """The claims of a sample event."""
    authorizer = event["requestContext"]["authorizer"]
    claims: dict[str, str] = authorizer.get("jwt", authorizer)["claims"]
    return claims


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("apigw_http_v2_post", "http"),
        ("apigw_rest_v1_post", "rest"),
        ("alb_post", "alb"),
        ("alb_multi_value_post", "alb-multi-value"),
        ("function_url_post", "function-url"),
    ],
)
def test_an_event_equals_the_sample_of_its_shape(name: str, shape: ApiShape) -> None:
    """An event equals the recorded sample of its shape, down to the last member."""
    sample = load(name)
    caller: dict[str, Any] = {}
    if shape in {"http", "rest"}:
        caller = {"claims": claims_of(sample)}
    elif shape == "function-url":
        caller = {"user_arn": CALLER}

    assert api_event("POST /payments", key=KEY, body=BODY, shape=shape, **caller) == sample


def test_bytes_are_sent_as_base64() -> None:
    """A body of bytes arrives as base64, with the headers that the caller gave."""
    sample = load("apigw_http_v2_base64_post")
    event = api_event(
        "POST /payments",
        key=f'"{KEY}"',
        body=b'{"customer_id":"cus_1","amount":1200,"currency":"eur"}',
        headers={"content-type": "application/vnd.example.payment+json"},
        claims=claims_of(sample),
    )

    assert event == sample


FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("shape", "media_type", "is_base64"),
    [
        ("http", FORM, True),
        ("http", "application/problem+json", True),
        ("http", "text/csv; charset=utf-8", False),
        ("function-url", FORM, True),
        ("alb", FORM, True),
        ("alb", "application/xml", False),
        ("rest", FORM, False),
    ],
)
def test_text_is_base64_if_the_gateway_encodes_its_type(
    shape: ApiShape, media_type: str, is_base64: bool
) -> None:
    """A handler that reads a form without decoding it fails in its test, as it would on AWS."""
    event = api_event(
        "POST /", body="amount=5&note=ü", shape=shape, headers={"content-type": media_type}
    )

    raw = event["body"].encode()
    assert event["isBase64Encoded"] is is_base64
    assert (base64.b64decode(raw) if is_base64 else raw).decode() == "amount=5&note=ü"


def test_a_header_without_a_line_is_not_sent() -> None:
    """An empty list is no header, in any shape."""
    for shape in ("rest", "http"):
        event = api_event("GET /", headers={"X-Trace": []}, shape=shape)

        assert not [name for name in event["headers"] if name.lower() == "x-trace"]


def test_a_webhook_equals_its_sample() -> None:
    """A request without a caller, with a text as its body, equals the sample of a webhook."""
    sample = load("apigw_http_v2_stripe_webhook")
    names = ("accept", "cache-control", "content-type", "stripe-signature", "user-agent")
    headers = {name: sample["headers"][name] for name in names}

    event = api_event("POST /webhooks/stripe", body=sample["body"], headers=headers)

    assert event == sample


@every_shape
def test_every_shape_is_the_same_request(shape: ApiShape) -> None:
    """Method, path, query, lines of headers and body are the same in every shape."""
    event = api_event(
        "PUT /orders/{order_id}/lines/{line}",
        key="key-of-one-payment",
        body={"name": "é"},
        shape=shape,
        path_parameters={"order_id": "o-1", "line": "2"},
        query={"dry run": "a b"},
        headers={"X-Trace": "one"},
    )

    request = read_request(event)

    assert (request.method, request.path) == ("PUT", "/orders/o-1/lines/2")
    assert request.raw_query == "dry%20run=a%20b"
    assert request.header_lines("idempotency-key") == ["key-of-one-payment"]
    assert request.header_lines("x-trace") == ["one"]
    assert request.body == '{"name":"é"}'.encode()
    assert request.media_type == "application/json"


def test_the_route_is_a_template_where_the_gateway_has_one() -> None:
    """API Gateway tells the handler the template and its parameters; the others do not."""
    options: dict[str, Any] = {"path_parameters": {"id": "o-1"}}
    http = api_event("GET /orders/{id}", **options)
    rest = api_event("GET /orders/{id}", shape="rest", **options)

    assert (http["routeKey"], http["pathParameters"]) == ("GET /orders/{id}", {"id": "o-1"})
    assert (rest["resource"], rest["pathParameters"]) == ("/orders/{id}", {"id": "o-1"})
    assert rest["requestContext"]["resourcePath"] == "/orders/{id}"
    for shape in ("alb", "alb-multi-value", "function-url"):
        assert "pathParameters" not in api_event("GET /orders/{id}", shape=shape, **options)


def test_repeated_headers_and_parameters_arrive_as_each_gateway_tells_them() -> None:
    """Repeated lines are joined, listed, or lost, as the caller of the function does it."""
    options: dict[str, Any] = {"headers": {"X-Tag": ["a", "b"]}, "query": {"q": ["1", "2"]}}
    http, rest, alb, multi = (
        api_event("GET /", shape=shape, **options)
        for shape in ("http", "rest", "alb", "alb-multi-value")
    )

    assert (http["headers"]["x-tag"], http["queryStringParameters"]) == ("a,b", {"q": "1,2"})
    assert http["rawQueryString"] == "q=1&q=2"
    assert rest["multiValueHeaders"]["X-Tag"] == ["a", "b"]
    assert rest["multiValueQueryStringParameters"] == {"q": ["1", "2"]}
    assert (rest["headers"]["X-Tag"], rest["queryStringParameters"]) == ("b", {"q": "2"})
    assert (alb["headers"]["x-tag"], alb["queryStringParameters"]) == ("b", {"q": "2"})
    assert multi["multiValueHeaders"]["x-tag"] == ["a", "b"]


def test_cookies_are_listed_by_an_http_api() -> None:
    """An HTTP API takes cookies out of the headers."""
    event = api_event("GET /", headers={"Cookie": "a=1; b=2"})

    assert event["cookies"] == ["a=1", "b=2"]
    assert "cookie" not in event["headers"]


@pytest.mark.parametrize(
    ("shape", "body"), [("http", None), ("rest", None), ("alb", ""), ("alb-multi-value", "")]
)
def test_no_body_is_told_as_each_gateway_tells_it(shape: ApiShape, body: str | None) -> None:
    """Without a body, an HTTP API has no member, a REST API null, and a load balancer no text."""
    event = api_event("GET /", shape=shape)

    assert ("body" in event) is (shape != "http")
    assert event.get("body") == body
    assert read_request(event).media_type == ""


def test_the_callers_of_a_lambda_authorizer_and_of_a_usage_plan() -> None:
    """What your own authorizer returned, and the API key's id, are where AWS puts them."""
    http = api_event("GET /", authorizer={"tenant": "t-1"})
    rest = api_event("GET /", shape="rest", authorizer={"tenant": "t-1"}, api_key_id="key-1")

    assert http["requestContext"]["authorizer"] == {"lambda": {"tenant": "t-1"}}
    assert rest["requestContext"]["authorizer"] == {"tenant": "t-1", "principalId": "user-1"}
    assert rest["requestContext"]["identity"]["apiKeyId"] == "key-1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"route": "/payments"}, "route is a method and a path"),
        ({"route": "post /payments"}, "route is a method and a path"),
        ({"shape": "soap"}, "shape is one of http, rest, alb"),
        ({"shape": "alb", "claims": {}}, "'alb' has no claims: it may have no verified caller"),
        ({"shape": "function-url", "claims": {}}, "has no claims: it may have user_arn"),
        ({"api_key_id": "k"}, "'http' has no api_key_id: it may have claims, authorizer, user_arn"),
        ({"route": "GET /{id}"}, "path_parameters of '/{id}' are id, not none"),
        ({"path_parameters": {"id": "1"}}, "path_parameters of '/' are none, not id"),
        ({"route": "GET /{order-id}"}, "path_parameters of '/{order-id}' are order-id, not none"),
        ({"route": "GET /?page=2"}, "give the query in query="),
        ({"route": "ANY /"}, "route is a method and a path"),
        ({"claims": {}, "user_arn": "arn:aws:iam::1:user/a"}, "give one of claims, user_arn"),
        ({"claims": {"tenant_id": 7}}, "claims as text, so not tenant_id=7"),
        ({"key": 5}, "'key' is text, not 5"),
        ({"user_arn": 5}, "'user_arn' is text, not 5"),
        ({"headers": {"X-Cost": 5}}, "'X-Cost' of headers is text, not 5"),
        ({"headers": {"X-Cost": [None]}}, "'X-Cost' of headers is text"),
        ({"headers": [("X-Cost", "5")]}, "headers is a mapping of names to texts, not list"),
        ({"query": {"page": 5}}, "'page' of query is text, not 5"),
        ({"path_parameters": {"id": None}}, "'id' of path_parameters is text, not None"),
    ],
)
def test_an_impossible_request_is_refused(options: dict[str, Any], message: str) -> None:
    """A request that AWS cannot send is refused, with what is possible."""
    with pytest.raises(ValueError, match=message):
        api_event(**{"route": "GET /", **options})


def test_an_event_is_the_callers_own() -> None:
    """Changing an event changes no later one, and not what it was made of."""
    claims = {"tenant_id": "t-1"}
    options: dict[str, Any] = {"headers": {"X-Tag": ["a"]}, "claims": claims}
    for shape in ("http", "rest"):
        event = api_event("GET /", shape=shape, **options)
        claims_of(event).clear()
        event["headers"].clear()
        event.get("multiValueHeaders", {}).get("X-Tag", []).append("b")

    assert options == {"headers": {"X-Tag": ["a"]}, "claims": {"tenant_id": "t-1"}}


def test_only_what_the_request_needs_is_asked_for() -> None:
    """A route alone makes an event."""
    required = [
        each.name
        for each in inspect.signature(api_event).parameters.values()
        if each.default is each.empty
    ]

    assert required == ["route"]
