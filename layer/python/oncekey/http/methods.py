"""Which methods reach the handler of an operation, and which of them need a key."""

from __future__ import annotations

import re

from oncekey.value import Value

# A preflight is an OPTIONS; what is safe changes nothing (RFC 9110, section 9.2.1).
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_ROUTE = re.compile(r"\s*([A-Za-z]+)\s+/")
# API Gateway's word for a route of every method. No request has it.
_ANY = "ANY"


class Methods(Value, kw_only=True):
    """`keyed` need a key. `allowed` reach the handler; the others are refused (405)."""

    keyed: frozenset[str]
    allowed: frozenset[str]

    @property
    def allow(self) -> str:
        """The header Allow of a refusal (RFC 9110, section 10.2.1)."""
        return ", ".join(sorted(self.allowed))


def methods_of(operation: str, keyed: frozenset[str]) -> Methods:
    """The methods of `operation` where those in `keyed` need a key.

    What is not safe would run unprotected without one. So it is allowed only where the operation's
    name says that the handler is there for it: `PUT /things/{id}`.
    """
    return Methods(keyed=keyed, allowed=keyed | SAFE | _named(operation))


def _named(operation: str) -> frozenset[str]:
    route = _ROUTE.match(operation)
    return frozenset({route[1].upper()} - {_ANY}) if route else frozenset()
