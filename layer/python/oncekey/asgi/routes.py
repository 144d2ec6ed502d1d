"""The route template of a request, as Starlette's and FastAPI's routers match it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableMapping

    Scope = MutableMapping[str, Any]

# What `Mount` adds to its own path. It stands for all paths below one.
_REST = "/{path}"
_CONVERTOR = re.compile(r"\{(\w+):\w+\}")


def without_convertors(name: str) -> str:
    """`name` as templates are written here: `/files/{rest:path}` is `/files/{rest}`."""
    return _CONVERTOR.sub(r"{\1}", name)


class Place:
    """Where the middleware stands: the routes below it, and the routers around it.

    Raises:
        ConfigurationError: nothing that the middleware can see has routes.
    """

    def __init__(self, app: Any, scope: Scope) -> None:
        self._scope = scope
        # Routers note the first of them here, and mounts the root path that it saw.
        self._outermost = scope.get("router")
        self._outer_root = scope.get("app_root_path", scope.get("root_path", ""))
        self._app, self._root = _with_routes(app), scope.get("root_path", "")
        if self._app is None and self._outermost is not None:
            self._app, self._root = self._outermost, self._outer_root
        if self._app is None:
            self._app = scope.get("app")
        if not hasattr(self._app, "routes"):
            fault = (
                f"no routes are found in {type(app).__name__}: add the middleware to the app that"
                " has them, with app.add_middleware(IdempotencyMiddleware, ...)"
            )
            raise ConfigurationError("IdempotencyMiddleware(...)", [fault])
        # FastAPI puts its own root path into the scope, which has not happened around the app.
        self._root = getattr(self._app, "root_path", "") or self._root

    def template(self) -> str | None:
        """The template of the route that the app will run, such as `/payments/{payment_id}`.

        It begins below the middleware. None if no route matches, and the app answers 404, 405 or a
        redirect.
        """
        return self.template_of(self._scope)

    def template_of(self, scope: Scope) -> str | None:
        """The template of the route for this request after an app inside has changed its scope."""
        return self._matched(self._app, self._root, scope)

    def full(self, template: str) -> str:
        """`template` with the prefixes of the mounts and hosts around the middleware."""
        if self._outermost is None:
            return template
        # An app between may have changed the path, so that the routers around no longer match.
        literal: str = self._scope.get("root_path", "").removeprefix(self._outer_root)
        around = self._matched(self._outermost, self._outer_root, self._scope)
        return around or literal + template

    def names(self) -> Iterator[tuple[str, frozenset[str] | None]]:
        """Each template below the middleware, and its methods. None stands for all methods."""
        return _all(self._app, "")

    def _matched(self, app: Any, root_path: str, scope: Scope) -> str | None:
        # A match of FastAPI's notes something in the member `fastapi`.
        noted = dict(self._scope.get("fastapi") or {})
        return _template(app, {**scope, "root_path": root_path, "fastapi": noted})


def _with_routes(app: Any) -> Any:
    """`app`, or what it wraps, as soon as that has routes. None if nothing has."""
    seen: list[Any] = []
    while app is not None and not hasattr(app, "routes"):
        seen.append(app)
        app = getattr(app, "app", None)
        if any(app is each for each in seen):
            return None
    return app


def _template(app: Any, scope: Scope) -> str | None:
    is_partial = False
    for route in _flat(app.routes):
        match, child = route.matches(scope)
        is_partial = is_partial or match.name == "PARTIAL"
        if match.name != "FULL":
            continue
        prefix, inside = _parts(route)
        if inside is None:
            return prefix
        rest = _template(inside, {**scope, **child})
        return None if rest is None else prefix + rest
    return _REST if _has_default(app) and not is_partial else None


def _all(app: Any, before: str) -> Iterator[tuple[str, frozenset[str] | None]]:
    for route in _flat(app.routes):
        prefix, inside = _parts(route)
        if inside is not None:
            yield from _all(inside, before + prefix)
        elif prefix:
            methods = getattr(route, "methods", None)
            yield before + prefix, frozenset(methods) if methods else None
    if _has_default(app):
        yield before + _REST, None


def _parts(route: Any) -> tuple[str, Any]:
    """The template of `route`; or its prefix, and the app with the routes inside."""
    route = getattr(route, "starlette_route", None) or route
    template: str = getattr(route, "path_format", "")
    host: str | None = getattr(route, "host_format", None)
    if host is not None:
        # Hosts have paths of their own, so a name needs both.
        template = f"//{host}{_REST}"
    is_group = host is not None or hasattr(route, "routes")
    inside = _with_routes(route.app) if is_group else None
    if inside is None or not (inside.routes or _has_default(inside)):
        return template, None
    return template.removesuffix(_REST), inside


def _has_default(app: Any) -> bool:
    """Whether the app's router has something to run where no route matches."""
    router = getattr(app, "router", app)
    not_found = getattr(router, "not_found", None)
    return not_found is not None and getattr(router, "default", not_found) != not_found


def _flat(routes: Iterable[Any]) -> Iterator[Any]:
    # FastAPI may keep an included router as one route. Its contexts then have the prefix.
    for route in routes:
        contexts = getattr(route, "effective_route_contexts", None)
        if contexts is None:
            yield route
        else:
            yield from contexts()
