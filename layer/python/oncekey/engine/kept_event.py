"""The part of an event that is stored for a worker: the request, without its caller's credentials.

A stored event passes through the outbox, the queue and the dead letters, and lives for weeks. Its
members, its request context and the authorizer's result are stored only if they are named here. All
headers and query parameters are stored, except those that look like a credential by name or by
value, because a handler may read any of them. The body and the path are stored whole: they are the
request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote_plus

_MEMBERS = frozenset(
    {
        *("version", "routeKey", "rawPath", "rawQueryString"),
        *("resource", "path", "httpMethod", "pathParameters"),
        *("headers", "multiValueHeaders"),
        *("queryStringParameters", "multiValueQueryStringParameters"),
        *("requestContext", "body", "isBase64Encoded"),
    }
)
_CONTEXT = frozenset(
    {
        *("accountId", "apiId", "domainName", "domainPrefix", "stage", "deploymentId"),
        *("http", "httpMethod", "path", "protocol", "resourceId", "resourcePath", "routeKey"),
        *("requestId", "extendedRequestId", "time", "timeEpoch"),
        *("requestTime", "requestTimeEpoch", "elb", "identity", "authorizer"),
    }
)
_IDENTITY = frozenset(
    {
        *("accountId", "apiKeyId", "principalOrgId", "sourceIp", "userAgent", "userArn"),
        *("cognitoIdentityId", "cognitoIdentityPoolId", "cognitoAuthenticationType"),
        *("vpcId", "vpceId"),
    }
)
_IAM = frozenset({"accountId", "cognitoIdentity", "principalOrgId", "userArn", "userId"})
_COGNITO = frozenset({"amr", "identityId", "identityPoolId"})

# Names of headers and query parameters whose values prove an identity.
_SECRET_NAME = re.compile(
    r"auth|token|secret|passw|passphrase|passcode|pwd|credential|cookie|sess(ion|id)|signature"
    r"|assertion|jwt|oidc|saml|csrf|xsrf|dpop|bearer|api-?key|access-?key|client-?cert"
    r"|origin-verify|client-principal|hmac|totp|mnemonic|magic-?link|verifier"
    r"|sec-websocket-protocol"
    r"|(^|-)(key|sig|sas|otp|mfa|2fa|pin|nonce|ticket|sid|pass|creds?|wsse|cvc|cvv|ssn)$"
    # Of codes, only those that prove an identity: a `currency_code` is a part of the request.
    r"|^(x-)?code$|(access|security|verif\w*|confirm\w*|activation|invit\w*|login|sign-?in|one-time"
    r"|sms|e?-?mail|pin|otp|mfa|2fa|pass|reset|recovery|backup|scratch|pairing|grant"
    r"|device|user|card)-code$"
)
# Names that match above and are no secrets, such as the client's key or a pagination token.
_NO_SECRET_NAME = re.compile(
    r"(.*-)?idempotency-key|authority|(.*-)?author(s|ed-by|ship)?"
    r"|(.*-)?(partition|sort|routing|primary|foreign|object|cache|row)-key"
    r"|(next|page|next-page|continuation)-token|max-(.*-)?tokens|(.*-)?token-count"
)
# A claim is a part of a token's content. Only claims with these names contain a credential.
_SECRET_CLAIM = re.compile(
    r"secret|passw|credential|cookie|api-?key|private-?key|(access|refresh|id)-?token|(^|-)(token|otp|pin)$"
)
# A value that begins with one of these schemes is a credential, whatever its name. Some schemes are
# ordinary words, and `Basic monthly` is none: what follows them has a sign, a digit or mixed case.
_SECRET_SCHEME = re.compile(
    r"(bearer|ntlm|kerberos|dpop|jwt|oauth|apikey|googlelogin|sharedkey(lite)?"
    r"|sharedaccesssignature|usernametoken|vapid|aws4-hmac-sha256)\s+\S"
    r"|(basic|digest|negotiate|hawk|token)\s+\S*(?-i:[^A-Za-z\s]|[a-z][A-Z])",
    re.IGNORECASE,
)
# So is a value that contains one of these: a signed or encrypted JSON web token, a provider's key,
# a private key, or a password in a URL.
_SECRET_PART = re.compile(
    r"\beyJ[\w-]{5,}\.[\w-]*\.[\w-]*"
    r"|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{35}|\bya29\.[\w-]{8,}|\bSG\.[\w-]{8,}\.[\w-]{4,}"
    r"|\b(sk|rk)_(live|test)_\w{8,}|\bwhsec_[\w+/=]{8,}|\bshp(at|ca|pa|ss)_\w{8,}|\bnpm_\w{8,}"
    r"|\bgh[opsur]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{8,}|\bxox[a-z]-[\w-]{8,}"
    r"|\bhv[bsr]\.[\w-]{8,}|\bdop_v1_\w{8,}|-----BEGIN |://[^/\s:@]*:[^/\s@]+@",
    re.IGNORECASE,
)
# The names of query parameters inside a value, such as the URL of a page.
_MEMBER_WITHIN = re.compile(r"[?&#]([^=&#?\s]+)=[^&#\s]")
_SEPARATORS = re.compile(r"[-_.\s:\[\]]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The member of a stored event that names its sender, if its stored request context does not.
_SENDER = "oncekeySender"


def kept_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `event` with the parts that a worker may get. `event` itself is not changed."""
    kept = _only(event, _MEMBERS)
    for name in ("headers", "multiValueHeaders"):
        if isinstance(kept.get(name), Mapping):
            kept[name] = _without(kept[name], _is_secret)
    for name in ("queryStringParameters", "multiValueQueryStringParameters"):
        if isinstance(kept.get(name), Mapping):
            kept[name] = _without(kept[name], _is_secret_member)
    query = kept.get("rawQueryString")
    if isinstance(query, str):
        kept["rawQueryString"] = "&".join(filter(_is_kept_piece, query.split("&")))
    if isinstance(kept.get("requestContext"), Mapping):
        kept["requestContext"] = _context(kept["requestContext"])
    return kept


def with_sender(kept: Mapping[str, Any], tenant: str, principal: str) -> dict[str, Any]:
    """`kept` with the name of its sender, for an event whose request context no longer has it."""
    return {**kept, _SENDER: {"tenant": tenant, "principal": principal}}


def sender_of(kept: Mapping[str, Any]) -> tuple[str, str] | None:
    """The tenant and principal noted in `kept`; None if its request context names them."""
    noted = kept.get(_SENDER)
    if not isinstance(noted, Mapping):
        return None
    return str(noted.get("tenant", "")), str(noted.get("principal", ""))


def without_sender(kept: Mapping[str, Any]) -> dict[str, Any]:
    """The event as its handler gets it, without the note of its sender."""
    return {name: value for name, value in kept.items() if name != _SENDER}


def _context(context: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(context, _CONTEXT)
    _narrow(kept, "identity", lambda identity: _only(identity, _IDENTITY))
    _narrow(kept, "authorizer", _authorizer)
    return kept


def _authorizer(authorizer: Mapping[str, Any]) -> dict[str, Any]:
    # A Lambda authorizer may return anything, for example a token for a backend service.
    kept = _only(authorizer, frozenset({"jwt", "claims", "scopes", "iam", "principalId"}))
    _narrow(kept, "claims", _claims)
    _narrow(kept, "jwt", _jwt)
    _narrow(kept, "iam", _iam)
    return kept


def _jwt(jwt: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(jwt, frozenset({"claims", "scopes"}))
    _narrow(kept, "claims", _claims)
    return kept


def _iam(iam: Mapping[str, Any]) -> dict[str, Any]:
    kept = _only(iam, _IAM)
    _narrow(kept, "cognitoIdentity", lambda identity: _only(identity, _COGNITO))
    return kept


def _claims(claims: Mapping[str, Any]) -> dict[str, Any]:
    return _without(
        claims,
        lambda name, value: _SECRET_CLAIM.search(_plain(name)) is not None or _is_credential(value),
    )


def _narrow(
    parent: dict[str, Any], name: str, narrowed: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    # A member that has another form than the gateway's is not understood, and so not stored.
    if isinstance(parent.get(name), Mapping):
        parent[name] = narrowed(parent[name])
    elif parent.get(name) is not None:
        del parent[name]


def _only(members: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    # Members that the gateway sets to null stay null.
    return {name: value for name, value in members.items() if name in names or value is None}


def _without(members: Mapping[str, Any], is_secret: Callable[[str, Any], bool]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if not is_secret(name, value)}


def _is_secret(name: str, value: object) -> bool:
    plain = _plain(name)
    if _NO_SECRET_NAME.fullmatch(plain) is not None:
        return False
    return plain == "key" or _is_secret_name(name) or _is_credential(value)


def _is_secret_member(name: str, value: object) -> bool:
    # A load balancer passes the query on undecoded. A parameter named `key` is rarely a credential,
    # so only its value is checked.
    name = unquote_plus(name)
    return _is_credential(value) if _plain(name) == "key" else _is_secret(name, value)


def _is_kept_piece(piece: str) -> bool:
    name, _, value = piece.partition("=")
    return not _is_secret_member(name, unquote_plus(value))


def _plain(name: str) -> str:
    # X-Auth-Token, x_auth_token and xAuthToken become the same name.
    return _SEPARATORS.sub("-", _HUMP.sub("-", name)).lower().strip("-")


def _is_credential(value: object) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_credential, value))
    if not isinstance(value, str):
        return False
    text = unquote_plus(value).strip()
    if _SECRET_SCHEME.match(text) or _SECRET_PART.search(text):
        return True
    return any(map(_is_secret_name, _MEMBER_WITHIN.findall(text)))


def _is_secret_name(name: str) -> bool:
    plain = _plain(name)
    if plain == "key" or _NO_SECRET_NAME.fullmatch(plain) is not None:
        return False
    return any(map(_SECRET_NAME.search, (plain, name.lower())))
