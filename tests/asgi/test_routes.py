"""Routes of FastAPI and Starlette as operations: which are protected, by which options, and how."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from mangum import Mangum
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.responses import Response as StarletteResponse
from starlette.routing import Mount, Route

from oncekey import Operation, current_operation, jwt_claim
from oncekey.asgi import IdempotencyMiddleware, middleware
from oncekey.errors import ConfigurationError
from oncekey.settings import LEASE_MARGIN_MS
from oncekey.testing import assert_idempotent
from tests.support.asgi_apps import Service, event_loop
from tests.support.events import load, with_body, with_key, with_route, with_tenant
from tests.support.protected import SHAPES, Answer, headers_of, problem_of

if TYPE_CHECKING:
    from starlette.requests import Request

POST = load("apigw_http_v2_post")
Op = Annotated[Operation, Depends(current_operation)]
KEY = "8e03978e-40d5-43e8-bc93-6894a57f9324"


def is_replay(answer: Answer) -> bool:
    """Whether the answer says that it is one."""
    return "idempotent-replayed" in headers_of(answer)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_route_takes_effect_once_behind_every_gateway(shape: str) -> None:
    """The first request runs, and a repeat gets its answer; another request under the key, and one
    without a key, are refused.
    """
    service = Service()

    @service.app.post("/payments", status_code=201)
    def create() -> dict[str, Any]:
        service.runs.append(current_operation().operation_id)
        return {"run": len(service.runs)}

    event = load(shape)
    first, replay = service.send(event), service.send(event)

    assert (first["statusCode"], first["body"]) == (201, '{"run":1}')
    assert (replay["statusCode"], replay["body"]) == (201, '{"run":1}')
    assert (is_replay(first), is_replay(replay)) == (False, True)
    assert problem_of(service.send(with_body(event, '{"other": 1}'))) == (422, "key-reused", False)
    assert problem_of(service.send(with_key(event))) == (400, "key-missing", False)
    assert service.runs == [service.record.operation_id]


def test_the_operation_is_the_method_and_the_template() -> None:
    """The name has the prefixes of routers, routers in routers and mounts, and the parameters in
    braces without their converters; the parameters reach the route.
    """
    service, outer, inner = Service(), APIRouter(prefix="/v1"), APIRouter()
    mounted = FastAPI(openapi_url=None)

    def refund(payment_id: str, n: int) -> dict[str, Any]:
        service.runs.append((current_operation().name, payment_id, n))
        return {}

    for router in (service.app, inner, mounted):
        router.post("/payments/{payment_id}/refunds/{n:int}")(refund)
    outer.include_router(inner, prefix="/shops/{shop}")
    service.app.include_router(outer)
    service.app.mount("/apps/{name}", mounted)
    template = "/payments/{payment_id}/refunds/{n}"
    paths = ["", "/v1/shops/7", "/apps/a"]
    for path in paths:
        event = with_route(POST, "POST", f"{path}/payments/p-1/refunds/2")
        assert [is_replay(service.send(event)) for _ in range(2)] == [False, True]

    names = [f"POST {prefix}{template}" for prefix in ("", "/v1/shops/{shop}", "/apps/{name}")]
    assert service.operations == names
    assert service.runs == [(name, "p-1", 2) for name in names]


def test_starlette_is_protected_like_fastapi() -> None:
    """An app of Starlette's alone, with a mount of routes."""

    async def create(request: Request) -> StarletteResponse:
        service.runs.append(await request.json())
        return JSONResponse({"id": current_operation().operation_id}, 201)

    routes = [Mount("/v1", routes=[Route("/payments", create, methods=["POST"])])]
    service = Service(Starlette(routes=routes))
    event = with_body(with_route(POST, "POST", "/v1/payments"), '{"amount": 5}')
    answers = [service.send(event) for _ in range(2)]

    assert answers[0]["body"] == answers[1]["body"]
    assert (service.runs, service.operations) == ([{"amount": 5}], ["POST /v1/payments"])


def test_what_needs_no_key_passes() -> None:
    """Safe methods, routes that are left unprotected, and paths that match no route get what they
    got without the middleware, and leave no record.
    """
    options: dict[str, Any] = {"routes": {"POST /login": None}}
    protected, bare = Service(**options), FastAPI(openapi_url=None)
    for app in (protected.app, bare):
        app.get("/payments")(lambda: {"all": []})
        app.post("/payments")(lambda: {"made": 1})
        app.post("/login")(lambda: {"token": 1})
        app.put("/payments")(lambda: {"put": 1})
    unprotected = Service.__new__(Service)
    unprotected.app, unprotected.clock = bare, protected.clock

    for method, path in [
        ("GET", "/payments"),
        ("PUT", "/payments"),
        ("POST", "/login"),
        ("POST", "/elsewhere"),
        ("PATCH", "/payments"),
        ("POST", "/payments/"),
    ]:
        event = with_key(with_route(POST, method, path))
        assert protected.send(event) == unprotected.send(event)
    assert protected.operations == []


def test_a_route_may_have_options_of_its_own() -> None:
    """`routes` changes the options of one route, and the others keep the app's."""
    service = Service(routes={"POST /refunds": {"effects": "recorded"}}, effects="repeatable")

    @service.app.post("/refunds")
    def refund(op: Op) -> Any:
        return op.step("refund", lambda: service.runs.append("refund"))

    @service.app.post("/payments")
    async def pay(op: Op) -> bool:
        return op.records_effects

    answers = [service.send(with_route(POST, "POST", path)) for path in ("/refunds", "/payments")]

    assert [answer["body"] for answer in answers] == ["null", "false"]
    assert [r.effects for r in service.store.records.values()] == ["recorded", "repeatable"]


@pytest.mark.parametrize(
    ("shared", "own"),
    [
        ({"after_expiry": "gone", "gone_for": timedelta(days=7)}, {"after_expiry": "run"}),
        ({"in_progress": "wait", "wait_up_to": timedelta(seconds=1)}, {"in_progress": "conflict"}),
    ],
    ids=["gone_for", "wait_up_to"],
)
def test_a_route_may_leave_what_the_time_of_all_routes_is_for(
    shared: dict[str, Any], own: dict[str, Any]
) -> None:
    """That time then counts for the other routes alone, and is no fault; one of its own is."""
    made: Any = IdempotencyMiddleware

    made(FastAPI(), tenant=jwt_claim("t"), routes={"POST /refunds": own}, **shared)

    time = {name: value for name, value in shared.items() if isinstance(value, timedelta)}
    with pytest.raises(ConfigurationError, match="(gone_for|wait_up_to) needs"):
        made(FastAPI(), tenant=jwt_claim("t"), routes={"POST /refunds": own | time}, **shared)


def test_recorded_steps_resume_in_coroutine_routes() -> None:
    """An async route that fails after its first step runs again, and the step does not."""
    service = Service(effects="recorded")

    @service.app.post("/payments")
    async def pay(op: Op) -> Any:
        async def charge() -> str:
            service.runs.append("charge")
            return "ch_1"

        charge_id = await op.step_async("charge", charge)
        if op.attempt == 1:
            raise TimeoutError
        return charge_id

    assert service.send(POST)["statusCode"] == 500
    assert service.send(POST)["body"] == '"ch_1"'
    assert service.runs == ["charge"]


def test_keys_of_tenants_are_apart_and_a_caller_without_one_is_refused() -> None:
    """The tenant comes from the verified claims of Mangum's event."""
    service = Service(tenant=jwt_claim("tenant_id"))
    service.app.post("/payments")(lambda: service.runs.append(current_operation().tenant))

    service.send(with_tenant(POST, "a"))
    service.send(with_tenant(POST, "b"))

    assert service.runs == ["a", "b"]
    assert problem_of(service.send(with_tenant(POST, None)))[:2] == (403, "tenant-missing")


def test_the_tenant_may_come_from_a_middleware_that_verified_the_caller() -> None:
    """The request context has the scope, in which an authentication middleware put the user."""
    service = Service(tenant=lambda context: context["asgi"]["user"])

    class Authentication:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app({**scope, "user": "acme"}, receive, send)

    service.app.post("/payments")(lambda: current_operation().tenant)
    service.app.add_middleware(Authentication)

    assert service.send(POST)["body"] == '"acme"'


def test_the_lease_lasts_until_the_deadline_of_the_invocation() -> None:
    """The remaining time comes from Mangum's context; without any left nothing runs."""
    service = Service()
    leases: list[int] = []
    service.app.post("/payments")(lambda: leases.append(service.record.lease_until_ms))

    refused = service.send(POST, timeout_ms=0)
    service.send(POST, timeout_ms=7_000)

    assert problem_of(refused)[:2] == (503, "not-executed")
    assert leases == [service.clock.now_ms() + 7_000 + LEASE_MARGIN_MS]


def adapted(service: Service, tenant: str, timeout_ms: int = 7_000) -> dict[str, str]:
    """The headers that Lambda Web Adapter sends with a POST."""
    context = {"stage": "$default", "authorizer": {"jwt": {"claims": {"tenant_id": tenant}}}}
    return {
        "content-type": "application/json",
        "idempotency-key": KEY,
        "x-amzn-request-context": json.dumps(context),
        "x-amzn-lambda-context": json.dumps({"deadline": service.clock.now_ms() + timeout_ms}),
    }


def test_lambda_web_adapter_gives_tenant_and_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the adapter the body, the claims and the deadline arrive over HTTP, and a repeat gets
    the first answer.
    """
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "payments")
    service = Service(tenant=jwt_claim("tenant_id"), lambda_web_adapter=True)
    leases: list[int] = []

    @service.app.post("/payments")
    def create(body: dict[str, int]) -> dict[str, Any]:
        leases.append(service.record.lease_until_ms)
        return {"tenant": current_operation().tenant, **body}

    headers = adapted(service, "acme")
    answers = [service.call(headers, b'{"amount": 5}') for _ in range(2)]
    other = service.call(headers, b'{"amount": 6}')

    assert [answer["body"] for answer in answers] == ['{"tenant":"acme","amount":5}'] * 2
    assert [is_replay(answer) for answer in answers] == [False, True]
    assert problem_of(other)[:2] == (422, "key-reused")
    assert leases == [service.clock.now_ms() + 7_000 + LEASE_MARGIN_MS]


@pytest.mark.parametrize(("in_lambda", "is_named"), [(False, True), (True, False)])
def test_a_client_cannot_name_its_tenant(
    in_lambda: bool, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside Lambda, and behind another adapter, the headers are a client's to write, and are not
    read.
    """
    monkeypatch.delenv("AWS_LAMBDA_FUNCTION_NAME", raising=False)
    if in_lambda:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "payments")
    service = Service(tenant=jwt_claim("tenant_id"), lambda_web_adapter=is_named)
    service.app.post("/payments")(lambda: service.runs.append("never"))

    assert problem_of(service.call(adapted(service, "acme")))[:2] == (403, "tenant-missing")
    assert service.runs == []


def test_switched_off_routes_run_bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED=1 a route runs for every request, without a key."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    service = Service()
    service.app.post("/payments")(lambda: current_operation().downstream_key("x"))

    first, second = service.send(with_key(POST)), service.send(with_key(POST))

    assert first["statusCode"] == second["statusCode"] == 200
    assert first["body"] != second["body"]
    assert service.operations == []


def test_a_request_is_protected_once() -> None:
    """A mounted app with a middleware of its own is a part of the outer operation."""
    service, inner = Service(), Service()
    inner.app.post("/payments")(lambda: current_operation().name)
    service.app.mount("/v1", inner.app)

    service.send(with_route(POST, "POST", "/v1/payments"))

    assert (service.operations, inner.operations) == (["POST /v1/payments"], [])


def test_wrong_options_are_found_when_the_middleware_is_made() -> None:
    """All faults are named, also those of one route's own options."""
    made: Any = IdempotencyMiddleware
    with pytest.raises(ConfigurationError, match="tenant is missing"):
        made(FastAPI())
    with pytest.raises(ConfigurationError, match="mode='queued'"):
        made(FastAPI(), tenant=jwt_claim("t"), mode="queued")
    with pytest.raises(ConfigurationError, match="effects"):
        made(FastAPI(), tenant=jwt_claim("t"), routes={"POST /a": {"effects": "none"}})
    with pytest.raises(ConfigurationError, match="operation is no option"):
        made(FastAPI(), tenant=jwt_claim("t"), operation="POST /a")
    with pytest.raises(ConfigurationError, match="operation is no option"):
        made(FastAPI(), tenant=jwt_claim("t"), routes={"POST /a": {"operation": "POST /a"}})


@pytest.mark.parametrize(
    "routes", ["POST /a", ["POST /a"], {"POST /a": "recorded"}, {"POST /a": False}, {1: {}}]
)
def test_routes_of_another_form_are_told_what_to_write(routes: Any) -> None:
    """Python's own error would name none of them."""
    with pytest.raises(ConfigurationError, match="routes has the options of each route, or None"):
        IdempotencyMiddleware(FastAPI(), tenant=jwt_claim("t"), routes=routes)


@pytest.mark.parametrize("said", ["false", "0", None, 1])
def test_whether_there_is_an_adapter_is_true_or_false(said: Any) -> None:
    """A text such as "false" counts as true, and a client's own header would be believed."""
    with pytest.raises(ConfigurationError, match="lambda_web_adapter is"):
        IdempotencyMiddleware(FastAPI(), tenant=jwt_claim("t"), lambda_web_adapter=said)


def test_the_example_of_the_module_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the documentation shows can be copied."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    example = (middleware.__doc__ or "").partition(":\n")[2]

    class Provider:
        @staticmethod
        def refund(payment_id: str, key: str) -> str:
            return f"{payment_id} {bool(key)}"

    namespace: dict[str, Any] = {"provider": Provider}
    with event_loop():
        exec("if True:\n" + example, namespace)  # noqa: S102 -- the documentation's own
        answer = namespace["lambda_handler"](with_route(POST, "POST", "/payments/1/refunds"), None)

    assert (answer["statusCode"], answer["body"]) == (201, '{"refund":"1 True"}')


def test_a_route_keeps_every_promise_under_retries_races_and_crashes() -> None:
    """The test kit's check of handlers holds for an app behind Mangum: a killed attempt, five
    requests at once, another body and another tenant included.
    """
    service, charged = Service(tenant=jwt_claim("tenant_id"), effects="recorded"), dict[str, int]()

    @service.app.post("/payments")
    def pay(body: dict[str, Any], op: Op) -> Any:
        key = op.downstream_key("charge")
        return op.step("charge", lambda: charged.setdefault(key, body["amount"]), idempotent=True)

    with event_loop():
        handler = Mangum(service.app, lifespan="off")

    def send(event: Any, context: Any) -> Any:
        with event_loop():
            return handler(event, context)

    event = with_tenant(with_body(POST, '{"amount": 5}'), "acme")
    assert_idempotent(send, event, effects=lambda: charged)
