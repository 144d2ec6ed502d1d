"""What of an event is written down for a worker: no credential, wherever it stands."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from oncekey.engine.kept_event import kept_event, sender_of, with_sender, without_sender
from oncekey.http.event import read_request
from tests.support.events import load, with_header
from tests.support.protected import SHAPES

CANARY = "canary-7f3a"
BEARER = f"Bearer {CANARY}"
JWT = f"eyJhbGciOiJI.eyJzdWIiOiIx.{CANARY}"

SECRET_HEADERS = [
    *("Authorization", "Proxy-Authorization", "Authentication", "X-Authorization", "X-Auth"),
    *("Cookie", "Cookie2", "Set-Cookie", "X-Api-Key", "Api-Key", "apikey", "X-ApiKey"),
    *("X-Amz-Security-Token", "X-Auth-Token", "x_auth_token", "X-Access-Token", "X-Id-Token"),
    *("X-Forwarded-Access-Token", "X-Forwarded-Id-Token", "X-Forwarded-Client-Cert"),
    *("X-Amzn-Oidc-Accesstoken", "X-Amzn-Oidc-Data", "X-Amzn-Oidc-Identity"),
    *("X-CSRF-Token", "X-XSRF-TOKEN", "X-Session-Id", "Session", "X-SessionToken"),
    *("X-Hub-Signature-256", "Stripe-Signature", "Signature", "X-Signature", "X-Sig"),
    *("X-Vault-Token", "X-Shopify-Access-Token", "X-Goog-Iap-Jwt-Assertion", "DPoP"),
    *("Cf-Access-Jwt-Assertion", "X-Functions-Key", "Ocp-Apim-Subscription-Key", "X-Secret"),
    *("X-MS-Client-Principal", "X-Origin-Verify", "X-Password", "Password", "X-OTP", "X-Pin"),
    *("Client-Secret", "X-Credential", "X-Nonce", "X-Saml-Response"),
    *(
        "X-Shopify-Hmac-Sha256",
        "X-TOTP",
        "X-MFA",
        "X-Passphrase",
        "X-Passcode",
        "X-Creds",
        "X-WSSE",
    ),
    *("Sec-WebSocket-Protocol", "X-Card-CVC", "CVV", "X-Magic-Link", "X-SAS", "PHPSESSID"),
]
KEPT_HEADERS = [
    *("Content-Type", "Content-Language", "Accept", "Accept-Language", "User-Agent", "Host"),
    *("Idempotency-Key", "Repeatability-First-Sent", "X-Request-Id", "Traceparent", "If-Match"),
    *("X-Amzn-Trace-Id", "X-Forwarded-For", "X-Forwarded-Proto", "Origin", "Prefer", "Via"),
    *("X-Region", "X-Currency", "X-Client-Version", "X-GitHub-Event", "X-Tenant-Id", "Link"),
    *("Author", "X-Author", "Partition-Key", "X-Sort-Key", "X-Passenger", "X-Sassy", "Referer"),
]
SECRET_MEMBERS = [
    *("access_token", "id_token", "refresh_token", "token", "auth", "authToken", "accessToken"),
    *("api_key", "apikey", "apiKey", "api-key", "X-Amz-Signature", "X-Amz-Credential"),
    *("X-Amz-Security-Token", "x-amz-security-token", "Signature", "sig", "code", "assertion"),
    *("client_secret", "password", "passwd", "session", "sessionid", "jwt", "SAMLResponse"),
    *("subscription-key", "AWSAccessKeyId", "X-Goog-Signature", "user[password]", "otp"),
    *("code_verifier", "PHPSESSID", "hmac", "passcode", "passphrase", "totp", "mfa"),
    *("access_code", "verificationCode", "verify-code", "confirmation_code", "login_code"),
    *("pin_code", "otp_code", "mfaCode", "2fa-code", "email_code", "signin_code", "pairing_code"),
    *("security_code", "one_time_code", "sms_code", "device_code", "user_code", "auth_code"),
    *("reset-code", "recovery_code", "backupCode", "invite_code", "activation_code", "card_code"),
]
KEPT_MEMBERS = [
    *("currency", "page", "page_token", "nextToken", "key", "keyword", "design", "spin"),
    *("currency_code", "countryCode", "postal-code", "promo_code", "statusCode", "code_type"),
    *("principal", "principal_amount", "object_key", "primaryKey", "cache-key", "authored_by"),
    *("max_tokens", "max_output_tokens", "token_count"),
]
SECRET_VALUES = [
    BEARER,
    f"basic {CANARY}",
    f"Basic dXNlcjpwYXNz{CANARY}",
    JWT,
    f"AWS4-HMAC-SHA256 Credential={CANARY}",
]
SECRET_VALUES += [
    *(f"{scheme} {CANARY}" for scheme in ("NTLM", "OAuth", "ApiKey", "SharedKey", "JWT")),
    *(f"x; t={JWT}", f"eyJhbGciOiJkaXIi..{CANARY}.b.c", f"-----BEGIN PRIVATE KEY-----{CANARY}"),
    *(f"whsec_{CANARY.replace('-', '')}{CANARY}", f"xoxb-{CANARY}", f"glpat-{CANARY}"),
    *(f"https://me:{CANARY}@a.example/", f"https%3A%2F%2Fme%3A{CANARY}%40a.example"),
    *(f"https://a.example/?page=1&access_token={CANARY}", f"/back#id_token={CANARY}"),
]

every_shape = pytest.mark.parametrize("shape", SHAPES)


def with_query(shape: str, members: dict[str, str]) -> dict[str, Any]:
    """The sample with this query, in every form that its shape has."""
    event = load(shape)
    raw = "&".join(f"{name.replace('[', '%5B')}={value}" for name, value in members.items())
    if "rawQueryString" in event:
        event["rawQueryString"] = raw
    if "multiValueQueryStringParameters" in event:
        event["multiValueQueryStringParameters"] = {n: [v] for n, v in members.items()}
    event["queryStringParameters"] = dict(members)
    return event


def query_of(event: dict[str, Any]) -> set[str]:
    """The names of the members, in whatever form they are there."""
    raw = event.get("rawQueryString") or ""
    return {
        *(piece.partition("=")[0] for piece in raw.split("&") if piece),
        *(event.get("queryStringParameters") or {}),
        *(event.get("multiValueQueryStringParameters") or {}),
    }


@pytest.mark.fault("K9.1")
@every_shape
@pytest.mark.parametrize("name", SECRET_HEADERS)
def test_a_header_that_is_named_like_a_credential_is_left_out(shape: str, name: str) -> None:
    """In any letter case and with any separators, and no other header goes with it.

    Red when the rule is a list of exact names, or one of the two places of headers is forgotten.
    """
    for spelling in (name, name.upper(), name.lower()):
        event = with_header(load(shape), spelling, CANARY)
        kept = kept_event(event)

        assert CANARY not in json.dumps(kept)
        for place in ("headers", "multiValueHeaders"):
            left = {*(event.get(place) or {})} - {*(kept.get(place) or {})}
            assert {header.lower() for header in left} <= {name.lower(), "authorization"}


@pytest.mark.fault("K9.1")
@every_shape
@pytest.mark.parametrize("value", SECRET_VALUES)
def test_a_header_whose_value_is_a_credential_is_left_out(shape: str, value: str) -> None:
    """A token is known by its form under whatever name it is sent.

    Red when names alone are looked at.
    """
    assert CANARY not in json.dumps(kept_event(with_header(load(shape), "X-Upstream", value)))


@pytest.mark.parametrize(
    "value", ["Basic monthly", "basic", "BASIC PLAN", "Token of thanks", "digest weekly", "Hawk"]
)
@every_shape
def test_a_value_that_begins_with_an_ordinary_word_is_kept(shape: str, value: str) -> None:
    """A plan called `Basic monthly` is a part of the request, in a header as in the query."""
    event = with_query(shape, {"plan": value.replace(" ", "%20")})
    event = with_header(event, "X-Plan", value)

    kept = kept_event(event)

    assert read_request(kept).raw_query == read_request(event).raw_query
    assert value in read_request(kept).header_lines("x-plan")


def test_a_link_with_a_parameter_named_key_is_kept() -> None:
    """`key` is rarely a credential in a link; as the name of a header it is one."""
    link = "https://a.example/?key=page-1"
    event = with_header(load("apigw_http_v2_post"), "Referer", link)

    assert link in kept_event(event)["headers"].values()
    assert CANARY not in json.dumps(kept_event(with_header(event, "key", CANARY)))


@every_shape
@pytest.mark.parametrize("name", KEPT_HEADERS)
def test_a_header_of_another_name_is_kept(shape: str, name: str) -> None:
    """What a handler may read of a request is kept as it was sent."""
    event = with_header(load(shape), name, "a value")

    for place in ("headers", "multiValueHeaders"):
        if event.get(place):
            assert kept_event(event)[place][name] == event[place][name]


@pytest.mark.fault("K9.1")
@every_shape
@pytest.mark.parametrize("name", SECRET_MEMBERS)
def test_a_member_of_the_query_that_is_a_credential_is_left_out(shape: str, name: str) -> None:
    """In the raw query as in its parsed forms, and the members beside it are kept.

    Red when `rawQueryString` or one of the parsed forms keeps it.
    """
    event = with_query(shape, {"currency": "eur", name: CANARY, "page": "2"})
    kept = kept_event(event)

    assert CANARY not in json.dumps(kept)
    assert query_of(kept) == {"currency", "page"}


@pytest.mark.fault("K9.1")
@every_shape
def test_a_member_of_the_query_whose_value_is_a_credential_is_left_out(shape: str) -> None:
    """A token in the query is known by its form, encoded or not.

    Red when the value of a member is not looked at.
    """
    for value in (JWT, f"Bearer%20{CANARY}", f"AIza{'x' * 35}"):
        kept = kept_event(with_query(shape, {"key": value, "x": value, "currency": "eur"}))
        assert query_of(kept) == {"currency"}


@every_shape
@pytest.mark.parametrize("name", KEPT_MEMBERS)
def test_a_member_of_another_name_is_kept(shape: str, name: str) -> None:
    """What is asked in the query is kept as it was sent."""
    event = with_query(shape, {name: "a%20value", "b": ""})

    assert read_request(kept_event(event)).raw_query == read_request(event).raw_query


@pytest.mark.fault("K9.1")
@every_shape
def test_of_the_event_itself_only_what_is_known_is_kept(shape: str) -> None:
    """Stage variables, cookies, and what a gateway or a middleware adds one day, are left out.

    Red when members are left out by name rather than kept by name.
    """
    event = {
        **load(shape),
        "stageVariables": {"dbPassword": CANARY},
        "cookies": [f"session={CANARY}"],
        "somethingNew": {"token": CANARY},
    }

    kept = kept_event(event)

    assert CANARY not in json.dumps(kept)
    assert set(load(shape)) - {"stageVariables", "cookies"} <= set(kept)


def test_who_signed_a_request_is_kept() -> None:
    """The worker finds tenant and principal where the author's rules look for them."""
    iam = dict.fromkeys(["accountId", "principalOrgId", "userArn", "userId"], "i")
    cognito = {"amr": ["a"], "identityId": "1", "identityPoolId": "2"}
    identity = dict.fromkeys(
        [
            *("accountId", "apiKeyId", "principalOrgId", "sourceIp", "userAgent", "userArn"),
            *("cognitoIdentityId", "cognitoIdentityPoolId", "cognitoAuthenticationType"),
            *("vpcId", "vpceId"),
        ],
        "i",
    )
    signed = {"authorizer": {"iam": {**iam, "cognitoIdentity": cognito}}, "identity": identity}

    kept = kept_event({**load("apigw_http_v2_post"), "requestContext": signed})

    assert kept["requestContext"] == signed


@pytest.mark.fault("K9.1")
@every_shape
@pytest.mark.parametrize(
    "context",
    [
        {"authorizer": {"lambda": {"tenant_id": "t", "downstream": CANARY}}},
        {"authorizer": {"principalId": "user-1", "tenant_id": "t", "upstream": CANARY}},
        {"authorizer": {"jwt": {"claims": {"sub": "1", "access_token": CANARY}}}},
        {"authorizer": {"jwt": {"claims": {"sub": "1", "upstream": JWT}, "raw": CANARY}}},
        {"authorizer": {"claims": {"sub": "1", "custom:api_key": CANARY}}},
        {"authorizer": {"iam": {"userArn": "arn", "accessKey": CANARY, "callerId": CANARY}}},
        {"authorizer": {"iam": {"cognitoIdentity": {"identityId": "1", "token": CANARY}}}},
        {"authorizer": CANARY, "identity": [CANARY]},
        {"identity": {"apiKeyId": "1", "apiKey": CANARY, "accessKey": CANARY, "caller": CANARY}},
        {"authentication": {"clientCert": {"clientCertPem": CANARY}}, "somethingNew": CANARY},
    ],
    ids=lambda context: json.dumps(context)[:60],
)
def test_of_the_request_context_only_what_is_known_is_kept(
    shape: str, context: dict[str, Any]
) -> None:
    """What a Lambda authorizer returns, keys, certificates and unknown members are left out; the
    claims of a token, who signed, and what the gateway says of the request are kept.

    Red when the context of an authorizer is kept as it is.
    """
    event = load(shape)
    event["requestContext"] = {**event["requestContext"], **context}
    before = copy.deepcopy(event)

    kept = kept_event(event)

    assert CANARY not in json.dumps(kept)
    assert event == before
    assert read_request(kept).shape is read_request(event).shape


def test_a_note_of_the_sender_is_no_part_of_the_event() -> None:
    """The note is read by the layer, and its handler does not see it."""
    kept = kept_event(load("apigw_http_v2_post"))
    noted = with_sender(kept, "acme", "user-1")

    assert sender_of(kept) is None
    assert sender_of(noted) == ("acme", "user-1")
    assert without_sender(noted) == without_sender(kept) == kept
    assert sender_of(kept_event(noted)) is None, "a caller cannot say who it is"
