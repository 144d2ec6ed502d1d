"""Access tokens for the local service: what stands in for the deployed API's JWT authorizer.

The secret is public, in this file. A token signed with it is worth nothing outside the loopback
address.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import jwt

if TYPE_CHECKING:
    from collections.abc import Mapping

ISSUER = "https://issuer.oncekey.local/"
AUDIENCE = "oncekey-local"
ALGORITHM = "HS256"
# HMAC-SHA256 wants a key as long as its output, 32 bytes.
SECRET = "this-secret-is-public-and-for-the-loopback-address-only"  # noqa: S105 - that is the point of it
EXPIRES_IN_S = 3600


# The last two: a header that is not ASCII, and claims that are nested too deep to be read.
_NOT_ACCEPTED = (jwt.InvalidTokenError, UnicodeEncodeError, RecursionError)


class Unauthorized(Exception):  # noqa: N818 - the name of the answer
    """The request carries no token that this service accepts."""


def issue(*, tenant: str | None, subject: str = "user_1", expires_in_s: int = EXPIRES_IN_S) -> str:
    """A signed token.

    Without a tenant, the service must refuse it after the authorizer has let it in.
    """
    now = datetime.now(tz=UTC)
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": subject,
        "iat": now,
        "exp": now + timedelta(seconds=expires_in_s),
    }
    if tenant is not None:
        claims["tenant_id"] = tenant
    return jwt.encode(claims, SECRET, algorithm=ALGORITHM)


def verify(authorization: str | None) -> dict[str, str]:
    """The claims of an `Authorization` header's token, as strings like API Gateway's.

    Raises `Unauthorized` for a token that is missing, forged, expired, unsigned, or meant for
    somebody else.
    """
    if not authorization:
        raise Unauthorized
    scheme, _, rest = authorization.partition(" ")
    token = rest.strip() if scheme.lower() == "bearer" else authorization
    try:
        claims = jwt.decode(
            token,
            SECRET,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims_as_strings(claims)
    except _NOT_ACCEPTED as error:
        raise Unauthorized from error


def claims_as_strings(claims: Mapping[str, Any]) -> dict[str, str]:
    """Claims as API Gateway hands them over: every value is text, and a list is `[a b]`.

    A claim that is null is left out, so that nobody takes its text for a value.
    """
    return {name: _as_text(value) for name, value in claims.items() if value is not None}


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(_as_text(item) for item in value)}]"
    if isinstance(value, dict):
        return (
            f"map[{' '.join(f'{name}:{_as_text(item)}' for name, item in sorted(value.items()))}]"
        )
    return str(value)
