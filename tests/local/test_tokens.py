"""Access tokens of the local service."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest

from oncekey_local.front import tokens
from oncekey_local.front.tokens import Unauthorized, claims_as_strings, issue, verify

FAR_AWAY_S = 4_000_000_000
CLAIMS = {"iss": tokens.ISSUER, "aud": tokens.AUDIENCE, "sub": "u", "exp": FAR_AWAY_S}


def forged(secret: str = tokens.SECRET, algorithm: str = "HS256", **changes: Any) -> str:
    """A token made elsewhere; a claim of None is left out."""
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(claims, secret, algorithm=algorithm)


def test_issued_token_is_accepted() -> None:
    """An issued token is accepted, and its claims come back as text."""
    claims = verify(f"Bearer {issue(tenant='acme', subject='user_7', expires_in_s=60)}")
    assert claims["tenant_id"] == "acme"
    assert claims["sub"] == "user_7"
    assert claims["iss"] == tokens.ISSUER
    assert claims["aud"] == tokens.AUDIENCE
    assert int(claims["exp"]) - int(claims["iat"]) == 60
    assert int(claims["exp"]) > datetime.now(tz=UTC).timestamp()


def test_token_without_tenant() -> None:
    """A token may lack a tenant: refusing that is the service's, not the authorizer's."""
    assert "tenant_id" not in verify(f"Bearer {issue(tenant=None)}")


@pytest.mark.parametrize("form", ["bearer {}", "{}", "Bearer  {}"])
def test_forms(form: str) -> None:
    """As with API Gateway, the scheme may be in any letter case, or missing."""
    assert verify(form.format(issue(tenant="acme")))["tenant_id"] == "acme"


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer x.y.z",
        "Bearer \udcff",
        "Basic dXNlcjpwYXNz",
        f"Bearer {issue(tenant='acme', expires_in_s=-1)}",
        f"Bearer {issue(tenant='acme')[:-4]}AAAA",
        f"Bearer {forged(secret='some-other-secret-of-a-sufficient-length')}",
        f"Bearer {forged(secret='', algorithm='none')}",
        f"Bearer {forged(algorithm='HS512', secret=tokens.SECRET * 2)}",
        f"Bearer {forged(aud='another-service')}",
        f"Bearer {forged(iss='https://elsewhere.example/')}",
        f"Bearer {forged(exp=None)}",
        f"Bearer {forged(aud=None)}",
        f"Bearer {forged(iss=None)}",
        f"Bearer {forged(nbf=FAR_AWAY_S - 1)}",
    ],
)
def test_refused(authorization: str | None) -> None:
    """A missing, broken, forged, unsigned, expired, early or somebody else's token is refused."""
    with pytest.raises(Unauthorized):
        verify(authorization)


@pytest.mark.parametrize(
    "claim",
    [
        '"deep": ' + "[" * 900 + "]" * 900,
        '"deep": ' + '{"a":' * 900 + "1" + "}" * 900,
        '"exp": 1e999',
        '"exp": []',
        '"nbf": {}',
        '"iat": 1e999',
    ],
)
def test_useless_claims(claim: str) -> None:
    """A signed token whose claims cannot be read is refused like any other."""
    claims = json.dumps(CLAIMS)[:-1] + f", {claim}}}"
    token = jwt.PyJWS().encode(claims.encode(), tokens.SECRET, algorithm="HS256")
    with pytest.raises(Unauthorized):
        verify(f"Bearer {token}")


def test_null_claim_is_absent() -> None:
    """A claim that is null is no claim: no function takes it for a tenant called None."""
    assert claims_as_strings({"tenant_id": None, "sub": "u"}) == {"sub": "u"}
    assert claims_as_strings({"list": ["a", None]}) == {"list": "[a <nil>]"}


def test_control_token_is_accepted() -> None:
    """The token that the refused ones are variations of is itself accepted."""
    assert verify(f"Bearer {forged()}")["sub"] == "u"


def test_claims_are_text() -> None:
    """Claims reach the function as API Gateway writes them: text, whatever they were."""
    claims = {
        "n": 1_700_000_000,
        "yes": True,
        "list": ["a", 1],
        "none": [],
        "map": {"k": False},
        "t": "x",
    }
    assert claims_as_strings(claims) == {
        "n": "1700000000",
        "yes": "true",
        "list": "[a 1]",
        "none": "[]",
        "map": "map[k:false]",
        "t": "x",
    }
