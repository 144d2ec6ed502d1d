"""A middleware inside ours that changes which route a request runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Host, Mount, Route, Router

from tests.support.asgi_apps import Service
from tests.support.events import load, with_route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

POST = load("apigw_http_v2_post")


def changing(**members: str) -> Middleware:
    """A middleware that sets these members of the scope, and passes the same scope on."""

    async def dispatch(request: Any, call_next: Any) -> Any:
        request.scope.update(members)
        return await call_next(request)

    return Middleware(BaseHTTPMiddleware, dispatch=dispatch)


class Apps:
    """Apps with `POST /payments`, which needs a key, and `POST /login`, which does not."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def pay(self) -> dict[str, str]:
        """The route of FastAPI."""
        self.runs.append("pay")
        return {}

    async def run(self, _request: Any) -> JSONResponse:
        """The routes of Starlette."""
        self.runs.append("run")
        return JSONResponse({}, 201)

    def routes(self) -> list[Route]:
        """The routes of Starlette."""
        return [Route(path, self.run, methods=["POST"]) for path in ("/payments", "/login")]

    def starlette(self, inside: Middleware) -> Starlette:
        """Routes of the app itself."""
        return Starlette(routes=self.routes(), middleware=[inside])

    def mounted(self, inside: Middleware) -> Starlette:
        """A middleware between a mount and its routes."""
        below = Starlette(routes=self.routes(), middleware=[inside])
        return Starlette(routes=[Mount("", below)])

    def fastapi(self, inside: Middleware) -> FastAPI:
        """Routes of FastAPI, in a router that is included."""
        app = FastAPI(middleware=[inside])
        router = APIRouter()
        for path in ("/payments", "/login"):
            router.post(path)(self.pay)
        app.include_router(router)
        return app


@pytest.mark.parametrize("kind", [Apps.starlette, Apps.mounted, Apps.fastapi])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/elsewhere"), ("GET", "/payments"), ("POST", "/login")]
)
def test_no_request_is_led_to_a_protected_route_without_its_key(
    kind: Callable[[Apps, Middleware], Any],
    method: str,
    path: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A change of path or method behind the middleware is refused before the route runs, for a
    path that is no route, for a safe method, and for a route that is left unprotected.
    """
    apps = Apps()
    app = kind(apps, changing(method="POST", path="/payments"))
    service = Service(app, routes={"POST /login": None})
    answer = service.send(with_route(POST, method, path))

    assert (answer["statusCode"], apps.runs, service.operations) == (500, [], [])
    assert f"{method} {path} would run POST /payments unprotected" in caplog.text


def test_no_header_that_is_changed_in_its_place_leads_to_a_protected_route() -> None:
    """The routes of another host are not run, although the list of headers is the same one."""
    apps = Apps()

    async def dispatch(request: Any, call_next: Any) -> Any:
        headers = request.scope["headers"]
        headers[:] = [each for each in headers if each[0] != b"host"]
        headers.append((b"host", b"inside.example.com"))
        return await call_next(request)

    app = Starlette(
        routes=[
            Host("inside.example.com", Router(apps.routes())),
            Route("/login", apps.run, methods=["POST"]),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=dispatch)],
    )
    service = Service(app, routes={"POST /login": None})

    answer = service.send(with_route(POST, "POST", "/login"))

    assert (answer["statusCode"], apps.runs) == (500, [])


@pytest.mark.parametrize("kind", [Apps.starlette, Apps.mounted, Apps.fastapi])
@pytest.mark.parametrize(
    ("path", "status"), [("/login", {200, 201}), ("/nowhere", {404}), ("/payments/", {307})]
)
def test_a_changed_request_passes_that_needs_no_key(
    kind: Callable[[Apps, Middleware], Any], path: str, status: set[int]
) -> None:
    """A route that is left unprotected, no route, and a redirect."""
    service = Service(kind(Apps(), changing(path=path)), routes={"POST /login": None})

    assert service.send(with_route(POST, "POST", "/login"))["statusCode"] in status


@pytest.mark.parametrize("path", ["/login", "/elsewhere"])
def test_a_middleware_outside_sees_which_route_was_run(path: str) -> None:
    """Metrics and traces read it from the scope, when the response begins and at the end."""
    seen: list[Sequence[str]] = []
    apps = Apps()
    service = Service(apps.starlette(changing()), routes={"POST /login": None})

    class Reads:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            async def noted(message: Any) -> None:
                seen.append(sorted({"endpoint", "router"} & set(scope)))
                await send(message)

            await self.app(scope, receive, noted)
            seen.append(sorted({"endpoint", "router"} & set(scope)))

    service.app.add_middleware(Reads)
    service.send(with_route(POST, "POST", path))

    assert len(seen) > 2
    assert all(
        each == (["endpoint", "router"] if path == "/login" else ["router"]) for each in seen
    )
