"""The middleware for Powertools' routes: its options, and which of several protects a route."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey import ConfigurationError, current_operation, idempotent, jwt_claim, single_tenant
from oncekey.powertools.middleware import idempotent_route
from oncekey.record.record import Status
from tests.support.events import load, with_key, with_route
from tests.support.protected import headers_of, is_replay, problem_of
from tests.support.routes import OTHER_KEY, Service

POST = load("apigw_http_v2_post")


def test_a_routes_own_options_win() -> None:
    """A route with a middleware of its own is protected by that one alone, once; the other routes
    by the one for all.
    """
    service = Service()
    service.app.use(middlewares=[service.protect()])

    @service.app.post("/own", middlewares=[service.protect(effects="repeatable")])
    def own() -> dict[str, Any]:
        service.runs.append("own")
        raise LookupError

    @service.app.post("/common")
    def common() -> dict[str, Any]:
        service.runs.append("common")
        raise LookupError

    for path in ("/own", "/own", "/common"):
        with pytest.raises(LookupError):
            service.send(with_route(POST, "POST", path))
    again = service.send(with_route(POST, "POST", "/common"))

    assert problem_of(again)[1] == "outcome-unknown"
    assert service.runs == ["own", "own", "common"]
    assert service.operations == ["POST /own", "POST /common"]


@pytest.mark.parametrize("levels", ["same twice", "two for all", "two of a route"])
def test_an_operation_is_protected_once(levels: str) -> None:
    """Of several middlewares around a route only one reserves, the outermost of the innermost
    level; the request goes through the others.
    """
    service = Service()
    outer, inner = service.protect(effects="repeatable"), service.protect()
    common: Any = {"same twice": [outer], "two for all": [outer, inner]}.get(levels, [])
    service.app.use(middlewares=common)
    own: Any = {"same twice": [outer], "two of a route": [outer, inner]}.get(levels)

    @service.app.post("/payments", middlewares=own)
    def create() -> dict[str, Any]:
        service.runs.append("create")
        return {}

    assert [service.send(POST)["statusCode"] for _ in range(2)] == [200, 200]
    assert service.runs == ["create"]
    assert (service.record.effects, service.record.status) == ("repeatable", Status.COMPLETED)


def test_a_middleware_added_too_late_for_powertools_unprotects_nothing() -> None:
    """Powertools builds a route's chain at its first request: a middleware for all routes that
    comes later is not in it, and the first one goes on protecting.
    """
    service = Service()
    service.app.use(middlewares=[service.protect()])
    service.app.post("/payments")(lambda: service.runs.append("create"))

    service.send(POST)
    service.app.use(middlewares=[service.protect()])
    service.send(with_key(POST, OTHER_KEY))

    assert is_replay(service.send(with_key(POST, OTHER_KEY)))
    assert service.runs == ["create", "create"]


def test_a_request_that_a_route_sends_to_itself_is_protected() -> None:
    """Another request below a running operation of the same name is an operation of its own."""
    service = Service()
    service.app.use(middlewares=[service.protect()])

    @service.app.post("/payments")
    def create() -> dict[str, Any]:
        service.runs.append(current_operation().operation_id)
        if len(service.runs) == 1:
            service.send(with_key(POST, OTHER_KEY))
        return {}

    service.send(POST)

    assert len(set(service.runs)) == len(service.operations) == 2


def test_a_decorated_handler_around_the_same_operation_refuses_everything() -> None:
    """`@idempotent` for a route's own operation around the resolver runs nothing, rather than
    something twice.
    """
    service = Service()
    protect = service.protect()
    service.app.post("/payments", middlewares=[protect])(lambda: service.runs.append("create"))
    around = idempotent(
        operation="POST /payments",
        tenant=single_tenant(),
        store=service.store,
        clock=service.clock,
    )
    handler: Any = around(service.app.resolve)

    assert problem_of(handler(POST, service.context()))[1] == "request-in-progress"
    assert service.runs == []


def test_retention_is_the_routes_own() -> None:
    """An option of one route: after its retention a repeat runs again."""
    service = Service()
    service.app.use(middlewares=[service.protect()])
    own = service.protect(retention=timedelta(minutes=5))
    service.app.post("/payments", middlewares=[own])(lambda: service.runs.append("create"))

    service.send(POST)
    service.clock.advance(5 * 60_000 + 1_000)
    service.send(POST)

    assert service.runs == ["create", "create"]


def test_the_order_of_middlewares_is_the_authors() -> None:
    """What comes before runs for every request and may change a replay; what comes after runs only
    where the route does, and what it changes is stored.
    """
    service = Service()

    def marking(name: str) -> Any:
        def middleware(app: Any, next_middleware: Any) -> Any:
            service.runs.append(name)
            response = next_middleware(app)
            response.headers[f"X-{name}"] = str(service.runs.count(name))
            return response

        return middleware

    service.app.use(middlewares=[marking("Before"), service.protect(), marking("After")])
    service.app.post("/payments")(dict)

    service.send(POST)
    replay = service.send(POST)

    assert service.runs == ["Before", "After", "Before"]
    assert (headers_of(replay)["x-before"], headers_of(replay)["x-after"]) == ("2", "1")


def test_every_option_but_the_operation_is_taken() -> None:
    """A middleware has the options of `idempotent`; the operation is the route's."""
    ours = {name for name, option in idempotent_route.fields_.items() if option.is_given}
    theirs = set(idempotent.fields_)

    assert ours == theirs - {"operation"}
    with pytest.raises(TypeError, match="operation"):
        idempotent_route(operation="POST /payments", tenant=single_tenant())  # type: ignore[call-arg]


def test_wrong_options_are_refused_at_once_with_all_faults() -> None:
    """A wrong option raises where the middleware is made, and the message names every fault."""
    with pytest.raises(ConfigurationError, match=r"^idempotent_route\(\.\.\.\): ") as refused:
        idempotent_route(tenant=None, effects="x", methods=(), retention=timedelta(0))  # type: ignore[arg-type]

    assert len(refused.value.faults) == 4


def test_a_route_is_not_completed_by_a_worker() -> None:
    """A worker has no route to run, so options that hand work to one are refused at once."""
    for option in ({"mode": "queued"}, {"on_abandoned": "complete", "effects": "recorded"}):
        with pytest.raises(ConfigurationError, match="a worker cannot run a route alone"):
            idempotent_route(tenant=jwt_claim("tenant_id"), **option)  # type: ignore[arg-type]


def test_a_middleware_may_answer_in_place_of_the_route() -> None:
    """What a middleware behind this one returns is the answer, in any form that a route may use."""
    service = Service()

    def answering(_app: Any, _next_middleware: Any) -> Any:
        service.runs.append("answering")
        return {"cached": True}, 203

    service.app.use(middlewares=[service.protect(), answering])
    service.app.post("/payments")(dict)

    assert [service.send(POST)["statusCode"] for _ in range(2)] == [203, 203]
    assert service.runs == ["answering"]


def test_a_middleware_that_lets_a_request_pass_leaves_it_to_the_next() -> None:
    """Where the outer one needs no key, the inner one still does."""
    service = Service()
    service.app.use(middlewares=[service.protect(required=False), service.protect()])
    service.app.post("/payments")(lambda: service.runs.append("create"))

    assert problem_of(service.send(with_key(POST)))[:2] == (400, "key-missing")
    assert service.runs == []
