"""What can be left out of a fingerprint: members of the query, and how the path was reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, idempotent, single_tenant
from oncekey.http.event import read_request
from oncekey.http.fingerprint import LeftOut, fingerprints
from tests.support.events import load, with_key, with_route
from tests.support.protected import Protected, is_replay, problem_of

if TYPE_CHECKING:
    from oncekey.http.event import HttpRequest

V2, REST = load("apigw_http_v2_post"), load("apigw_rest_v1_post")
ALB = load("alb_multi_value_post")
SIGNED = LeftOut(query=frozenset({"X-Amz-*", "expires"}))


def sent(event: dict[str, Any], left_out: LeftOut = LeftOut()) -> str:  # noqa: B008 -- frozen
    """The fingerprint of the event."""
    return fingerprints(read_request(event), None, (), left_out).current


def with_query(raw: str, sample: dict[str, Any] = V2) -> dict[str, Any]:
    """The sample with this query."""
    if "rawQueryString" in sample:
        return {**sample, "rawQueryString": raw}
    pairs = [piece.split("=") for piece in raw.split("&") if piece]
    return {**sample, "multiValueQueryStringParameters": {name: [value] for name, value in pairs}}


@pytest.mark.fault("K8.2")
@pytest.mark.parametrize("sample", [V2, REST, ALB], ids=["HTTP API", "REST API", "ALB"])
def test_changing_members_of_the_query_can_be_left_out(sample: dict[str, Any]) -> None:
    """A URL that was signed anew is the same request, if its changing members are named.

    Red when a named member counts, or one that is not named does not.
    """
    first = with_query("X-Amz-Signature=1&a=1&X-Amz-Date=5&expires=9", sample)
    again = with_query("expires=1&a=1&X-Amz-Date=6&X-Amz-Signature=2&X-Amz-New=3", sample)

    assert sent(first, SIGNED) == sent(again, SIGNED) == sent(with_query("a=1", sample), SIGNED)
    assert sent(first) != sent(again)
    assert sent(first, SIGNED) != sent(with_query("a=2", sample), SIGNED)


@pytest.mark.fault("K8.2")
@pytest.mark.parametrize(
    "member",
    ["X-Am=1", "x-amz-date=1", "Expires=1", "expires2=1", "xexpires=1", "a=expires", "*=1"],
)
def test_only_what_is_named_is_left_out(member: str) -> None:
    """Names count in their letter case and whole, but for what a star stands for.

    Red when a name is matched in part or in another letter case.
    """
    assert sent(with_query(member), SIGNED) != sent(with_query(""), SIGNED)


@pytest.mark.fault("K8.2")
def test_a_name_is_left_out_however_it_is_encoded() -> None:
    """An escape in a name makes no other name of it.

    Red when names are compared as they came.
    """
    assert sent(with_query("%65xpires=1"), SIGNED) == sent(with_query(""), SIGNED)
    utf8 = LeftOut(query=frozenset({"größe"}))
    assert sent(with_query("gr%C3%B6%C3%9Fe=1&%ff=1"), utf8) == sent(with_query("%ff=1"), utf8)


@pytest.mark.fault("K8.2")
@pytest.mark.parametrize("selects", [False, True])
def test_a_signed_url_that_was_signed_anew_is_replayed(selects: bool) -> None:
    """The decorator leaves the members out, and a callable of its author sees the request whole.

    Red when the option does not reach the fingerprint, or the callable sees less than was sent.
    """
    seen: list[str] = []

    def select(request: HttpRequest) -> str:
        seen.append(request.raw_query)
        return request.text

    service = Protected(ignore_query=("X-Amz-*",), fingerprint=select if selects else None)

    service.send(with_query("X-Amz-Signature=1"))
    assert is_replay(service.send(with_query("X-Amz-Signature=2")))
    assert problem_of(service.send(with_query("X-Amz-Signature=2&a=1")))[1] == "key-reused"
    assert seen[:2] == (["X-Amz-Signature=1", "X-Amz-Signature=2"] if selects else [])


def at_stage(path: str, route: str, stage: str = "prod") -> dict[str, Any]:
    """A request to an HTTP API whose event has this raw path."""
    event = with_route(V2, "POST", path)
    context = {**event["requestContext"], "stage": stage, "routeKey": route}
    return {**event, "routeKey": route, "requestContext": context}


def at_domain(path: str, resource: str) -> dict[str, Any]:
    """A request to a REST API through a domain whose mapping has a base path."""
    return with_route(REST, "POST", path, resource=resource)


SAME_PATHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a stage of an HTTP API": (
        at_stage("/prod/payments", "POST /payments"),
        at_stage("/payments", "POST /payments"),
    ),
    "a stage before a parameter": (
        at_stage("/prod/payments/5", "POST /payments/{id}"),
        at_stage("/payments/5", "POST /payments/{id}"),
    ),
    "a stage before the default route": (
        at_stage("/prod/payments", "$default"),
        at_stage("/payments", "$default"),
    ),
    "a stage and nothing else": (at_stage("/prod", "ANY /"), at_stage("/", "ANY /")),
    "a base path of a REST API": (
        at_domain("/v1/payments", "/payments"),
        at_domain("/payments", "/payments"),
    ),
    "a base path before a parameter": (
        at_domain("/api/v1/payments/5", "/payments/{id}"),
        at_domain("/payments/5", "/payments/{id}"),
    ),
    "HTTP API and REST API": (
        at_stage("/prod/payments", "POST /payments"),
        at_domain("/v1/payments", "/payments"),
    ),
}
OTHER_PATHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a segment that begins like the stage": (
        at_stage("/production/payments", "$default"),
        at_stage("/uction/payments", "$default"),
    ),
    "a route that begins with the stage's name": (
        at_stage("/prod/payments", "POST /prod/payments"),
        at_stage("/payments", "POST /payments"),
    ),
    "the default stage": (
        at_stage("/$default/payments", "$default", "$default"),
        at_stage("/payments", "$default", "$default"),
    ),
    "another parameter": (
        at_domain("/v1/payments/5", "/payments/{id}"),
        at_domain("/v1/payments/6", "/payments/{id}"),
    ),
    "a greedy route": (
        at_domain("/v1/payments", "/{proxy+}"),
        at_domain("/payments", "/{proxy+}"),
    ),
    "a path that its route does not end": (
        at_domain("/payments/5", "/refunds"),
        at_domain("/5", "/refunds"),
    ),
}


@pytest.mark.fault("K8.2")
@pytest.mark.parametrize(("one", "other"), SAME_PATHS.values(), ids=SAME_PATHS)
def test_the_stage_that_a_request_came_through_does_not_count(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Where the event says what of its path is the stage, or the base path of a domain, a request
    is the same through either.

    Red when the path is hashed as the gateway wrote it.
    """
    assert sent(one) == sent(other)


@pytest.mark.parametrize(("one", "other"), OTHER_PATHS.values(), ids=OTHER_PATHS)
def test_what_is_no_stage_counts(one: dict[str, Any], other: dict[str, Any]) -> None:
    """What the event does not say to be a stage is a part of the path."""
    assert sent(one) != sent(other)


@pytest.mark.fault("K8.2")
@pytest.mark.parametrize("sample", [V2, REST, ALB], ids=["HTTP API", "REST API", "ALB"])
def test_a_base_path_can_be_left_out(sample: dict[str, Any]) -> None:
    """`base_path` names what the event does not tell: a request with it and one without are the
    same; what only begins with the same letters is another.

    Red when the option does not reach the fingerprint, or cuts a segment in two.
    """
    service = Protected(base_path="/v1")

    service.send(with_route(sample, "POST", "/v1/payments", resource="/{proxy+}"))
    again = service.send(with_route(sample, "POST", "/payments", resource="/{proxy+}"))
    other = service.send(with_route(sample, "POST", "/v1payments", resource="/{proxy+}"))

    assert is_replay(again)
    assert problem_of(other)[1] == "key-reused"
    fresh = with_key(with_route(sample, "POST", "/v1"), "another-key-of-its-own")
    assert service.send(fresh)["statusCode"] == 201


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"ignore_query": "X-Amz-Date"}, "ignore_query is a collection of names"),
        ({"ignore_query": ("*",)}, "ignore_query is a collection of names"),
        ({"ignore_query": ("",)}, "ignore_query is a collection of names"),
        ({"ignore_query": (1,)}, "ignore_query is a collection of names"),
        ({"ignore_query": None}, "ignore_query is a collection of names"),
        ({"base_path": "v1"}, "base_path begins with a slash"),
        ({"base_path": "/v1/"}, "base_path begins with a slash"),
        ({"base_path": "/"}, "base_path begins with a slash"),
        ({"base_path": None}, "base_path begins with a slash"),
    ],
)
def test_what_is_left_out_is_checked_when_it_is_named(options: dict[str, Any], fault: str) -> None:
    """A name that would leave out everything, or none, is refused as the handler is decorated."""
    with pytest.raises(ConfigurationError, match=fault):
        idempotent(operation="POST /x", tenant=single_tenant(), **options)
