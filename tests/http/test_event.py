"""HTTP requests in all four shapes, and what is none."""

from __future__ import annotations

import pytest

from oncekey.errors import RequestRefused
from oncekey.http.event import Shape, read_request, request_context
from tests.support import events

SHAPES = {
    "apigw_http_v2_post": Shape.PAYLOAD_2,
    "function_url_post": Shape.PAYLOAD_2,
    "apigw_rest_v1_post": Shape.REST,
    "alb_post": Shape.LOAD_BALANCER,
    "alb_multi_value_post": Shape.LOAD_BALANCER_MULTI_VALUE,
}
every_shape = pytest.mark.parametrize("name", SHAPES)

NO_HTTP_EVENTS = {
    "an SQS event": {"Records": [{"messageId": "1", "body": "{}", "eventSource": "aws:sqs"}]},
    "an EventBridge event": {"version": "0", "detail-type": "x", "detail": {}, "source": "y"},
    "a WebSocket event": {"requestContext": {"routeKey": "$connect", "connectionId": "1"}},
    "an empty dict": {},
    "a request context that is no dict": {"requestContext": "x", "httpMethod": "GET", "path": "/"},
    "no path": {"requestContext": {}, "httpMethod": "GET"},
    "no method": {"requestContext": {}, "path": "/"},
}


@every_shape
@pytest.mark.parametrize("spelling", ["Idempotency-Key", "IDEMPOTENCY-KEY", "idempotency-key"])
def test_header_names_are_read_in_any_letter_case(name: str, spelling: str) -> None:
    """A gateway may hand a header on in lower case or as it was sent."""
    event = events.with_header(events.with_key(events.load(name)), spelling, "another-key-12345")

    assert read_request(event).header_lines("idempotency-key") == ["another-key-12345"]


@every_shape
def test_a_request_without_headers_and_body_is_read(name: str) -> None:
    """Members that are null or left out mean that there is nothing."""
    absent = events.load(name)
    null = events.load(name)
    for member in ("headers", "body", "queryStringParameters", "multiValueQueryStringParameters"):
        absent.pop(member, None)
        null[member] = None
    if SHAPES[name] is Shape.REST:
        absent.pop("multiValueHeaders")
        null["multiValueHeaders"] = None
    elif SHAPES[name] is Shape.LOAD_BALANCER_MULTI_VALUE:
        absent["multiValueHeaders"] = null["multiValueHeaders"] = {}

    for event in (absent, null):
        request = read_request(event)
        assert request.shape is SHAPES[name]
        assert (request.headers, request.body, request.raw_query) == ((), b"", "")
        assert request.media_type == ""


def test_a_null_header_is_none() -> None:
    """A header without a value or without lines is left out."""
    single = events.load("alb_post")
    single["headers"]["idempotency-key"] = None
    many = events.load("alb_multi_value_post")
    many["multiValueHeaders"]["idempotency-key"] = None

    assert read_request(single).header_lines("idempotency-key") == []
    assert read_request(many).header_lines("idempotency-key") == []


def test_lists_of_lines_come_before_single_values() -> None:
    """A REST API sends each header twice; only the lists have every line."""
    event = events.load("apigw_rest_v1_post")
    event["multiValueHeaders"]["Idempotency-Key"] = ["one", "two"]

    assert read_request(event).header_lines("idempotency-key") == ["one", "two"]


def test_cookies_are_no_header_lines() -> None:
    """Payload 2.0 takes cookies out of the headers; nothing puts them back."""
    event = events.load("apigw_http_v2_post")
    before = read_request(event)
    event["cookies"] = ["idempotency-key=1"]

    assert read_request(event).headers == before.headers


@every_shape
def test_a_method_is_read_in_upper_case(name: str) -> None:
    """Whatever a test or a gateway writes, a method is compared in one letter case."""
    event = events.with_route(events.load(name), "post", "/payments")

    assert read_request(event).method == "POST"


def test_a_path_is_the_concrete_one() -> None:
    """The path has the ids that were sent, not the route's template."""
    for name in SHAPES:
        event = events.with_route(
            events.load(name), "POST", "/payments/1", resource="/payments/{i}"
        )
        assert read_request(event).path == "/payments/1"


def test_a_decoded_query_is_encoded_again() -> None:
    """A REST API decodes the query; what it decoded cannot be taken for a delimiter."""
    event = events.load("apigw_rest_v1_post")
    event["multiValueQueryStringParameters"] = {"a&b": ["1=2 +%", ""], "é": ["\ud800"]}

    assert read_request(event).raw_query == "a%26b=1%3D2%20%2B%25&a%26b=&%C3%A9=%ED%A0%80"


@pytest.mark.parametrize(
    ("name", "member", "query"),
    [
        ("alb_post", "queryStringParameters", {"a%26b": "1%3D2+%2B"}),
        ("alb_multi_value_post", "multiValueQueryStringParameters", {"a%26b": ["1%3D2+%2B"]}),
    ],
)
def test_a_load_balancers_query_is_kept_as_it_came(
    name: str, member: str, query: dict[str, object]
) -> None:
    """A load balancer hands the query on undecoded, so it is not encoded a second time."""
    event = events.load(name)
    event[member] = query

    assert read_request(event).raw_query == "a%26b=1%3D2+%2B"


def test_a_single_valued_query_of_a_rest_api_is_read() -> None:
    """Where only single values are given, they are the query."""
    event = events.load("apigw_rest_v1_post")
    event["queryStringParameters"] = {"a": "1", "b": ""}

    assert read_request(event).raw_query == "a=1&b="


def test_a_name_without_values_is_a_blank_one() -> None:
    """A parameter whose list is empty or null was sent without a value."""
    event = events.load("apigw_rest_v1_post")
    event["multiValueQueryStringParameters"] = {"a": [], "b": None}

    assert read_request(event).raw_query == "a=&b="


@pytest.mark.parametrize("event", NO_HTTP_EVENTS.values(), ids=NO_HTTP_EVENTS)
def test_another_kind_of_event_is_a_mistake(event: dict[str, object]) -> None:
    """A handler behind something else than HTTP is told which events can be read."""
    with pytest.raises(TypeError, match=r"no HTTP request of API Gateway .* or a Function URL"):
        read_request(event)


@pytest.mark.parametrize(
    "event",
    [
        {"httpMethod": "POST", "path": "/payments", "headers": {}, "requestContext": {}},
        {"httpMethod": "POST", "headers": {}, "requestContext": {"requestId": "a"}},
        {"rawPath": "/payments", "headers": {}, "requestContext": {"requestId": "a"}},
    ],
)
def test_an_http_event_with_a_part_missing_is_told_so(event: dict[str, object]) -> None:
    """One that was made by hand is not said to be another kind of event, or one for a function."""
    with pytest.raises(TypeError, match=r"it looks like one, and lacks a member") as refused:
        read_request(event)
    assert "idempotent_function" not in str(refused.value)


@pytest.mark.parametrize("event", ["{}", None, [], [{}], 1], ids=repr)
def test_what_is_no_event_is_a_mistake(event: object) -> None:
    """Something other than a dict is named by its type, and never repeated."""
    with pytest.raises(TypeError, match=f"an HTTP event is a dict, not {type(event).__name__}"):
        read_request(event)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("body", ["not base64!", "YQ", "YQ==YQ==", "YQ==\n", "é"])
def test_a_body_that_is_not_the_base64_it_is_said_to_be_is_refused(body: str) -> None:
    """Such a body is refused as soon as somebody asks for it, and not guessed at."""
    event = events.load("apigw_http_v2_base64_post")
    event["body"] = body
    request = read_request(event)

    with pytest.raises(RequestRefused, match="marked as base64 and is not") as caught:
        _ = request.body
    assert caught.value.code == "request-invalid"


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        ("application/json;charset=utf-8", "application/json"),
        (" text/plain ;x", "text/plain"),
        ("", ""),
    ],
)
def test_a_media_type_is_read_without_parameters(header: str, media_type: str) -> None:
    """Parameters and letter case do not belong to a media type."""
    event = events.with_header(events.load("apigw_rest_v1_post"), "Content-Type", header)

    assert read_request(event).media_type == media_type


def test_a_request_is_read_once() -> None:
    """What a handler does to its event afterwards changes no request."""
    event = events.load("apigw_http_v2_post")
    request = read_request(event)
    event["headers"].clear()
    event["body"] = "{}"

    assert request.header_lines("idempotency-key") != []
    assert request.body != b"{}"


@every_shape
def test_the_request_context_is_what_the_gateway_states(name: str) -> None:
    """The caller is read from the request context alone, and any event may have none."""
    event = events.load(name)

    assert request_context(event) == event["requestContext"] == read_request(event).context
    for other in (*NO_HTTP_EVENTS.values(), None, "x", []):
        assert isinstance(request_context(other), dict)
