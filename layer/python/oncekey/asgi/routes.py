"""The route template of a request, as Starlette's and FastAPI's routers match it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableMapping

    Scope = MutableMapping[str, Any]

# What `Mount` adds to its own path.
_REST = "/{path}"


def template_of(scope: Scope) -> str | None:
    """The template of the route that the app will run, such as `/payments/{payment_id}`.

    None if no route matches, and the app answers 404, 405 or a redirect.
    """
    # A match of FastAPI's notes something in this member.
    tried = {**scope, "fastapi": dict(scope.get("fastapi") or {})}
    return _template(getattr(scope.get("app"), "routes", ()), tried)


def _template(routes: Iterable[Any], scope: Scope) -> str | None:
    for route in _flat(routes):
        match, child = route.matches(scope)
        if match.name != "FULL":
            continue
        route = getattr(route, "starlette_route", None) or route  # noqa: PLW2901 -- the same route
        template: str | None = getattr(route, "path_format", None)
        inside = getattr(route, "routes", None)
        if not inside:
            return template
        rest = _template(inside, {**scope, **child})
        # A route for a host name has routes, and no path of its own.
        prefix = (template or "").removesuffix(_REST) if hasattr(route, "path") else ""
        return None if rest is None else prefix + rest
    return None


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    # FastAPI may keep an included router as one route. Its contexts then have the prefix.
    for route in routes:
        contexts = getattr(route, "effective_route_contexts", None)
        if contexts is None:
            yield route
        else:
            yield from contexts()
