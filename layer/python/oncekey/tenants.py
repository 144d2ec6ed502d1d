"""Where the tenant and the principal come from: the verified request context, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

# Receives the event's `requestContext`: neither headers nor body, which a client can write at will.
# Returns None where the caller cannot be told, and the request is then refused.
CallerSource = Callable[[Mapping[str, Any]], str | None]

_SINGLE_TENANT = "single-tenant"
_NO_NAME = re.compile(r"(map)?\[.*\]", re.DOTALL)
_SESSION = re.compile(r"^(arn:[^:]+:sts::[0-9]*:assumed-role/[^/]+)/.*$", re.DOTALL)


def jwt_claim(name: str) -> CallerSource:
    """The claim `name` of a verified token.

    It was verified by API Gateway's JWT authorizer (HTTP API) or Cognito authorizer (REST API).
    """

    def source(context: Mapping[str, Any]) -> str | None:
        authorizer = _mapping(context.get("authorizer"))
        claims = _mapping(_mapping(authorizer.get("jwt")).get("claims")) or _mapping(
            authorizer.get("claims")
        )
        claim = _text(claims.get(name))
        # An HTTP API hands lists and objects on as text, in which an empty list looks like a name.
        return None if claim is None or _NO_NAME.fullmatch(claim) else claim

    return source


def authorizer_value(name: str) -> CallerSource:
    """The value `name` that your own Lambda authorizer returned (HTTP API and REST API)."""

    def source(context: Mapping[str, Any]) -> str | None:
        authorizer = _mapping(context.get("authorizer"))
        return _text(_mapping(authorizer.get("lambda")).get(name)) or _text(authorizer.get(name))

    return source


def iam_principal() -> CallerSource:
    """The ARN of the caller whose IAM signature was verified (HTTP API, REST API, Function URL).

    Of an assumed role it is the role, without the name of the session: that differs from host to
    host, and a retry from another host is the same caller's.
    """

    def source(context: Mapping[str, Any]) -> str | None:
        iam = _mapping(_mapping(context.get("authorizer")).get("iam"))
        arn = _text(iam.get("userArn")) or _text(_mapping(context.get("identity")).get("userArn"))
        return arn and _SESSION.sub(r"\1", arn)

    return source


def api_key_id() -> CallerSource:
    """The id (not the secret value) of the API key that a REST API's usage plan accepted."""

    def source(context: Mapping[str, Any]) -> str | None:
        return _text(_mapping(context.get("identity")).get("apiKeyId"))

    return source


def single_tenant() -> Callable[..., str]:
    """Every caller shares one set of keys: any of them can read the answer to a key it knows.

    For handlers and for functions, whatever their arguments.
    """
    return lambda *_args, **_kwargs: _SINGLE_TENANT


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def is_name(caller: object) -> TypeGuard[str]:
    """Whether `caller` can name somebody: text that is not blank and that UTF-8 can hold."""
    if not isinstance(caller, str) or not caller.strip():
        return False
    try:
        caller.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _text(value: Any) -> str | None:
    # An empty claim, a list or a flag names nobody.
    return value if isinstance(value, str) and value.strip() else None


def caller_of(source: CallerSource, context: Mapping[str, Any]) -> str | None:
    """Whom `source` names; None where it names nobody, is at a loss, or gives what is no name."""
    try:
        caller = source(context)
    except (LookupError, TypeError, AttributeError, ValueError):
        return None
    return caller if is_name(caller) else None
