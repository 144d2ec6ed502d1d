"""Routes of Powertools' resolvers as operations: which are protected, by which options, and how."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import CORSConfig
from aws_lambda_powertools.event_handler.api_gateway import Router

from oncekey import Operation, current_operation, jwt_claim
from oncekey.powertools import middleware as powertools
from oncekey.settings import LEASE_MARGIN_MS
from tests.support.events import load, with_body, with_key, with_route, with_tenant
from tests.support.protected import Answer, headers_of, is_replay, problem_of
from tests.support.routes import RESOLVERS, Service

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize("shape", RESOLVERS)
def test_a_route_takes_effect_once_behind_every_gateway(shape: str) -> None:
    """One middleware for all routes: the first request runs, and a repeat gets its answer; another
    request under the key, and one without a key, are refused.
    """
    service = Service(shape)
    service.app.use(middlewares=[service.protect()])

    @service.app.post("/payments")
    def create() -> tuple[dict[str, Any], int]:
        service.runs.append(current_operation().operation_id)
        return {"run": len(service.runs)}, 201

    event = load(shape)
    first, replay = service.send(event), service.send(event)

    assert (first["statusCode"], first["body"]) == (201, '{"run":1}')
    assert (replay["statusCode"], replay["body"]) == (201, '{"run":1}')
    assert (is_replay(first), is_replay(replay)) == (False, True)
    assert problem_of(service.send(with_body(event, '{"other": 1}'))) == (422, "key-reused", False)
    assert problem_of(service.send(with_key(event))) == (400, "key-missing", False)
    assert service.runs == [service.record.operation_id]


@pytest.mark.parametrize("shape", RESOLVERS)
def test_the_operation_is_the_method_and_the_template(shape: str) -> None:
    """Records are named by what Powertools matched, with its parameters in braces, however the
    concrete path reads; the parameters reach the route.
    """
    service = Service(shape)
    service.app.use(middlewares=[service.protect()])

    @service.app.route("/payments/<payment_id>/refunds/<n>", method=["POST", "PATCH"])
    def refund(payment_id: str, n: str) -> dict[str, Any]:
        service.runs.append(current_operation().name)
        return {"refunded": [payment_id, n]}

    path = "/payments/p-1/refunds/2"
    posted = service.send(with_route(load(shape), "POST", path))
    service.send(with_route(load(shape), "PATCH", path))

    assert posted["body"] == '{"refunded":["p-1","2"]}'
    names = ["POST /payments/{payment_id}/refunds/{n}", "PATCH /payments/{payment_id}/refunds/{n}"]
    assert service.operations == service.runs == names


@pytest.mark.parametrize("shape", RESOLVERS)
def test_the_prefix_of_a_router_is_part_of_the_name(shape: str) -> None:
    """Routes of a router, with middlewares of the router's or their own, are named with the prefix
    that it is included under.
    """
    service, router = Service(shape), Router()  # type: ignore[no-untyped-call]
    router.use(middlewares=[service.protect()])

    @router.post("/refunds")
    def refund() -> dict[str, Any]:
        return {}

    @router.post("/captures", middlewares=[service.protect(effects="repeatable")])
    def capture() -> dict[str, Any]:
        return {}

    service.app.include_router(router, prefix="/payments")
    for path in ("/payments/refunds", "/payments/captures"):
        event = with_route(load(shape), "POST", path)
        assert [is_replay(service.send(event)) for _ in range(2)] == [False, True]

    assert service.operations == ["POST /payments/refunds", "POST /payments/captures"]
    assert [r.effects for r in service.store.records.values()] == ["unrecorded", "repeatable"]


def test_a_prefix_that_is_stripped_is_no_part_of_the_name() -> None:
    """What `strip_prefixes` takes away belongs to the gateway's mapping, not to the route."""
    service = Service(strip_prefixes=["/v1"])
    service.app.use(middlewares=[service.protect()])
    service.app.post("/payments")(dict)

    service.send(with_route(POST, "POST", "/v1/payments"))

    assert service.operations == ["POST /payments"]


def test_what_needs_no_key_passes() -> None:
    """Other methods, paths that match no route, and CORS preflights get what they got without the
    middleware, and leave no record.
    """
    protected, bare = Service(cors=CORSConfig()), Service(cors=CORSConfig())
    protected.app.use(middlewares=[protected.protect()])
    for service in (protected, bare):
        service.app.get("/payments")(lambda: {"all": []})
        service.app.put("/payments")(lambda: ({"put": b"x".hex()}, 201))
        service.app.post("/payments")(dict)

    for method, path in [
        ("GET", "/payments"),
        ("PUT", "/payments"),
        ("POST", "/elsewhere"),
        ("PATCH", "/payments"),
        ("OPTIONS", "/payments"),
    ]:
        for event in (with_route(POST, method, path), with_key(with_route(POST, method, path))):
            assert protected.send(event) == bare.send(event)
    assert protected.operations == []


def test_a_route_that_needs_no_key_still_knows_its_operation() -> None:
    """Below an unprotected route `current_operation` gives an operation of its own, as it does with
    ONCEKEY_DISABLED.
    """
    service = Service()
    seen: list[Operation] = []
    service.app.use(middlewares=[service.protect()])
    service.app.get("/payments")(lambda: seen.append(current_operation()))

    service.send(with_route(POST, "GET", "/payments"))

    assert [(op.name, op.protected) for op in seen] == [("GET /payments", False)]


def test_switched_off_routes_run_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED=1 a route runs for every request, without a key, and as it answers."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    service = Service()
    service.app.use(middlewares=[service.protect()])
    service.app.post("/payments")(lambda: ({"key": current_operation().downstream_key("x")}, 201))

    first, second = service.send(with_key(POST)), service.send(with_key(POST))

    assert first["statusCode"] == second["statusCode"] == 201
    assert first["body"] != second["body"]
    assert service.operations == []


def test_a_repeat_of_a_running_request_is_refused() -> None:
    """While a route runs, its repeat gets 409 `request-in-progress` with Retry-After."""
    service = Service()
    service.app.use(middlewares=[service.protect()])
    repeats: list[Answer] = []

    other = Service()
    other.store, other.clock = service.store, service.clock
    other.app.use(middlewares=[other.protect()])
    other.app.post("/payments")(lambda: other.runs.append("never"))

    @service.app.post("/payments")
    def create() -> dict[str, Any]:
        repeats.append(other.send(POST))
        return {}

    service.send(POST)

    assert problem_of(repeats[0]) == (409, "request-in-progress", True)
    assert "retry-after" in headers_of(repeats[0])
    assert other.runs == []


def test_keys_of_tenants_are_apart_and_a_caller_without_one_is_refused() -> None:
    """The tenant comes from the verified claims of Powertools' event."""
    service = Service()
    service.app.use(middlewares=[service.protect(tenant=jwt_claim("tenant_id"))])
    service.app.post("/payments")(lambda: service.runs.append(current_operation().tenant))

    service.send(with_tenant(POST, "a"))
    service.send(with_tenant(POST, "b"))

    assert service.runs == ["a", "b"]
    assert problem_of(service.send(with_tenant(POST, None)))[:2] == (403, "tenant-missing")


def test_the_lease_lasts_until_the_deadline_of_the_invocation() -> None:
    """The remaining time comes from the context that was given to `resolve`; without any left
    nothing runs.
    """
    service = Service()
    service.app.use(middlewares=[service.protect()])
    leases: list[int] = []
    service.app.post("/payments")(lambda: leases.append(service.record.lease_until_ms))

    refused = service.send(POST, timeout_ms=0)
    service.send(POST, timeout_ms=7_000)

    assert problem_of(refused)[:2] == (503, "not-executed")
    assert leases == [service.clock.now_ms() + 7_000 + LEASE_MARGIN_MS]


@pytest.mark.parametrize("is_coroutine", [True, False])
def test_coroutine_routes_are_protected_too(is_coroutine: bool) -> None:
    """`resolve_async` runs a route, `async def` or not, once for each key, and the operation is
    found below it.
    """
    service = Service()
    service.app.use(middlewares=[service.protect()])

    def create() -> dict[str, Any]:
        service.runs.append(current_operation().name)
        return {}

    async def create_async() -> dict[str, Any]:
        return create()

    own = [service.protect(effects="repeatable")]
    service.app.post("/payments", middlewares=own)(create_async if is_coroutine else create)  # type: ignore[arg-type]

    def send() -> Answer:
        answer: Answer = asyncio.run(service.app.resolve_async(POST, service.context()))  # type: ignore[arg-type]
        return answer

    assert [is_replay(send()), is_replay(send())] == [False, True]
    assert service.runs == ["POST /payments"]
    assert service.record.effects == "repeatable"


def test_the_example_of_the_module_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the documentation shows can be copied."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    example = (powertools.__doc__ or "").partition(":\n")[2]

    class Provider:
        @staticmethod
        def refund(payment_id: str, key: str) -> str:
            return f"{payment_id} {bool(key)}"

    namespace: dict[str, Any] = {"provider": Provider}
    exec("if True:\n" + example, namespace)  # noqa: S102 -- the documentation's own
    answer = namespace["lambda_handler"](with_route(POST, "POST", "/payments/1/refunds"), None)

    assert (answer["statusCode"], answer["body"]) == (201, '{"payment_id":"1","refund":"1 True"}')
