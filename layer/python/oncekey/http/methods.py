"""Which methods reach the handler of an operation, and which of them need a key."""

from __future__ import annotations

import re

from oncekey.value import Value

# Safe methods change nothing (RFC 9110, section 9.2.1). CORS preflight requests use OPTIONS.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_ROUTE = re.compile(r"\s*([A-Za-z]+)\s+/")
# In API Gateway, a route for every method. It is never the method of a request.
_ANY = "ANY"


class Methods(Value, kw_only=True):
    """`keyed` need a key. `allowed` reach the handler; the others are refused (405)."""

    keyed: frozenset[str]
    allowed: frozenset[str]

    @property
    def allow(self) -> str:
        """The Allow header of a refusal (RFC 9110, section 10.2.1)."""
        return ", ".join(sorted(self.allowed))


def methods_of(operation: str, keyed: frozenset[str]) -> Methods:
    """The methods of `operation`, of which those in `keyed` need a key.

    An unsafe method would run unprotected without a key. So it is allowed only if the operation's
    name contains it: `PUT /things/{id}`.
    """
    return Methods(keyed=keyed, allowed=keyed | SAFE | _named(operation))


def _named(operation: str) -> frozenset[str]:
    route = _ROUTE.match(operation)
    return frozenset({route[1].upper()} - {_ANY}) if route else frozenset()
