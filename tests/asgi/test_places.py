"""Where the middleware may stand, and how the operations below it are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import FileResponse, JSONResponse
from starlette.routing import Host, Mount, Route, Router

from oncekey import current_operation, single_tenant
from oncekey.asgi import IdempotencyMiddleware
from oncekey.errors import ConfigurationError
from tests.support.asgi_apps import Service
from tests.support.events import load, with_header, with_key, with_route
from tests.support.protected import Answer, headers_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

POST = load("apigw_http_v2_post")


class Placed(Service):
    """A service whose middleware stands where `build` puts it."""

    def __init__(self, build: Callable[[Placed], Any], **options: Any) -> None:
        super().__init__()
        given = {"store": self.store, "clock": self.clock, "tenant": single_tenant(), **options}
        self.middleware = Middleware(IdempotencyMiddleware, **given)
        self.app = build(self)

    def around(self, app: Any) -> Any:
        """`app` inside the middleware."""
        options: dict[str, Any] = self.middleware.kwargs
        return IdempotencyMiddleware(app, **options)

    async def pay(self, _request: Any) -> JSONResponse:
        """The route, which counts its runs."""
        self.runs.append(current_operation().name)
        return JSONResponse({"run": len(self.runs)}, 201)

    def route(self) -> Route:
        """`POST /payments`."""
        return Route("/payments", self.pay, methods=["POST"])

    def post(self, path: str, host: str = "x.example") -> Answer:
        """A POST with the sample's key."""
        return self.send(with_header(with_route(POST, "POST", path), "host", host))


class Rewrites:
    """A middleware that takes the version off the path."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        path = scope["path"].removeprefix("/v2")
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, send)


class Opaque:
    """A middleware that does not show what it wraps."""

    def __init__(self, app: Any) -> None:
        self._inner = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        await self._inner(scope, receive, send)


def fastapi_of(placed: Placed, root_path: str = "") -> FastAPI:
    """A FastAPI app with the route."""
    app = FastAPI(openapi_url=None)
    app.root_path = root_path
    app.router.routes.append(placed.route())
    return app


async def default(scope: Any, receive: Any, send: Any) -> None:
    """What a router runs where no route matches."""
    await JSONResponse({"name": current_operation().name}, 201)(scope, receive, send)


PLACES: Mapping[str, tuple[Callable[[Placed], Any], str, str]] = {
    "around Starlette": (
        lambda p: p.around(Starlette(routes=[p.route()])),
        *("/payments", "POST /payments"),
    ),
    "around FastAPI": (lambda p: p.around(fastapi_of(p)), "/payments", "POST /payments"),
    "around FastAPI with a root path": (
        lambda p: p.around(fastapi_of(p, root_path="/prod")),
        *("/prod/payments", "POST /payments"),
    ),
    "around a router": (
        lambda p: p.around(Router(routes=[p.route()])),
        *("/payments", "POST /payments"),
    ),
    "around a middleware": (
        lambda p: p.around(Rewrites(Starlette(routes=[p.route()]))),
        *("/payments", "POST /payments"),
    ),
    "on a mount": (
        lambda p: Starlette(
            routes=[Mount("/api/{shop}", routes=[p.route()], middleware=[p.middleware])]
        ),
        *("/api/7/payments", "POST /api/{shop}/payments"),
    ),
    "on a route": (
        lambda p: Starlette(
            routes=[Route("/payments", p.pay, methods=["POST"], middleware=[p.middleware])]
        ),
        *("/payments", "POST /payments"),
    ),
    "on a mounted app": (
        lambda p: Starlette(
            routes=[Mount("/v1", Starlette(routes=[p.route()], middleware=[p.middleware]))]
        ),
        *("/v1/payments", "POST /v1/payments"),
    ),
    "around a mounted app": (
        lambda p: Starlette(routes=[Mount("/v1", p.around(fastapi_of(p)))]),
        *("/v1/payments", "POST /v1/payments"),
    ),
    "before a mounted app in a middleware": (
        lambda p: Starlette(
            routes=[Mount("/v1", Rewrites(fastapi_of(p)))], middleware=[p.middleware]
        ),
        *("/v1/payments", "POST /v1/payments"),
    ),
    "in a mounted app whose path was changed": (
        lambda p: Rewrites(
            Starlette(
                routes=[
                    Mount("/v1", Rewrites(Starlette(routes=[p.route()], middleware=[p.middleware])))
                ]
            )
        ),
        *("/v2/v1/payments", "POST /v1/payments"),
    ),
    "after a middleware that changes the path": (
        lambda p: Starlette(routes=[p.route()], middleware=[Middleware(Rewrites), p.middleware]),
        *("/v2/payments", "POST /payments"),
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_route_is_protected_wherever_the_middleware_stands(place: str) -> None:
    """A repeat gets the first answer, and a request without a key is refused; the operation has
    the prefixes of all mounts.
    """
    build, path, name = PLACES[place]
    service = Placed(build)
    first, second = service.post(path), service.post(path)

    assert (first["statusCode"], second["body"]) == (201, first["body"])
    assert headers_of(second)["idempotent-replayed"] == "true"
    assert (service.runs, service.operations) == ([name], [name])
    refused = service.send(with_key(with_route(POST, "POST", path)))
    assert problem_of(refused)[:2] == (400, "key-missing")


def test_an_app_without_visible_routes_is_refused() -> None:
    """A middleware that cannot tell what will run does not let it run."""
    service = Placed(lambda p: p.around(Opaque(Router(routes=[p.route()]))))

    with pytest.raises(ConfigurationError, match="no routes are found in Opaque"):
        service.call({"idempotency-key": "k" * 20})
    assert service.runs == []


@pytest.mark.parametrize(
    ("routers", "path", "name"),
    [
        (lambda p: p.around(Router(default=default)), "/z", "POST /{path}"),
        (
            lambda p: Starlette(
                routes=[Mount("/raw", Router(default=default))], middleware=[p.middleware]
            ),
            *("/raw/z", "POST /raw/{path}"),
        ),
        (
            lambda p: Starlette(
                routes=[Mount("/raw", Router(routes=[p.route()], default=default))],
                middleware=[p.middleware],
            ),
            *("/raw/z", "POST /raw/{path}"),
        ),
    ],
    ids=["around", "mount", "mount with routes"],
)
def test_what_a_router_runs_where_no_route_matches_is_protected(
    routers: Callable[[Placed], Any], path: str, name: str
) -> None:
    """The `default` of a router is one operation."""
    service = Placed(routers)
    first, second = service.post(path), service.post(path)

    assert first["body"] == second["body"] == f'{{"name":"{name}"}}'
    assert service.operations == [name]


def test_nothing_succeeds_without_a_route(caplog: pytest.LogCaptureFixture) -> None:
    """A middleware inside that changes the path is found at the first request, for a key would not
    hold; an answer of its own that is an error or a redirect passes.
    """

    async def bare(_request: Any) -> JSONResponse:
        return JSONResponse({}, 201)

    service = Placed(
        lambda p: Starlette(
            routes=[Route("/payments", bare, methods=["POST"])],
            middleware=[p.middleware, Middleware(Rewrites)],
        )
    )

    assert service.post("/v2/payments")["statusCode"] == 500
    assert "POST /v2/payments has run unprotected" in caplog.text
    assert service.post("/v2/elsewhere")["statusCode"] == 404
    assert service.post("/payments/")["statusCode"] == 307


@pytest.mark.parametrize("is_inside", [True, False])
def test_hosts_do_not_share_keys(is_inside: bool) -> None:
    """The same path of two hosts is two operations, with a middleware of each or one of all."""

    def build(placed: Placed) -> Starlette:
        middleware = [placed.middleware]
        inner = middleware if is_inside else []
        return Starlette(
            routes=[
                Host(host, Starlette(routes=[placed.route()], middleware=inner))
                for host in ("a.example", "{shop}.b.example")
            ],
            middleware=[] if is_inside else middleware,
        )

    service = Placed(build)
    answers = [service.post("/payments", host) for host in ("a.example", "x.b.example")]

    assert [answer["body"] for answer in answers] == ['{"run":1}', '{"run":2}']
    assert service.operations == [
        *("POST //a.example/payments", "POST //{shop}.b.example/payments"),
    ]


def test_two_mounted_apps_do_not_share_keys() -> None:
    """Each has a middleware of its own, and the same paths."""
    service = Placed(
        lambda p: Starlette(
            routes=[
                Mount(path, Starlette(routes=[p.route()], middleware=[p.middleware]))
                for path in ("/v1", "/v2")
            ]
        )
    )
    answers = [service.post(path) for path in ("/v1/payments", "/v2/payments")]

    assert [answer["body"] for answer in answers] == ['{"run":1}', '{"run":2}']


@pytest.mark.parametrize("key", ["POST /orders/{id}/refunds", "POST /orders/{order_id}/refunds/"])
def test_a_key_of_routes_that_is_no_route_is_refused(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first request names the key and the routes that are near it, whatever its path."""
    service = Service(routes={key: {"effects": "recorded"}})
    service.app.post("/orders/{order_id}/refunds")(lambda: service.runs.append("refund"))

    assert service.send(with_route(POST, "POST", "/orders/1/refunds"))["statusCode"] == 500
    assert f"no route is {key!r}; near: POST /orders/{{order_id}}/refunds" in caplog.text
    assert service.runs == []


@pytest.mark.parametrize("key", ["post /refunds", "/refunds", "POST refunds"])
def test_a_key_of_routes_is_a_method_and_a_path(key: str) -> None:
    """Another form is found when the middleware is made."""
    with pytest.raises(ConfigurationError, match="is not a method and a path"):
        IdempotencyMiddleware(FastAPI(), tenant=single_tenant(), routes={key: {}})


@pytest.mark.parametrize("key", ["POST /files/{rest:path}", "POST /files/{rest}"])
def test_a_key_of_routes_may_have_the_convertors_of_its_route(key: str) -> None:
    """A path is found as it stands in the decorator, and as the operation is named."""
    service = Service(routes={key: {"effects": "recorded"}})
    service.app.post("/files/{rest:path}")(lambda: current_operation().records_effects)

    assert service.send(with_route(POST, "POST", "/files/a/b"))["body"] == "true"


def test_a_key_of_routes_is_a_path_of_the_app_with_the_middleware() -> None:
    """A mounted app's options do not depend on where it is mounted."""
    service = Placed(
        lambda p: Starlette(
            routes=[Mount("/v1", Starlette(routes=[p.route()], middleware=[p.middleware]))]
        ),
        routes={"POST /payments": {"effects": "recorded"}},
    )
    service.post("/v1/payments")

    assert [record.effects for record in service.store.records.values()] == ["recorded"]


def test_a_file_is_stored_with_its_body(tmp_path: Path) -> None:
    """A server's offer to send files itself is not passed on, for a replay would be empty."""
    (tmp_path / "receipt").write_text("receipt 42")

    async def receipt(_request: Any) -> FileResponse:
        return FileResponse(tmp_path / "receipt")

    service = Placed(
        lambda p: Offers(
            Starlette(
                routes=[Route("/payments", receipt, methods=["POST"])], middleware=[p.middleware]
            )
        )
    )
    answers = [service.call({"idempotency-key": "k" * 20}) for _ in range(2)]

    assert [answer["body"] for answer in answers] == ["receipt 42"] * 2


class Offers:
    """A server that sends files itself."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on."""
        await self.app({**scope, "extensions": {"http.response.pathsend": {}}}, receive, send)


def test_a_message_that_cannot_be_stored_is_a_mistake() -> None:
    """An app that sends files in spite of that is told so."""

    async def sends_a_file(scope: Any, _receive: Any, send: Any) -> None:
        assert scope["extensions"] == {}
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.pathsend", "path": "/receipt"})

    service = Placed(lambda p: p.around(Router([Mount("/payments", sends_a_file)])))

    with pytest.raises(TypeError, match="'http.response.pathsend' cannot be stored"):
        service.call({"idempotency-key": "k" * 20}, path="/payments/1")
