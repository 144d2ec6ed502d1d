"""`oncekey audit`: what is safe to repeat, what is not, and how the handlers are looked at."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, natural
from oncekey_local.cli import main
from oncekey_operator.coverage.handlers import Looked
from oncekey_operator.coverage.inspecting import _Search
from oncekey_operator.coverage.judging import judge
from oncekey_operator.coverage.triggers import Function, Trigger, triggers_in
from oncekey_operator.template_reading import Templates

if TYPE_CHECKING:
    from collections.abc import Callable

HANDLERS = """
    from oncekey import idempotent, natural, single_tenant

    TENANT = single_tenant()

    def handler(event, context):
        return ROUTES[event["routeKey"]](event, context)

    @idempotent(operation="POST /payments", tenant=TENANT)
    def pay(event, context):
        return {"statusCode": 201}

    @natural("sets what is sent", operation="PUT /address")
    def set_address(event, context):
        return {"statusCode": 204}

    def refund(event, context):
        return {"statusCode": 201}

    ROUTES = {"POST /payments": pay, "PUT /address": set_address, "POST /refunds": refund}
"""


def template(*routes: str, events: dict[str, Any] | None = None) -> dict[str, Any]:
    """A template of one function, with these routes and further resources."""
    resources: dict[str, Any] = {
        "Pay01234567": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "app.handler",
                "Runtime": "python3.13",
                "Code": {"S3Bucket": {"Ref": "Bucket"}, "S3Key": "abc.zip"},
                "Environment": {"Variables": {"TABLE": {"Ref": "Elsewhere"}, "STAGE": "dev"}},
            },
        },
        "Integration": {
            "Type": "AWS::ApiGatewayV2::Integration",
            "Properties": {"IntegrationUri": {"Fn::GetAtt": ["Pay01234567", "Arn"]}},
        },
    }
    for number, key in enumerate(routes):
        target = {"Fn::Join": ["", ["integrations/", {"Ref": "Integration"}]]}
        resources[f"Route{number}"] = {
            "Type": "AWS::ApiGatewayV2::Route",
            "Properties": {"RouteKey": key, "Target": target},
        }
    return {"Resources": {**resources, **(events or {})}}


@pytest.fixture
def synthesised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes what `cdk synth` would have written for a handler's module, and goes there."""

    def write(code: str, *routes: str) -> Path:
        (tmp_path / "asset.abc").mkdir(exist_ok=True)
        (tmp_path / "asset.abc" / "app.py").write_text(textwrap.dedent(code))
        (tmp_path / "pay.template.json").write_text(json.dumps(template(*routes)))
        files = {"abc": {"source": {"path": "asset.abc", "packaging": "zip"}}}
        (tmp_path / "pay.assets.json").write_text(json.dumps({"files": files}))
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return write


def test_a_service_with_one_unprotected_route_fails(
    synthesised: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name and what to do are printed, the exit status is 1, and nothing is left behind."""
    folder = synthesised(HANDLERS, "POST /payments", "PUT /address", "POST /refunds", "GET /x")
    before = sorted(folder.rglob("*"))

    status = main(["audit", str(folder), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert status == 1
    assert found["gaps"] == 1
    verdicts = {each["trigger"]: each["verdict"] for each in found["triggers"]}
    assert verdicts == {
        "POST /payments": "idempotent",
        "PUT /address": "natural",
        "POST /refunds": "gap",
    }
    assert sorted(folder.rglob("*")) == before


def test_the_reference_service_has_no_gap(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of its routes, topics, streams and schedules is protected, or declared with a reason."""
    monkeypatch.chdir(Path(__file__).parents[2])

    assert main(["audit", "--service", "infra.service:SERVICE"]) == 0
    assert "All 10 are safe to repeat." in capsys.readouterr().out


def test_the_import_gets_no_credentials_of_ours_and_the_functions_variables(
    synthesised: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The module sees its own variables, stand-ins for unknown ones, and none of this process."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ours")
    monkeypatch.setenv("OUR_SECRET", "ours")
    code = """
        import os
        seen = dict(os.environ)
        raise RuntimeError(f"{seen['STAGE']} {'TABLE' in seen} {'ours' in seen.values()}")
    """
    folder = synthesised(code, "POST /payments")

    assert main(["audit", str(folder)]) == 1
    assert "RuntimeError: dev True False" in capsys.readouterr().out


def test_a_handler_that_cannot_be_imported_is_a_gap_that_says_why(
    synthesised: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that ends while it imports is an answer, too."""
    folder = synthesised("import os\nos._exit(3)", "POST /payments")

    assert main(["audit", str(folder)]) == 1
    assert "cannot be looked at: its process ended" in capsys.readouterr().out


def test_a_reason_in_pyproject_stands_for_what_no_code_can_declare(
    synthesised: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """It closes the gap of its trigger. A line about no trigger is a gap of its own."""
    folder = synthesised("def handler(event, context): ...", "POST /search")
    project = folder / "pyproject.toml"

    project.write_text('[tool.oncekey.natural]\n"POST /search" = "it only reads"\n')
    assert main(["audit", str(folder)]) == 0
    project.write_text('[tool.oncekey.natural]\n"POST /serach" = "it only reads"\n')
    assert main(["audit", str(folder)]) == 1
    assert "there is no such trigger" in capsys.readouterr().out


def test_without_templates_and_description_it_says_what_to_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit status is that of a wrong command line."""
    monkeypatch.chdir(tmp_path)

    assert main(["audit"]) == 2
    assert "--service MODULE:NAME" in capsys.readouterr().err


def every_kind() -> dict[str, Any]:
    """One trigger of each kind, in the words of CloudFormation."""
    ref, arn = {"Ref": "Pay01234567"}, {"Fn::GetAtt": ["Pay01234567", "Arn"]}
    path = ["", ["arn:aws:apigateway:lambda:path/functions/", arn, "/invocations"]]
    return {
        "Root": {"Type": "AWS::ApiGateway::Resource", "Properties": {"PathPart": "orders"}},
        "Method": {
            "Type": "AWS::ApiGateway::Method",
            "Properties": {
                "HttpMethod": "POST",
                "ResourceId": {"Ref": "Root"},
                "Integration": {"Uri": {"Fn::Join": path}},
            },
        },
        "Url": {"Type": "AWS::Lambda::Url", "Properties": {"TargetFunctionArn": arn}},
        "Group": {
            "Type": "AWS::ElasticLoadBalancingV2::TargetGroup",
            "Properties": {"Targets": [{"Id": arn}]},
        },
        "Work": {"Type": "AWS::SQS::Queue"},
        "Rows": {"Type": "AWS::DynamoDB::Table"},
        "FromQueue": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "FunctionName": ref,
                "EventSourceArn": {"Fn::GetAtt": ["Work", "Arn"]},
            },
        },
        "FromStream": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "FunctionName": ref,
                "EventSourceArn": {"Fn::GetAtt": ["Rows", "StreamArn"]},
            },
        },
        "Daily": {
            "Type": "AWS::Events::Rule",
            "Properties": {"ScheduleExpression": "rate(1 day)", "Targets": [{"Arn": arn}]},
        },
        "Placed": {
            "Type": "AWS::Events::Rule",
            "Properties": {"EventPattern": {}, "Targets": [{"Arn": arn}]},
        },
        "Hourly": {"Type": "AWS::Scheduler::Schedule", "Properties": {"Target": {"Arn": arn}}},
        "News": {
            "Type": "AWS::SNS::Subscription",
            "Properties": {"Protocol": "lambda", "Endpoint": arn},
        },
        "Files": {
            "Type": "AWS::S3::Bucket",
            "Properties": {
                "NotificationConfiguration": {"LambdaConfigurations": [{"Function": arn}]}
            },
        },
    }


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_a_declaration_without_a_reason_is_refused(reason: Any) -> None:
    """The error says how to write one."""
    with pytest.raises(ConfigurationError, match="say why a repeat changes nothing"):
        natural(reason)


def test_each_kind_of_trigger_in_a_template_is_found() -> None:
    """Routes of both APIs, URLs, load balancers, queues, streams, schedules and events."""
    app = Templates({"one": template("DELETE /payments/{id}", "$default", events=every_kind())})

    assert [each.name for each in triggers_in(app)] == [
        "ANY /{proxy+}",
        "ANY /{proxy+} (URL)",
        "ANY /{proxy+} (load balancer Group)",
        "DELETE /payments/{id}",
        "POST /orders",
        "events of Files",
        "events of Placed",
        "queue Work",
        "schedule Daily",
        "schedule Hourly",
        "stream of Rows",
        "topic News",
    ]


def looked_at(code: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looked:
    """What is found in `handler` of a module, which is imported here."""
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(code))
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
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
    """A protected function that the handler's code does not name protects nothing."""
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
