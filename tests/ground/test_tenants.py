"""Where tenant and principal come from: the verified request context alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import api_key_id, authorizer_value, iam_principal, jwt_claim, single_tenant
from oncekey.errors import ConfigurationError
from oncekey.http.event import request_context
from oncekey.tenants import caller_of
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
# What stands in a claim where there is no name, and what cannot be one.
NO_NAMES = [
    *("null", "NULL", " null ", "undefined", "None", "nil", "NaN", "true", "False"),
    *("<nil>", "(null)", '"null"', "'undefined'", '""', "<>", "Infinity", "-inf", "<null> "),
    *("[]", "[a b]", "map[]", "map[id:tenant-1]", "[object Object]", "{}", '{"id":1}'),
    *("1.2345678901234568e+17", "1E+20", "-1e+09"),
    *("tenant\n1", "tenant\x001", "\ttenant-1", "tenant-1\r", "\u2028tenant", "\ud800"),
    *("\u200b", "\u00a0", "\u3000\u200b ", "t" * 1_025, "é" * 513),
]
NAMES = ["tenant-1", "0", "7", "nullable", "truelove", "Zoë", "a b", "1e5", "t" * 1_024, "é" * 512]

COGNITO_ROLE = "arn:aws:sts::123456789012:assumed-role/Cognito_payments_Auth/"
COGNITO_SESSION = COGNITO_ROLE + "CognitoIdentityCredentials"
COGNITO_POOL = "eu-central-1:11111111-1111-4111-8111-111111111111"


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


@pytest.mark.fault("K7.4")
@pytest.mark.parametrize("source", [*SOURCES.values(), lambda c: c["authorizer"]["tenant_id"]])
def test_a_word_for_nothing_names_nobody(source: CallerSource) -> None:
    """A claim that is no text, or says "null" and the like, names no tenant, whoever reads it.

    Red when any source, an author's own included, takes such a word, a control character or a text
    of more than 1,024 bytes for a name.
    """
    for value in [*NO_NAMES, *NOBODY]:
        assert caller_of(source, everywhere(value)) is None, value
    for value in NAMES:
        assert caller_of(source, everywhere(value)) == value


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


def in_pool(user: str | None, session: str = COGNITO_SESSION) -> list[dict[str, Any]]:
    """The contexts of a request that `user` signed with credentials of an identity pool: of a REST
    API, with a login and without one, of an HTTP API and of a Function URL.
    """
    pool = None if user is None else COGNITO_POOL
    rest = {"userArn": session, "cognitoIdentityId": user, "cognitoIdentityPoolId": pool}
    pooled = {"amr": ["unauthenticated"], "identityId": user, "identityPoolId": COGNITO_POOL}
    return [
        {"identity": {**rest, "cognitoAuthenticationType": "authenticated"}},
        {"identity": {**rest, "cognitoAuthenticationType": "unauthenticated"}},
        {"identity": rest},
        {"authorizer": {"iam": {"userArn": session, "cognitoIdentity": pooled}}},
    ]


@pytest.mark.fault("K7.1")
@pytest.mark.parametrize("session", [COGNITO_SESSION, COGNITO_ROLE + "chosen-by-the-client"])
@pytest.mark.parametrize("place", range(4))
def test_each_user_of_an_identity_pool_is_a_caller_of_its_own(place: int, session: str) -> None:
    """Users of a Cognito identity pool share one role and one session of it; each is known by its
    identity, with a login or without.

    Red when the ARN is looked at before the identity of the pool.
    """
    alice, bob = f"{COGNITO_POOL[:-1]}a", f"{COGNITO_POOL[:-1]}b"

    assert iam_principal()(in_pool(alice, session)[place]) == alice
    assert iam_principal()(in_pool(bob, session)[place]) == bob


@pytest.mark.fault("K7.1")
@pytest.mark.parametrize("user", [None, "", "null", 7])
@pytest.mark.parametrize("place", range(4))
def test_a_user_of_a_pool_that_nobody_names_is_nobody(place: int, user: Any) -> None:
    """Where the gateway does not say which user of the pool it is, nobody is named.

    Red when the role that all users share stands in for the missing identity.
    """
    assert iam_principal()(in_pool(user)[place]) is None


@pytest.mark.fault("K7.1")
def test_a_person_is_told_from_others_in_the_same_role() -> None:
    """A role of IAM Identity Center is assumed by people, and its session is the person's name;
    another role's session is a host's, and left out.

    Red when the session is cut from a role of people, or kept of a role of hosts.
    """
    people = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Clerks_0123456789abcdef"
    hosts = "arn:aws:sts::123456789012:assumed-role/service"

    for place in ({"identity": {"userArn": "{}"}}, {"authorizer": {"iam": {"userArn": "{}"}}}):

        def caller(arn: str, place: dict[str, Any] = place) -> str | None:
            return iam_principal()(json.loads(json.dumps(place).replace("{}", arn)))

        assert caller(f"{people}/alice@example.com") != caller(f"{people}/bob@example.com")
        assert caller(f"{hosts}/host-1") == caller(f"{hosts}/host-2") == hosts


@pytest.mark.parametrize("name", [None, "", " ", 5, ["tenant_id"]])
@pytest.mark.parametrize("source", [jwt_claim, authorizer_value])
def test_a_source_without_a_name_is_refused_where_it_is_made(source: Any, name: Any) -> None:
    """An unset variable as the name would refuse every client (403)."""
    with pytest.raises(ConfigurationError, match=rf"{source.__name__}.*: name is"):
        source(name)
