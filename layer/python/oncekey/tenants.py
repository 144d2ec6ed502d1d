"""Where the tenant and the principal come from: the verified request context, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from oncekey.errors import ConfigurationError
from oncekey.misfits import MISFITS

# Receives the event's `requestContext`: neither headers nor body, which a client can write at will.
# Returns None where the caller cannot be told, and the request is then refused.
CallerSource = Callable[[Mapping[str, Any]], str | None]

# The tenant under ONCEKEY_DISABLED if the source names nobody. An event of a unit test need not
# have a caller, and handlers need not expect an empty tenant.
NOBODY_WHILE_DISABLED = "oncekey-disabled"
LONGEST_NAME_BYTES = 1_024

# A name is checked by its source and by the source's caller, and a sandbox serves the same callers
# again.
_NAMES_REMEMBERED = 64

_LOOKS_FOR = "_oncekey_looks_for"
_OF_REQUESTS = "_oncekey_reads_requests"
_MOST_SHOWN, _LONGEST_SHOWN = 30, 64
SINGLE_TENANT = "single-tenant"
# Texts that languages and gateways write in place of a name: for a missing value, a flag, a list,
# an object, and a number that was rounded (1e+20 may stand for several numbers).
_NO_NAMES = frozenset(
    {
        "",
        "null",
        "undefined",
        "none",
        "nil",
        "nan",
        "inf",
        "-inf",
        "infinity",
        "-infinity",
        "true",
        "false",
    }
)
# Some gateways write `<nil>`, `(null)` or `"null"`.
_BRACKETS = "<>()\"'"
_NO_NAME = r"(map)?\[.*\]|\{.*\}|[+-]?[0-9](\.[0-9]+)?e\+[0-9]+"
# Every text that `_NO_NAME` matches contains one of these.
_SIGNS_OF_NO_NAME = frozenset("]}+")
_ASSUMED_ROLE = r"(?P<role>arn:[^:]+:sts::[0-9]*:assumed-role/(?P<name>[^/]+))/(.*)"
# The session name shared by all users who sign with the credentials of a Cognito identity pool.
_COGNITO_SESSION = "CognitoIdentityCredentials"
# The prefix of the roles of IAM Identity Center, which names the session after the person.
_OF_PEOPLE = "AWSReservedSSO_"


class Caller:
    """Who sent a request: `principal` is empty unless the operation is scoped by it."""

    __slots__ = ("principal", "tenant")

    def __init__(self, *, tenant: str, principal: str = "") -> None:
        self.tenant = tenant
        self.principal = principal


def jwt_claim(name: str) -> CallerSource:
    """The claim `name` of a verified token.

    API Gateway's JWT authorizer (HTTP API) or Cognito authorizer (REST API) verified the token. A
    claim that is not text, or is a text such as `null` or `true`, names nobody; see `is_name`.

    Raises:
        ConfigurationError: `name` is no text, or blank.
    """

    def source(context: Mapping[str, Any]) -> str | None:
        authorizer = _mapping(context.get("authorizer"))
        claims = _mapping(_mapping(authorizer.get("jwt")).get("claims")) or _mapping(
            authorizer.get("claims")
        )
        return _name(claims.get(name))

    return _looking_for(source, name, jwt_claim)


def authorizer_value(name: str) -> CallerSource:
    """The value `name` that your own Lambda authorizer returned (HTTP API and REST API).

    Raises:
        ConfigurationError: `name` is no text, or blank.
    """

    def source(context: Mapping[str, Any]) -> str | None:
        authorizer = _mapping(context.get("authorizer"))
        return _name(_mapping(authorizer.get("lambda")).get(name)) or _name(authorizer.get(name))

    return _looking_for(source, name, authorizer_value)


def iam_principal() -> CallerSource:
    """The caller whose IAM signature was verified (HTTP API, REST API, Function URL).

    - A user of a Cognito identity pool is identified by the identity id, with or without a login.
      All of these users share one role and one session name.
    - An assumed role is identified by its ARN without the session name, which differs from host to
      host: a retry from another host comes from the same caller. So everybody who may assume the
      role is one caller. Roles of IAM Identity Center keep the session name, which is the person's.
      If people share another role (SAML, web identity), use another source.
    - Any other caller is identified by the ARN.
    """

    def source(context: Mapping[str, Any]) -> str | None:
        iam = _mapping(_mapping(context.get("authorizer")).get("iam"))
        identity = _mapping(context.get("identity"))
        return _signer(
            arn=_name(iam.get("userArn")) or _name(identity.get("userArn")),
            pooled=_mapping(iam.get("cognitoIdentity"))
            or {
                "identityId": identity.get("cognitoIdentityId"),
                "identityPoolId": identity.get("cognitoIdentityPoolId"),
                "type": identity.get("cognitoAuthenticationType"),
            },
        )

    return _of_requests(source)


def _signer(arn: str | None, pooled: Mapping[str, Any]) -> str | None:
    user = _name(pooled.get("identityId"))
    if user is not None or any(pooled.values()) or arn is None:
        return user
    assumed = re.fullmatch(_ASSUMED_ROLE, arn)
    if assumed is None:
        return arn
    if assumed[3] == _COGNITO_SESSION:
        # All users of the pool share this session name, and no identity id was given.
        return None
    return arn if assumed["name"].startswith(_OF_PEOPLE) else assumed["role"]


def api_key_id() -> CallerSource:
    """The id (not the secret value) of the API key that a REST API's usage plan accepted."""

    def source(context: Mapping[str, Any]) -> str | None:
        return _name(_mapping(context.get("identity")).get("apiKeyId"))

    return _of_requests(source)


def single_tenant() -> Callable[..., str]:
    """One set of keys for all callers: each of them can read the answer to any key it knows.

    It may be used for handlers and for functions with any arguments.
    """
    return lambda *_args, **_kwargs: SINGLE_TENANT


def _looking_for(source: CallerSource, name: str, kind: Callable[[str], Any]) -> CallerSource:
    given: object = name
    if not isinstance(given, str) or not given.strip():
        # Otherwise every request would be refused (403).
        fault = f"name is {given!r}: name what the authorizer returned, such as 'tenant_id'"
        raise ConfigurationError(f"{kind.__name__}(...)", [fault])
    # For the log, if the source names nobody.
    setattr(source, _LOOKS_FOR, name)
    return _of_requests(source)


def _of_requests(source: CallerSource) -> CallerSource:
    setattr(source, _OF_REQUESTS, True)
    return source


def reads_requests(source: object) -> bool:
    """Whether `source` is one of this module that reads a request context, and nothing else."""
    return getattr(source, _OF_REQUESTS, False) is True


def why_nobody(source: CallerSource, context: Mapping[str, Any]) -> str:
    """The name that `source` looks for and the names in `context`, for the log; never a value."""
    authorizer = _mapping(context.get("authorizer"))
    parts = (authorizer.get("claims"), _mapping(authorizer.get("jwt")).get("claims"))
    claims = [_mapping(part) for part in (*parts, authorizer.get("lambda"))]
    flat = {name: value for name, value in authorizer.items() if not isinstance(value, Mapping)}
    names = sorted({str(name)[:_LONGEST_SHOWN] for part in (*claims, flat) for name in part})
    shown = ", ".join(map(ascii, names[:_MOST_SHOWN])) or "none"
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    sought = getattr(source, _LOOKS_FOR, None)
    if sought is None:
        instead = _found_instead(source, context)
        return f"{instead}the names in the authorizer's context are {shown}{more}"
    if sought in names:
        return f"{sought!r} is there and names nobody: it is no text, or says null and the like"
    from oncekey.misuse import nearest

    likely = nearest(sought, names)
    return f"there is no {sought!r} in the authorizer's context{likely}; there are {shown}{more}"


def _found_instead(source: CallerSource, context: Mapping[str, Any]) -> str:
    """What a source of the author's does in place of naming the caller, by types alone."""
    try:
        found: object = source(context)
    except MISFITS as error:
        return f"the source raised {type(error).__name__}; "
    return "" if found is None else f"the source returned no name but {type(found).__name__}; "


def _mapping(value: Any) -> Mapping[str, Any]:
    # An event is made of dicts, which are recognised faster than other mappings.
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def is_name(caller: object) -> TypeGuard[str]:
    """Whether `caller` can be the name of a tenant or a principal.

    A name is text of at most 1,024 bytes with a visible character and without control characters.
    It is not a text that a gateway writes in place of a name: `null`, `undefined`, `None`, `true`,
    a list, an object, or a number that may have been rounded. A number is not a name: convert it to
    text where its exact value is still known.
    """
    return isinstance(caller, str) and _is_name(str.__str__(caller))


@lru_cache(_NAMES_REMEMBERED)
def _is_name(caller: str) -> bool:
    if len(caller) > LONGEST_NAME_BYTES:
        return False
    # Of ASCII, what is printable has no control character, and a word in it is visible.
    if not (caller.isascii() and caller.isprintable()) and not _is_plain(caller):
        return False
    word = caller.strip().strip(_BRACKETS).strip().lower()
    if word in _NO_NAMES:
        return False
    return _SIGNS_OF_NO_NAME.isdisjoint(word) or re.fullmatch(_NO_NAME, word, re.DOTALL) is None


def _is_plain(caller: str) -> bool:
    import unicodedata

    kinds = {unicodedata.category(character) for character in caller}
    is_seen = any(kind[0] not in "CZ" for kind in kinds)
    if not is_seen or not kinds.isdisjoint({"Cc", "Cs", "Zl", "Zp"}):
        return False
    return len(caller.encode("utf-8")) <= LONGEST_NAME_BYTES


def _name(value: object) -> str | None:
    return value if is_name(value) else None


def caller_of(source: CallerSource, context: Mapping[str, Any]) -> str | None:
    """The name that `source` returns; None if it raises or returns an unusable name."""
    try:
        caller = source(context)
    except MISFITS:
        return None
    return caller if is_name(caller) else None
