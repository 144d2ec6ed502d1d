"""Which browser pages may call an API, and the headers that a handler behind a REST API adds."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from oncekey import ConfigurationError, Cors, idempotent, single_tenant
from oncekey.testing import MemoryStore
from tests.support.events import Event, load, with_body, with_header, with_key, with_route

SHOP = "https://shop.example"
CORS = Cors(origins=[SHOP, "https://admin.example"])
EVENTS = {
    "apigw_rest_v1_post": "headers",
    "apigw_http_v2_post": "headers",
    "alb_multi_value_post": "multiValueHeaders",
}


def from_page(event: Event, origin: str = SHOP) -> Event:
    """`event`, sent by a page of `origin`."""
    return with_header(event, "origin", origin)


def lines(answer: dict[str, Any]) -> dict[str, str]:
    """The headers of an answer by lower-case name, whatever member they are in."""
    many = {name: values[0] for name, values in answer.get("multiValueHeaders", {}).items()}
    return {name.lower(): value for name, value in {**answer.get("headers", {}), **many}.items()}


@pytest.mark.parametrize("name", EVENTS)
def test_every_answer_lets_the_page_read_the_headers_of_a_retry(name: str) -> None:
    """First answers, replays and refusals name the page's origin and the headers it may read, in
    the member that the shape reads.
    """

    @CORS
    @idempotent(operation=f"POST /{name}", tenant=single_tenant(), store=MemoryStore())
    def handler(event: Event, context: object) -> dict[str, Any]:
        return {"statusCode": 201, "headers": {"Location": "/payments/1"}, "body": "{}"}

    event = from_page(with_key(load(name), "a-key-of-a-client-1"))
    answers = [handler(event, None), handler(event, None)]
    answers += [handler(with_key(event), None), handler(with_body(event, "{}"), None)]

    assert [answer["statusCode"] for answer in answers] == [201, 201, 400, 422]
    for answer in answers:
        sent = lines({EVENTS[name]: answer[EVENTS[name]]})
        assert sent["access-control-allow-origin"] == SHOP
        assert sent["vary"] == "Origin"
        assert {*sent["access-control-expose-headers"].split(",")} == {
            *("Idempotency-Key", "Idempotent-Replayed", "Idempotency-Expires"),
            *("Retry-After", "Location"),
        }
    assert lines(answers[1])["idempotent-replayed"] == "true"


def test_a_replay_to_another_page_names_that_page() -> None:
    """The header is of the request that is answered, and not of the first one."""

    @CORS
    @idempotent(operation="POST /other", tenant=single_tenant(), store=MemoryStore())
    def handler(event: Event, context: object) -> dict[str, Any]:
        return {"statusCode": 201, "headers": {"Vary": "Accept"}, "body": "{}"}

    event = with_key(load("apigw_rest_v1_post"), "a-key-of-a-client-1")
    handler(from_page(event), None)
    replay = lines(handler(from_page(event, "https://admin.example"), None))

    assert replay["access-control-allow-origin"] == "https://admin.example"
    assert replay["vary"] == "Accept, Origin"


def test_another_page_gets_no_permission() -> None:
    """An origin that is not listed is not allowed, neither for an answer nor for a preflight."""
    for headers in (CORS.answer_headers("https://evil.example"), CORS.preflight_headers(None)):
        assert headers == {"Vary": "Origin"}


def test_a_preflight_is_answered_without_the_handler() -> None:
    """A preflight gets 204 with the methods and the headers, and nobody asks for its tenant."""

    @CORS
    async def handler(event: Event, context: object) -> dict[str, Any]:
        raise AssertionError("the handler ran")

    asked = with_header(
        with_route(from_page(load("apigw_rest_v1_post")), "OPTIONS", "/payments"),
        *("access-control-request-method", "POST"),
    )
    answer = asyncio.run(handler(asked, None))

    assert answer["statusCode"] == 204
    headers = lines(answer)
    assert "POST" in headers["access-control-allow-methods"].split(",")
    assert {"Authorization", "Content-Type", "Idempotency-Key"} <= {
        *headers["access-control-allow-headers"].split(",")
    }


def test_a_bare_value_behind_an_http_api_becomes_an_answer() -> None:
    """What API Gateway would send as 200 gets the headers, too."""

    @Cors(origins=["*"])
    def handler(event: Event, context: object) -> Any:
        return {"a": 1}

    answer = handler(from_page(load("apigw_http_v2_post")), None)

    assert (answer["statusCode"], answer["body"]) == (200, '{"a": 1}')
    assert lines(answer)["access-control-allow-origin"] == "*"


def test_an_event_that_is_no_request_is_passed_on() -> None:
    """A message of a queue reaches the handler and comes back unchanged."""

    @CORS
    def handler(event: Event, context: object) -> Event:
        return event

    assert handler({"Records": []}, None) == {"Records": []}


@pytest.mark.parametrize(
    "origin",
    [
        *("http://localhost:3000", "https://shop.example:8443", "http://[::1]:5173"),
        *("https://xn--bcher-kva.example", "http://192.168.0.7", "http://shop.example:443"),
    ],
)
def test_an_origin_is_accepted_as_browsers_send_it(origin: str) -> None:
    """Hosts, addresses and ports, of which a browser leaves out the scheme's own."""
    assert Cors(origins=[origin]).answer_headers(origin)["Access-Control-Allow-Origin"] == origin


@pytest.mark.parametrize("names", [False, True])
def test_the_decorator_below_ours_is_refused(names: bool) -> None:
    """`@Cors` below `@idempotent` is refused where it is written, also below another decorator.

    Red when the first page's header is stored for all pages, and replays lack their own.
    """

    def handler(event: Event, context: object) -> dict[str, Any]:
        raise AssertionError("it ran")

    def other(wrapped: Any) -> Any:
        @functools.wraps(wrapped)
        def passes_on(event: Any, context: Any) -> Any:
            return wrapped(event, context)

        return passes_on

    below = other(CORS(handler)) if names else CORS(handler)
    with pytest.raises(ConfigurationError, match=r"@Cors stands above this decorator"):
        idempotent(operation="POST /below", tenant=single_tenant())(below)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"origins": []}, "origins is empty"),
        ({"origins": None}, "origins is a list of texts"),
        ({"origins": [5]}, "origins is a list of texts"),
        ({"origins": iter([SHOP])}, "origins is a list of texts"),
        ({"origins": [SHOP], "send_headers": None}, "send_headers is a list of texts"),
        ({"origins": [SHOP], "credentials": "no"}, "credentials is 'no'"),
        ({"origins": [SHOP], "max_age_s": "600"}, "max_age_s is '600'"),
        ({"origins": [SHOP], "max_age_s": 1.5}, "max_age_s is 1.5"),
        ({"origins": "https://shop.example"}, "origins is a list of texts"),
        ({"origins": ["https://shop.example/"]}, "is not scheme and host alone"),
        ({"origins": ["https://Shop.example"]}, "in lower case"),
        ({"origins": ["HTTPS://shop.example"]}, "in lower case"),
        ({"origins": ["https://shop.example:443"]}, "without the scheme's own port"),
        ({"origins": ["http://shop.example:80"]}, "without the scheme's own port"),
        ({"origins": ["https://shop.example,https://b.example"]}, "is not scheme and host alone"),
        ({"origins": ["https://a.example;b"]}, "is not scheme and host alone"),
        ({"origins": ["https://shop.example:"]}, "is not scheme and host alone"),
        ({"origins": ["*", SHOP]}, "'\\*' and others"),
        ({"origins": ["*"], "credentials": True}, "credentials=True with origin '\\*'"),
        ({"origins": [SHOP], "read_headers": ["X Cost"]}, "'X Cost' is no header name"),
        ({"origins": [SHOP], "max_age_s": -1}, "max_age_s is -1"),
    ],
)
def test_a_wrong_value_is_refused(given: dict[str, Any], fault: str) -> None:
    """Each mistake is named before anything is answered."""
    with pytest.raises(ConfigurationError, match=fault):
        Cors(**given)
