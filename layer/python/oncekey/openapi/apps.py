"""What protects the operations of an app of Powertools, FastAPI or Starlette."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.http.decorator import idempotent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def protections_in(app: Any, document: Mapping[str, Any]) -> dict[str, object]:
    """What protects which operation of `document`, by method and path. Empty for another app.

    Operations whose method needs no key are left out, and those that the document does not show.
    """
    if hasattr(app, "user_middleware"):
        found = _of_asgi(app, document)
    elif hasattr(app, "_router_middlewares"):
        found = _of_powertools(app)
    else:
        return {}
    return {
        name: protection
        for name, protection in found
        if name.partition(" ")[0] in {method.upper() for method in protection.methods}
        and _has(document, name)
    }


def _has(document: Mapping[str, Any], name: str) -> bool:
    method, _, path = name.partition(" ")
    return method.lower() in document.get("paths", {}).get(path, {})


def _of_asgi(app: Any, document: Mapping[str, Any]) -> Iterator[tuple[str, idempotent]]:
    from oncekey.asgi import IdempotencyMiddleware
    from oncekey.asgi.routes import without_convertors

    for entry in app.user_middleware:
        if not (isinstance(entry.cls, type) and issubclass(entry.cls, IdempotencyMiddleware)):
            continue
        options = dict(entry.kwargs)
        options.pop("lambda_web_adapter", None)
        given = options.pop("routes", None) or {}
        routes = {without_convertors(name): own for name, own in given.items()}
        for path, item in document.get("paths", {}).items():
            for method in item:
                name = f"{method.upper()} {path}"
                own = routes.get(name, {})
                if own is not None:
                    yield name, idempotent(operation=name, **{**options, **own})


def _of_powertools(app: Any) -> Iterator[tuple[str, idempotent]]:
    from oncekey.powertools import idempotent_route

    # The resolver has no public list of its routes.
    for route in (*app._static_routes, *app._dynamic_routes):  # noqa: SLF001
        # The middleware of a route replaces one for all routes.
        for middleware in (*route.middlewares, *app._router_middlewares):  # noqa: SLF001
            if isinstance(middleware, idempotent_route):
                methods = [route.method] if isinstance(route.method, str) else route.method
                yield from ((f"{method} {route.openapi_path}", middleware) for method in methods)
                break
