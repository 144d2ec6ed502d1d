"""Where tenant and principal come from: the verified request context alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import api_key_id, authorizer_value, iam_principal, jwt_claim, single_tenant
from oncekey.http_event import request_context
from tests.support import events

if TYPE_CHECKING:
    from oncekey.tenants import CallerSource

API_KEY = {"identity": {"apiKeyId": "key-1", "apiKey": "4242secret"}}
LAMBDA_V2 = {"authorizer": {"lambda": {"tenant_id": "tenant-1"}}}
LAMBDA_REST = {"authorizer": {"principalId": "user-1", "tenant_id": "tenant-1"}}
IAM_REST = {"identity": {"userArn": "arn:aws:iam::123456789012:user/example-caller"}}

FOUND = {
    "JWT, HTTP API": (jwt_claim("tenant_id"), "apigw_http_v2_post", "tenant-1"),
    "JWT, REST API": (jwt_claim("tenant_id"), "apigw_rest_v1_post", "tenant-1"),
    "another claim": (jwt_claim("sub"), "apigw_http_v2_post", "user-1"),
    "a claim with a colon": (jwt_claim("cognito:username"), "apigw_rest_v1_post", "user-1"),
    "Lambda authorizer, HTTP API": (authorizer_value("tenant_id"), LAMBDA_V2, "tenant-1"),
    "Lambda authorizer, REST API": (authorizer_value("tenant_id"), LAMBDA_REST, "tenant-1"),
    "IAM, Function URL": (
        iam_principal(),
        "function_url_post",
        "arn:aws:iam::123456789012:user/example-caller",
    ),
    "IAM, REST API": (iam_principal(), IAM_REST, "arn:aws:iam::123456789012:user/example-caller"),
    "API key": (api_key_id(), API_KEY, "key-1"),
    "single tenant": (single_tenant(), "alb_post", "single-tenant"),
}
SOURCES = {
    "jwt_claim": jwt_claim("tenant_id"),
    "authorizer_value": authorizer_value("tenant_id"),
    "iam_principal": iam_principal(),
    "api_key_id": api_key_id(),
}
NOBODY: list[Any] = [None, "", "  ", True, False, 0, 7, [], ["tenant-1"], {"id": "tenant-1"}]


def context_of(event: str | dict[str, Any]) -> dict[str, Any]:
    """The request context of a sample, or one written out."""
    return dict(request_context(events.load(event))) if isinstance(event, str) else event


def everywhere(value: Any) -> dict[str, Any]:
    """A request context that says `value` wherever any source looks."""
    return {
        "authorizer": {
            "jwt": {"claims": {"tenant_id": value}},
            "claims": {"tenant_id": value},
            "lambda": {"tenant_id": value},
            "iam": {"userArn": value},
            "tenant_id": value,
        },
        "identity": {"userArn": value, "apiKeyId": value},
    }


@pytest.mark.requirement("C1")
@pytest.mark.parametrize(("source", "event", "caller"), FOUND.values(), ids=FOUND)
def test_a_caller_is_found_where_the_gateway_states_it(
    source: CallerSource, event: str | dict[str, Any], caller: str
) -> None:
    """Each source reads the place where AWS puts what it has verified.

    Red when a source reads another place than its authorizer writes.
    """
    assert source(context_of(event)) == caller


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("value", NOBODY, ids=repr)
def test_an_empty_claim_a_list_or_a_flag_names_nobody(source: CallerSource, value: Any) -> None:
    """What is not a text with something in it is no tenant, so that such callers share nothing."""
    assert source(everywhere("tenant-1")) == "tenant-1"
    assert source(everywhere(value)) is None


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize(
    "context",
    [
        {},
        {"authorizer": None, "identity": None},
        {"authorizer": "tenant-1", "identity": ["tenant-1"]},
        {"authorizer": {"jwt": None, "claims": "tenant-1", "lambda": [], "iam": True}},
        {"authorizer": {"jwt": {"claims": None}}},
    ],
    ids=repr,
)
def test_a_context_without_the_callers_part_names_nobody(
    source: CallerSource, context: dict[str, Any]
) -> None:
    """A context of any form is read without an exception, and names nobody."""
    assert source(context) is None


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("name", ["alb_post", "alb_multi_value_post"])
def test_headers_and_body_name_nobody(source: CallerSource, name: str) -> None:
    """What a client can write by itself, a header or the body, is never its tenant.

    Red when a source is given the whole event.
    """
    event = events.with_body(events.load(name), '{"tenant_id":"forged"}')
    for header in ("tenant_id", "x-tenant-id", "authorization"):
        event = events.with_header(event, header, "forged")

    assert source(request_context(event)) is None


def test_a_verified_claim_is_not_another_authorizers_value() -> None:
    """A source for one kind of authorizer reads nothing that another kind has written."""
    assert authorizer_value("tenant_id")(context_of("apigw_http_v2_post")) is None
    assert jwt_claim("tenant_id")(LAMBDA_V2) is None
    assert jwt_claim("tenant_id")(LAMBDA_REST) is None


def test_the_api_key_itself_is_never_used() -> None:
    """The tenant is the key's id; its secret value stays where it is."""
    assert api_key_id()({"identity": {"apiKey": "4242secret"}}) is None


def test_an_http_apis_authorizer_is_asked_before_what_stands_beside_it() -> None:
    """An HTTP API puts what the Lambda authorizer returned under `lambda`; nothing beside it speaks
    for it.

    Red when the place of a REST API is looked at first.
    """
    context = {"authorizer": {"lambda": {"tenant_id": "returned"}, "tenant_id": "beside"}}

    assert authorizer_value("tenant_id")(context) == "returned"
