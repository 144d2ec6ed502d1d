"""Gradual deployment: what the alias stands in front of, and what moves it back."""

from __future__ import annotations

import json
import re
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template
from constructs import Construct

from infra.oncekey_cdk import (
    IdempotencyTable,
    IdempotentFunction,
    IdempotentRestApi,
    Observability,
    OncekeyLayer,
    Reconciler,
)
from infra.oncekey_cdk.described.names import pascal
from infra.oncekey_cdk.rollout import Rollout
from infra.service import SERVICE
from oncekey_operator.template_reading import Templates
from tests.support.sample_constructs import let_be, new_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.templates import Synthesised

CANARY = codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES
# CodeDeploy decides when this time is over.
CANARY_S = 300
ALIAS, GROUP = "AWS::Lambda::Alias", "AWS::CodeDeploy::DeploymentGroup"
# Where a template names the function that is called.
CALLED: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "AWS::ApiGatewayV2::Integration": lambda one: [one["IntegrationUri"]],
    "AWS::Events::Rule": lambda one: [target["Arn"] for target in one["Targets"]],
    "AWS::Lambda::EventSourceMapping": lambda one: [one["FunctionName"]],
    "AWS::Lambda::Permission": lambda one: [one["FunctionName"]],
}


def groups(template: dict[str, Any]) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Each function's deployment group and its alarms, by the function's logical id."""
    resources = template["Resources"]
    found = {}
    for one in resources.values():
        if one["Type"] == ALIAS:
            move = one["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
            group = resources[move["DeploymentGroupName"]["Ref"]]["Properties"]
            assert group["ApplicationName"] == move["ApplicationName"]
            alarms = group.get("AlarmConfiguration", {}).get("Alarms", [])
            found[one["Properties"]["FunctionName"]["Ref"]] = (
                group,
                [each["Name"]["Ref"] for each in alarms],
            )
    return found


def test_production_deploys_gradually_and_an_alarm_rolls_it_back(production: Synthesised) -> None:
    """Each function of stage production has an alias that CodeDeploy moves: a tenth of the traffic
    for five minutes. An alarm on the function, or on the API in front of it, moves it back, and can
    go off within these minutes.

    Red when a function is left out, no alarm watches it, or an alarm comes too late.
    """
    template = dict(production.service.to_json())
    found = groups(template)

    assert len(found) == len(SERVICE.functions)
    for described in SERVICE.functions:
        name = pascal(described.name)
        ((group, alarms),) = [each for key, each in found.items() if key[:-8] == f"{name}Function"]
        assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
        assert group["AlarmConfiguration"]["Enabled"]
        rollback = group["AutoRollbackConfiguration"]
        assert rollback["Enabled"]
        assert {*rollback["Events"]} == {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"}
        watching = {f"Alarms{name}{about}" for about in ("Errors", "Throttles", "Duration")}
        expected = watching | ({"AlarmsHttpApiFailures"} if described.routes else set())
        assert {alarm[:-8] for alarm in alarms} == expected
        for alarm in alarms:
            properties = template["Resources"][alarm]["Properties"]
            assert properties["Period"] * properties["EvaluationPeriods"] <= CANARY_S, alarm


def test_everything_calls_the_alias(production: Synthesised) -> None:
    """API, stream, queue and schedules of stage production call the alias, and may call nothing
    else. A call around it would get the new version at once.
    """
    template = dict(production.service.to_json())
    app = Templates({"service": template})

    called = [
        template["Resources"][next(iter(_named(reference)))]["Type"]
        for kind, references in CALLED.items()
        for one in app.of_kind(kind)
        for reference in references(one.properties)
    ]
    runs = production.properties("AWS::Lambda::EventInvokeConfig")

    assert len(called) > len(SERVICE.functions)
    assert {*called} == {ALIAS}
    assert {one["Qualifier"] for one in runs} == {"live"}
    for one in app.of_kind("AWS::Lambda::EventInvokeConfig"):
        waits_for = template["Resources"][one.name]["DependsOn"]
        assert any("Alias" in each for each in waits_for)


def test_the_templates_have_no_circle(production: Synthesised) -> None:
    """No resource of production waits for itself: alias for group, group for alarms and permission.

    Red when CloudFormation would refuse the template.
    """
    _refuse_circles(dict(production.service.to_json()))


def _refuse_circles(template: dict[str, Any]) -> None:
    """Raise `CycleError` as CloudFormation would; the CDK does not look at update policies."""
    resources = template["Resources"]
    graph = {name: {*_texts(one)} & {*resources} - {name} for name, one in resources.items()}
    TopologicalSorter(graph).prepare()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _named(reference: dict[str, Any]) -> list[str]:
    return [reference["Ref"]] if "Ref" in reference else [reference["Fn::GetAtt"][0]]


def test_dev_deploys_at_once(dev: Synthesised) -> None:
    """Stage dev has no alias and no CodeDeploy, so that a deployment takes seconds."""
    kinds = {one["Type"] for one in dev.service.to_json()["Resources"].values()}

    assert not kinds & {ALIAS, GROUP, "AWS::Lambda::Version"}


def test_roles_that_exist_already_deploy_gradually_too() -> None:
    """Where no role may be created (`Role.customize_roles`), the functions and CodeDeploy get those
    that a platform team made, and what those may do is not asked of the template.

    Red when a role without a resource fails the synthesis.
    """
    app = App(analytics_reporting=False)
    theirs = {
        f"Stack/{path}/Role": path.rpartition("/")[2]
        for path in ("Payments", "OncekeyRollouts", "Reconciler/Reconciler")
    }
    iam.Role.customize_roles(app, prevent_synthesis=True, use_precreated_roles=theirs)
    template = _built_in(Stack(app, "Stack"), CANARY)

    kinds = {one["Type"] for one in template["Resources"].values()}
    assert kinds >= {ALIAS, GROUP}
    assert not kinds & {"AWS::IAM::Role", "AWS::IAM::Policy"}
    assert len(groups(template)) == 2


def _function(scope: Construct, table: IdempotencyTable, **options: Any) -> IdempotentFunction:
    given = {"code": lambda_.Code.from_inline("def handler(event, context): ..."), **options}
    return IdempotentFunction(scope, "Payments", handler="index.handler", table=table, **given)


def _built(
    rollout: codedeploy.ILambdaDeploymentConfig, context: dict[str, Any] | None = None
) -> dict[str, Any]:
    return _built_in(new_stack(context), rollout)


def _built_in(stack: Stack, rollout: codedeploy.ILambdaDeploymentConfig) -> dict[str, Any]:
    records = IdempotencyTable(stack, "Records")
    function = _function(stack, records, rollout=rollout)
    api = IdempotentRestApi(stack, "Api")
    for method in ("GET", "POST"):
        api.add_route(function, method, "/payments")
    reconciler = Reconciler(stack, "Reconciler", table=records, rollout=rollout)
    Observability(
        stack, "Alarms", functions=[function, function], reconcilers=[reconciler], apis=[api]
    )
    return dict(Template.from_stack(stack).to_json())


def test_functions_that_are_built_by_hand_deploy_gradually_too() -> None:
    """`rollout=` of a function and of a reconciler gives each an alias and a group, one application
    and one role for the stack, and each alarm once. A REST API calls the alias.
    """
    template = _built(CANARY)

    stopping = {
        name[:-8]: sorted(alarm[:-8] for alarm in alarms)
        for name, (_, alarms) in groups(template).items()
    }
    kinds = [one["Type"] for one in template["Resources"].values()]
    assert stopping == {
        "PaymentsFunction": [
            "AlarmsApiFailures",
            "AlarmsPaymentsDuration",
            "AlarmsPaymentsErrors",
            "AlarmsPaymentsThrottles",
        ],
        "ReconcilerFunction": [
            "AlarmsReconcilerDuration",
            "AlarmsReconcilerErrors",
            "AlarmsReconcilerThrottles",
        ],
    }
    assert kinds.count("AWS::CodeDeploy::Application") == 1
    app = Templates({"stack": template})
    for method in app.of_kind("AWS::ApiGateway::Method"):
        assert "PaymentsRolloutAlias" in str(method.properties["Integration"]["Uri"])


def test_a_function_may_call_the_alias_of_another() -> None:
    """A function that is told another's alias is deployed after it, and no circle comes of it.

    Red when the permission to move one alias waits for every function of the stack.
    """
    stack = new_stack()
    records = IdempotencyTable(stack, "Records")
    let_be(records, "Reconciler")
    payments = _function(stack, records, rollout=CANARY)
    other = IdempotentFunction(
        stack,
        "Other",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        table=records,
        environment={"PAYMENTS": payments.called.function_arn},
        rollout=CANARY,
    )
    payments.called.grant_invoke(other)

    template = dict(Template.from_stack(stack).to_json())
    assert len(groups(template)) == 2
    _refuse_circles(template)


def _of_roles(template: dict[str, Any]) -> dict[str, int]:
    """The characters in the policies of each role of CodeDeploy, with the longest names of
    functions.
    """
    sizes: dict[str, int] = {}
    for one in template["Resources"].values():
        if one["Type"] == "AWS::IAM::Policy":
            document = json.dumps(one["Properties"]["PolicyDocument"], separators=(",", ":"))
            arn = f"arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:{'n' * 64}"
            whole = re.sub(r'\{"Fn::GetAtt":\["[^"]+","Arn"\]\}', f'"{arn}"', document)
            whole = re.sub(r'\{"Fn::Join":\["",\["[^"]+",":live"\]\]\}', f'"{arn}:live"', whole)
            assert "Fn::" not in whole
            for role in one["Properties"]["Roles"]:
                sizes[role["Ref"]] = sizes.get(role["Ref"], 0) + len(whole)
    return {role: size for role, size in sizes.items() if "Rollouts" in role}


def test_many_functions_deploy_gradually() -> None:
    """IAM takes 10,240 characters of inline policies for a role, and refuses more in the middle of
    a deployment.

    Red when one role moves the aliases of all functions of a stack.
    """
    stack = new_stack()
    for number in range(70):
        function = lambda_.Function(
            stack,
            f"Function{number}",
            code=lambda_.Code.from_inline("def handler(event, context): ..."),
            handler="index.handler",
            runtime=lambda_.Runtime.PYTHON_3_13,
        )
        Rollout.of(Construct(stack, f"Of{number}"), function, [], CANARY)

    template = dict(Template.from_stack(stack).to_json())

    sizes = _of_roles(template)
    assert 1 < len(sizes) <= 7
    assert max(sizes.values()) <= 10_240, sizes
    kinds = [one["Type"] for one in template["Resources"].values()]
    assert kinds.count("AWS::CodeDeploy::Application") == 1
    assert {group["ServiceRoleArn"]["Fn::GetAtt"][0] for group, _ in groups(template).values()} == {
        *sizes
    }
    _refuse_circles(template)


def test_all_at_once_asks_no_alarm() -> None:
    """`ALL_AT_ONCE` keeps the alias and the group, and deploys a correction while an alarm is on.

    Red when the alarm that a correction is for keeps it out.
    """
    found = groups(_built(codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE))

    assert {len(alarms) > 0 for _, alarms in found.values()} == {True}
    assert {group["AlarmConfiguration"]["Enabled"] for group, _ in found.values()} == {False}


def test_an_unwatched_deployment_has_no_alarm_to_ask() -> None:
    """With `-c oncekey:watched=false` no group names an alarm that is left out."""
    found = groups(_built(CANARY, {"oncekey:watched": "false"}))

    assert [alarms for _, alarms in found.values()] == [[], []]


@pytest.mark.parametrize("flagged", [True, False])
def test_new_code_and_a_new_layer_make_a_new_version(tmp_path: Path, *, flagged: bool) -> None:
    """Other code or another layer is another version, so that no release passes by the canary.

    Red when an app lacks the CDK's flag `recognizeLayerVersion` and a new library is not a new
    version: the alias then stays at a version with the old one.
    """
    versions = set()
    for code, layer in (("1", "1"), ("1", "1"), ("2", "1"), ("2", "2")):
        stack = new_stack({"@aws-cdk/aws-lambda:recognizeLayerVersion": flagged})
        records = IdempotencyTable(stack, "Records")
        let_be(records, "Reconciler")
        folder = tmp_path / layer
        folder.mkdir(exist_ok=True)
        (folder / "module.py").write_text(layer)
        library = OncekeyLayer(stack, "Layer", code=lambda_.Code.from_asset(str(folder)))
        _function(
            stack,
            records,
            code=lambda_.Code.from_inline(f"handler = {code}"),
            layers=[library],
            rollout=CANARY,
        )
        versions |= {*Template.from_stack(stack).find_resources("AWS::Lambda::Version")}

    assert len(versions) == 3
