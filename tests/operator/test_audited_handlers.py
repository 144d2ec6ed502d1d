"""`oncekey audit`: how the handlers of a service are looked at, and what protects them."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from oncekey_operator.coverage.handlers import Looked
from oncekey_operator.coverage.inspecting import _Search
from oncekey_operator.coverage.judging import judge
from oncekey_operator.coverage.triggers import Function, Trigger
from tests.support.asgi_apps import event_loop

if TYPE_CHECKING:
    from pathlib import Path


def looked_at(code: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looked:
    """What is found in `handler` of a module, which is imported here."""
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        # Mangum makes a loop where there is none, and nobody would close it.
        with event_loop():
            module = __import__(name)
        return Looked(**_Search(str(tmp_path)).of(module.handler))
    finally:
        sys.modules.pop(name, None)


def judged(looked: Looked, *names: str) -> dict[str, str]:
    """The verdicts about these triggers of one function; those with a path are routes."""
    function = Function(name="one", handler="app.handler")
    triggers = [Trigger(name=name, function=function, is_route=" /" in name) for name in names]
    return {each.trigger: each.verdict for each in judge(triggers, {"one": looked}, {})}


POWERTOOLS = """
    from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
    from oncekey import natural, single_tenant
    from oncekey.powertools import idempotent_route

    app = APIGatewayHttpResolver()
    once = idempotent_route(tenant=single_tenant())

    @app.post("/payments", middlewares=[once])
    def pay(): ...

    @app.put("/payments/<payment_id>", middlewares=[once])
    def change(payment_id): ...

    @app.post("/search")
    @natural("it only reads")
    def search(): ...

    @app.get("/payments")
    def show(): ...

    def handler(event, context):
        return app.resolve(event, context)
"""
FASTAPI = """
    from fastapi import FastAPI
    from mangum import Mangum
    from oncekey import single_tenant
    from oncekey.asgi import IdempotencyMiddleware

    app = FastAPI()
    app.add_middleware(
        IdempotencyMiddleware, tenant=single_tenant(), routes={"POST /open/{rest:path}": None}
    )

    @app.post("/payments")
    def pay(): ...

    @app.post("/open/{rest:path}")
    def unprotected(): ...

    handler = Mangum(app, lifespan="off")
"""


@pytest.mark.parametrize(
    ("code", "verdicts"),
    [
        (
            POWERTOOLS,
            {
                "ANY /{proxy+}: POST /payments": "idempotent",
                "ANY /{proxy+}: PUT /payments/{payment_id}": "gap",
                "ANY /{proxy+}: POST /search": "natural",
            },
        ),
        (
            FASTAPI,
            {
                "ANY /{proxy+}: POST /payments": "idempotent",
                "ANY /{proxy+}: POST /open/{rest}": "gap",
            },
        ),
    ],
    ids=["powertools", "fastapi"],
)
def test_each_route_of_a_framework_has_a_verdict(
    code: str, verdicts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a route for all paths, the app's own routes count. A method without a key is a gap."""
    looked = looked_at(code, "an_app", tmp_path, monkeypatch)

    assert judged(looked, "ANY /{proxy+}") == verdicts


WORKER = """
    from oncekey import idempotent_function, natural, single_tenant
    from oncekey.outbox import Topics, Worker

    @idempotent_function(operation="placed", key=lambda m, c: m.id, tenant=single_tenant())
    def ship(message, context): ...

    @natural("sends a message that the customer may get twice")
    def tell(message, context): ...

    def bill(message, context): ...

    handler = Worker(Topics({"placed": ship, "told": tell, "billed": bill}))
"""
BATCH = """
    from oncekey import idempotent_function, single_tenant

    @idempotent_function(operation="ship", key="id", tenant=single_tenant())
    def ship(record): ...

    def on_record(record):
        return ship(record)

    def handler(event, context):
        return [on_record(each) for each in event["Records"]]
"""
UNUSED = BATCH.replace("on_record(each)", "each")
RELAY = """
    from oncekey.outbox import OutboxRelay

    handler = OutboxRelay()
"""


@pytest.mark.requirement("E12")
@pytest.mark.parametrize(
    ("code", "verdicts"),
    [
        (
            WORKER,
            {
                "queue Work: placed": "idempotent",
                "queue Work: told": "natural",
                "queue Work: billed": "gap",
            },
        ),
        (BATCH, {"queue Work": "idempotent"}),
        (UNUSED, {"queue Work": "gap"}),
        (RELAY, {"queue Work": "layer"}),
    ],
    ids=["topics", "batch", "unused", "relay"],
)
def test_the_handlers_of_events_are_followed_to_what_protects_them(
    code: str, verdicts: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a queue is protected, or declared natural with a reason, or a gap; a protected
    function that the handler's code does not name protects nothing.

    Red when the function of a queue is believed without either.
    """
    looked = looked_at(code, "a_worker", tmp_path, monkeypatch)

    assert judged(looked, "queue Work") == verdicts


def test_a_method_that_runs_without_a_key_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`@idempotent` lets a PUT of its own name pass without a key, unless methods= has it."""
    code = """
        from oncekey import idempotent, single_tenant

        @idempotent(operation="PUT /address", tenant=single_tenant(){})
        def handler(event, context): ...
    """
    loose = looked_at(code.format(""), "loose_put", tmp_path, monkeypatch)
    keyed = looked_at(code.format(', methods=("PUT",)'), "keyed_put", tmp_path, monkeypatch)

    assert judged(loose, "PUT /address") == {"PUT /address": "gap"}
    assert judged(keyed, "PUT /address") == {"PUT /address": "idempotent"}


def test_the_only_route_of_a_handler_may_have_an_operation_of_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a second route, nobody can tell which one the operation is for."""
    code = """
        from oncekey import idempotent, single_tenant

        @idempotent(operation="create payment", tenant=single_tenant())
        def pay(event, context): ...

        def handler(event, context):
            return pay(event, context)
    """
    looked = looked_at(code, "another_name", tmp_path, monkeypatch)

    assert judged(looked, "POST /a", "GET /a") == {"POST /a": "idempotent"}
    assert judged(looked, "POST /a", "POST /b") == {"POST /a": "gap", "POST /b": "gap"}
