"""`oncekey audit`: what it says of a service, and which triggers it finds."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, natural
from oncekey_local.cli import main
from oncekey_operator.coverage.triggers import triggers_in
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


@pytest.mark.requirement("C10")
def test_a_service_with_one_unprotected_route_fails(
    synthesised: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name and what to do are printed, the exit status is 1, and nothing is left behind.

    Red when a route that changes something and has no key is passed over.
    """
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


def _manifest(folder: Path, stack: str, stage: str | None = None) -> None:
    """Writes what names the files of the last synthesis in a folder."""
    properties = {
        "aws:cloudformation:stack": {"templateFile": f"{stack}.template.json"},
        "cdk:asset-manifest": {"file": f"{stack}.assets.json"},
        "cdk:tree": {"file": "tree.json"},
        **({"cdk:cloud-assembly": {"directoryName": stage}} if stage else {}),
    }
    artifacts = {kind: {"type": kind, "properties": each} for kind, each in properties.items()}
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))


def _project(synthesised: Callable[..., Path], changed: str) -> Path:
    """A project whose `cdk.out` was written before the file `changed`."""
    root = synthesised(HANDLERS, "POST /payments")
    out = root / "cdk.out"
    out.mkdir()
    for each in [path for path in root.iterdir() if path != out]:
        each.rename(out / each.name)
    _manifest(out, "pay")
    os.utime(out / "manifest.json", (1_000_000_000, 1_000_000_000))
    (root / changed).parent.mkdir(parents=True, exist_ok=True)
    (root / changed).write_text("")
    return root


def test_a_synthesis_that_is_older_than_the_code_is_not_taken_for_it(
    synthesised: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A route or a handler that was changed since is not in it, so nothing is called safe by it.

    Red when `oncekey audit` says that all is safe, of the code before the change.
    """
    _project(synthesised, "orders/place.py")

    assert main(["audit"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "cdk.out is older than orders/place.py" in told.err
    assert main(["audit", "cdk.out"]) == 0


@pytest.mark.parametrize("changed", ["tests/test_place.py", ".venv/a.py", "cdk.out/b.py", "c.md"])
def test_what_no_function_runs_makes_no_synthesis_old(
    synthesised: Callable[..., Path], changed: str
) -> None:
    """A changed test, or a file of the environment, needs no new synthesis."""
    _project(synthesised, changed)

    assert main(["audit"]) == 0


def test_the_templates_of_an_earlier_synthesis_are_passed_over(
    synthesised: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The CDK leaves them in its folder. Its manifest names those of the last one: of stacks, of
    stages, and of nested stacks, which are assets.

    Red when a route is a gap that the app does not have any more, under a stack's former name.
    """
    folder = synthesised(HANDLERS, "POST /payments")
    stage = folder / "assembly-Prod"
    stage.mkdir()
    _manifest(folder, "pay", stage.name)
    _manifest(stage, "shop")
    (folder / "former.template.json").write_text(json.dumps(template("POST /refunds")))
    (stage / "shop.template.json").write_text(json.dumps({"Resources": {}}))
    (stage / "nested.template.json").write_text(json.dumps(template("PUT /address")))
    files = {
        "nested": {"source": {"path": "nested.template.json", "packaging": "file"}},
        "abc": {"source": {"path": "../asset.abc", "packaging": "zip"}},
    }
    (stage / "shop.assets.json").write_text(json.dumps({"files": files}))

    assert main(["audit", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["triggers"]
    assert {each["trigger"] for each in found} == {"POST /payments", "PUT /address"}


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


def invoked_by_others() -> dict[str, Any]:
    """What calls a function under a role of its own, or by a permission of the function alone."""
    ref, arn = {"Ref": "Pay01234567"}, {"Fn::GetAtt": ["Pay01234567", "Arn"]}
    return {
        "Pipe": {"Type": "AWS::Pipes::Pipe", "Properties": {"Target": arn}},
        "Between": {"Type": "AWS::Pipes::Pipe", "Properties": {"Enrichment": arn}},
        "Refunding": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {"DefinitionString": {"Fn::Join": ["", ['{"Resource": "', arn, '"}']]}},
        },
        "Graph": {
            "Type": "AWS::AppSync::DataSource",
            "Properties": {"LambdaConfig": {"LambdaFunctionArn": arn}},
        },
        "SignedUp": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {"FunctionName": ref, "Principal": "cognito-idp.amazonaws.com"},
        },
        # Its rule is above, and another account is no trigger.
        "OfTheRule": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {"FunctionName": ref, "Principal": "events.amazonaws.com"},
        },
        "OfAnAccount": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {"FunctionName": ref, "Principal": "123456789012"},
        },
    }


@pytest.mark.parametrize("reason", ["", "  ", None])
def test_a_declaration_without_a_reason_is_refused(reason: Any) -> None:
    """The error says how to write one."""
    with pytest.raises(ConfigurationError, match="say why a repeat changes nothing"):
        natural(reason)


def test_each_kind_of_trigger_in_a_template_is_found() -> None:
    """Routes of both APIs, URLs, load balancers, queues, streams, schedules, events, pipes, state
    machines and GraphQL, and each other service of AWS that may invoke the function.

    Red when a service with a gap passes, because nobody saw what calls it.
    """
    app = Templates(
        {
            "one": template(
                "DELETE /payments/{id}", "$default", events=every_kind() | invoked_by_others()
            )
        }
    )

    assert [each.name for each in triggers_in(app)] == [
        "ANY /{proxy+}",
        "ANY /{proxy+} (URL)",
        "ANY /{proxy+} (load balancer Group)",
        "DELETE /payments/{id}",
        "POST /orders",
        "calls of cognito-idp.amazonaws.com",
        "data source Graph",
        "events of Files",
        "events of Placed",
        "pipe Between",
        "pipe Pipe",
        "queue Work",
        "schedule Daily",
        "schedule Hourly",
        "state machine Refunding",
        "stream of Rows",
        "topic News",
    ]


def test_functions_of_two_stacks_with_one_id_are_both_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CDK gives the functions of equal constructs in two stacks the same logical id. Each
    route is judged by the code of its own function.

    Red when one of the two stands for both, and its protection hides the gap of the other.
    """
    codes = {
        "pay": ("POST /payments", "@idempotent(operation='POST /payments', tenant=TENANT)\n"),
        "refund": ("POST /refunds", ""),
    }
    for name, (route, decorator) in codes.items():
        code = "from oncekey import idempotent, single_tenant\nTENANT = single_tenant()\n"
        code += f"{decorator}def handler(event, context): ...\n"
        (tmp_path / f"asset.{name}").mkdir()
        (tmp_path / f"asset.{name}" / "app.py").write_text(code)
        written = template(route)
        written["Resources"]["Pay01234567"]["Properties"]["Code"]["S3Key"] = f"{name}.zip"
        (tmp_path / f"{name}.template.json").write_text(json.dumps(written))
        files = {name: {"source": {"path": f"asset.{name}", "packaging": "zip"}}}
        (tmp_path / f"{name}.assets.json").write_text(json.dumps({"files": files}))

    assert main(["audit", str(tmp_path), "--json"]) == 1

    found = {one["trigger"]: one for one in json.loads(capsys.readouterr().out)["triggers"]}
    assert {name: one["verdict"] for name, one in found.items()} == {
        "POST /payments": "idempotent",
        "POST /refunds": "gap",
    }
    assert found["POST /refunds"]["function"] == "refund/Pay"


INVOKED = "arn:aws:apigateway:${AWS::Region}:lambda:path/functions/%s/invocations"


@pytest.mark.parametrize(
    "uri",
    [
        INVOKED % "${Pay01234567.Arn}",
        [INVOKED % "${Target}", {"Target": {"Fn::GetAtt": ["Pay01234567", "Arn"]}}],
    ],
)
def test_a_function_within_a_text_is_found(uri: Any) -> None:
    """Templates written by hand, and included by the CDK, put names into a text by `Fn::Sub`.

    Red when their routes are left out, and a service with a gap passes.
    """
    written = template("POST /payments")["Resources"]
    written["Route0"]["Properties"]["Target"] = {"Fn::Sub": "integrations/${Integration}"}
    written["Integration"]["Properties"]["IntegrationUri"] = {"Fn::Sub": uri}

    app = Templates({"pay.template.json": {"Resources": written}})

    assert [each.name for each in triggers_in(app)] == ["POST /payments"]
