"""The sample events, and the helpers that change them."""

from __future__ import annotations

import pytest

from oncekey.http.event import Shape, read_request
from tests.support import events

KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"
BODY = b'{"customer_id":"cus_1","amount":1200,"currency":"eur"}'

SHAPES = {
    "apigw_http_v2_post": Shape.PAYLOAD_2,
    "apigw_http_v2_base64_post": Shape.PAYLOAD_2,
    "apigw_rest_v1_post": Shape.REST,
    "alb_post": Shape.LOAD_BALANCER,
    "alb_multi_value_post": Shape.LOAD_BALANCER_MULTI_VALUE,
    "function_url_post": Shape.PAYLOAD_2,
}
every_event = pytest.mark.parametrize("name", SHAPES)


@every_event
def test_every_sample_is_the_same_request(name: str) -> None:
    """Whatever its shape, a sample event is a POST of one body to /payments with one key."""
    request = read_request(events.load(name))

    assert request.shape is SHAPES[name]
    assert (request.method, request.path, request.raw_query) == ("POST", "/payments", "")
    assert request.body == BODY
    (key,) = request.header_lines("idempotency-key")
    assert key.strip('"') == KEY


def test_one_sample_is_quoted_and_in_base64() -> None:
    """One sample carries the key as the draft's quoted string and its body in base64."""
    event = events.load("apigw_http_v2_base64_post")

    assert event["isBase64Encoded"] is True
    assert event["headers"]["idempotency-key"] == f'"{KEY}"'


def test_a_loaded_event_is_the_callers_own() -> None:
    """Changing a loaded event changes no later one."""
    events.load("alb_post")["headers"].clear()

    assert events.load("alb_post")["headers"]


def test_an_unknown_sample_names_the_known_ones() -> None:
    """A misspelt name is refused with the names there are."""
    with pytest.raises(ValueError, match=r"no sample event 'alb'.*alb_multi_value_post, alb_post"):
        events.load("alb")


@every_event
def test_a_changed_key_replaces_every_spelling(name: str) -> None:
    """A new key is the only key line of the event, and no key leaves none."""
    event = events.load(name)

    changed = read_request(events.with_key(event, "another-key-0123456789"))
    removed = read_request(events.with_key(event))

    assert changed.header_lines("idempotency-key") == ["another-key-0123456789"]
    assert removed.header_lines("idempotency-key") == []
    assert read_request(event).header_lines("idempotency-key") != []


@every_event
def test_repeated_lines_arrive_as_the_shape_has_them(name: str) -> None:
    """Two header lines stay two where the shape can tell, and are joined by a comma elsewhere."""
    request = read_request(events.with_key(events.load(name), "one", "two"))

    apart = SHAPES[name] in {Shape.REST, Shape.LOAD_BALANCER_MULTI_VALUE}
    assert request.header_lines("idempotency-key") == (["one", "two"] if apart else ["one,two"])


@every_event
@pytest.mark.parametrize(("body", "sent"), [("é", "é".encode()), (b"\xff", b"\xff"), (None, b"")])
def test_a_changed_body_arrives(name: str, body: str | bytes | None, sent: bytes) -> None:
    """Text, bytes and no body arrive as they were given."""
    assert read_request(events.with_body(events.load(name), body)).body == sent


@every_event
def test_a_changed_route_changes_method_and_path(name: str) -> None:
    """The event is as if it had been sent to the other route."""
    event = events.with_route(
        events.load(name), "PATCH", "/payments/1", resource="/payments/{payment_id}"
    )

    request = read_request(event)

    assert (request.method, request.path) == ("PATCH", "/payments/1")
    if name.startswith("apigw_http"):
        assert event["routeKey"] == "PATCH /payments/{payment_id}"
        assert request.context["routeKey"] == "PATCH /payments/{payment_id}"
    if name.startswith("apigw_rest"):
        assert event["resource"] == request.context["resourcePath"] == "/payments/{payment_id}"
        assert request.context["path"] == "/prod/payments/1"
    if name.startswith("function_url"):
        assert event["routeKey"] == "$default"


@pytest.mark.parametrize("name", ["apigw_http_v2_post", "apigw_rest_v1_post"])
def test_a_changed_tenant_stands_in_the_verified_claims(name: str) -> None:
    """The tenant changes where the authorizer states it, and can be missing."""
    event = events.load(name)

    authorizer = events.with_tenant(event, "tenant-2")["requestContext"]["authorizer"]
    without = events.with_tenant(event, None)["requestContext"]["authorizer"]

    assert authorizer.get("jwt", authorizer)["claims"]["tenant_id"] == "tenant-2"
    assert "tenant_id" not in without.get("jwt", without)["claims"]


@pytest.mark.parametrize("name", ["alb_post", "function_url_post"])
def test_an_event_without_a_token_has_no_claims_to_change(name: str) -> None:
    """Asking for a claim of an event whose way has no token is a mistake of the test."""
    with pytest.raises(ValueError, match="no JWT claims"):
        events.with_tenant(events.load(name), "tenant-2")
