"""Search and lists over payment intents and refunds, page by page.

Stripe's search may lag by a minute. This one finds new objects at once.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Any

from oncekey_local.provider.errors import ProviderError, invalid_request, resource_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey_local.provider.objects import PaymentIntent
    from oncekey_local.provider.parameters import Parameters

LIMIT_DEFAULT = 10
LIMIT_MAX = 100
_OFFSET_MAX = 10**9
_TIME_MAX = 10**11
# Stripe's filters for the time when an object was made.
_BOUNDS = {
    "created": operator.eq,
    "created[gt]": operator.gt,
    "created[gte]": operator.ge,
    "created[lt]": operator.lt,
    "created[lte]": operator.le,
}

_FIELDS = ("amount", "currency", "customer", "status")
_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_CLAUSE = re.compile(
    rf"\s*(?:metadata\[(?P<name>{_QUOTED})\]|(?P<field>[a-z_]+))\s*:\s*(?P<value>{_QUOTED}|\d+)\s*"
)
_AND = re.compile(r"AND\b", re.IGNORECASE)


def list_page(
    objects: Sequence[dict[str, Any]], params: Parameters, *, kind: str, url: str
) -> dict[str, Any]:
    """One page of `objects`, which are sorted by age, newest first.

    `created`, `limit` and one cursor select the page. `created` is a time, or has bounds such as
    `created[gte]`.
    """
    bounds = [
        (holds, bound)
        for name, holds in _BOUNDS.items()
        if (bound := params.integer(name, minimum=0, maximum=_TIME_MAX)) is not None
    ]
    limit = params.integer("limit", minimum=1, maximum=LIMIT_MAX) or LIMIT_DEFAULT
    after = params.text("starting_after")
    before = params.text("ending_before")
    params.ignore("expand")
    params.finish()
    if after is not None and before is not None:
        raise invalid_request(
            "You may only specify one of these parameters: ending_before, starting_after."
        )
    objects = [
        each for each in objects if all(holds(each["created"], bound) for holds, bound in bounds)
    ]
    identifiers = [each["id"] for each in objects]
    if before is not None:
        end = _position(identifiers, before, kind=kind, param="ending_before")
        start = max(0, end - limit)
        return _list(objects[start:end], url=url, has_more=start > 0)
    start = (
        0 if after is None else _position(identifiers, after, kind=kind, param="starting_after") + 1
    )
    return _list(objects[start : start + limit], url=url, has_more=start + limit < len(objects))


def search_page(
    intents: Sequence[PaymentIntent], params: Parameters, *, url: str
) -> dict[str, Any]:
    """One page of those `intents` (newest first) that match the parameter `query`."""
    wanted = _parse(params.required_text("query"))
    limit = params.integer("limit", minimum=1, maximum=LIMIT_MAX) or LIMIT_DEFAULT
    start = params.integer("page", minimum=0, maximum=_OFFSET_MAX) or 0
    params.ignore("expand")
    params.finish()
    found = [intent.as_json() for intent in intents if _matches(intent, wanted)]
    has_more = start + limit < len(found)
    return {
        "object": "search_result",
        "data": found[start : start + limit],
        "has_more": has_more,
        "next_page": str(start + limit) if has_more else None,
        "url": url,
    }


def _list(data: Sequence[dict[str, Any]], *, url: str, has_more: bool) -> dict[str, Any]:
    return {"object": "list", "data": list(data), "has_more": has_more, "url": url}


def _position(identifiers: list[str], identifier: str, *, kind: str, param: str) -> int:
    if identifier not in identifiers:
        raise resource_missing(kind, identifier, param=param)
    return identifiers.index(identifier)


def _parse(query: str) -> list[tuple[str | None, str | None, str]]:
    """The clauses of a query as (metadata name, field, value). One of the first two is None."""
    clauses = []
    position = 0
    while True:
        clause = _CLAUSE.match(query, position)
        if clause is None or (clause["field"] is not None and clause["field"] not in _FIELDS):
            raise _unreadable()
        name = None if clause["name"] is None else _unquoted(clause["name"])
        clauses.append((name, clause["field"], _unquoted(clause["value"])))
        position = clause.end()
        if position == len(query):
            return clauses
        conjunction = _AND.match(query, position)
        if conjunction is None:
            raise _unreadable()
        position = conjunction.end()


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] in "'\"" else text


def _matches(intent: PaymentIntent, wanted: list[tuple[str | None, str | None, str]]) -> bool:
    fields = intent.as_json()
    return all(
        intent.metadata.get(name) == value if name is not None else str(fields[str(field)]) == value
        for name, field, value in wanted
    )


def _unreadable() -> ProviderError:
    return invalid_request(
        "We were unable to parse your search query. This provider reads clauses such as "
        f"metadata['key']:'value' and field:'value', joined by AND; the fields are "
        f"{', '.join(_FIELDS)}.",
        param="query",
    )
