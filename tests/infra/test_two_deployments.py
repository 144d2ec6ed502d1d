"""Two deployments of the reference service side by side in one account and Region."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from infra.canary import CANARY_FUNCTION
from infra.oncekey_cdk.described.names import pascal
from infra.service import SERVICE
from tests.support.sample_templates import named

if TYPE_CHECKING:
    from tests.support.templates import Synthesised

# The names that CloudFormation takes as they stand, and that one account and Region has once.
PHYSICAL = (
    ("AWS::ApiGatewayV2::Api", "Name"),
    ("AWS::CloudWatch::Alarm", "AlarmName"),
    ("AWS::CloudWatch::Dashboard", "DashboardName"),
    ("AWS::CodeDeploy::Application", "ApplicationName"),
    ("AWS::CodeDeploy::DeploymentGroup", "DeploymentGroupName"),
    ("AWS::DynamoDB::Table", "TableName"),
    ("AWS::Events::Rule", "Name"),
    ("AWS::IAM::Role", "RoleName"),
    ("AWS::Lambda::Function", "FunctionName"),
    ("AWS::Lambda::LayerVersion", "LayerName"),
    ("AWS::Logs::LogGroup", "LogGroupName"),
    ("AWS::Logs::MetricFilter", "FilterName"),
    ("AWS::Logs::QueryDefinition", "Name"),
    ("AWS::S3::Bucket", "BucketName"),
    ("AWS::SNS::Topic", "TopicName"),
    ("AWS::SQS::Queue", "QueueName"),
)
# They have no name of their own, or one that another resource of the stack is asked for.
UNNAMED = {
    "AWS::ApiGatewayV2::Authorizer",
    "AWS::ApiGatewayV2::Integration",
    "AWS::ApiGatewayV2::Route",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CDK::Metadata",
    "AWS::IAM::Policy",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Permission",
    "AWS::Lambda::Version",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
}


def physical_names(app: Synthesised) -> set[tuple[str, str]]:
    """Each name that a template fixes, with the kind of its resource."""
    return {
        (kind, json.dumps(one[name]))
        for kind, name in PHYSICAL
        for one in app.properties(kind)
        if name in one
    }


def exports(app: Synthesised) -> set[str]:
    """The names that the stacks export, which are the account's."""
    return {
        output["Export"]["Name"]
        for template in (app.stateful, app.service)
        for output in template.to_json().get("Outputs", {}).values()
        if "Export" in output
    }


def own_metrics(app: Synthesised) -> set[str]:
    """Where the metrics of the layer and of the access log are, as alarms and filters name them."""
    alarms = app.properties("AWS::CloudWatch::Alarm")
    simple = [one for one in alarms if one.get("Namespace") == "oncekey"]
    computed = [
        each["MetricStat"]["Metric"]
        for one in alarms
        for each in one.get("Metrics", [])
        if each.get("MetricStat", {}).get("Metric", {}).get("Namespace") == "oncekey"
    ]
    filters = [
        each["MetricName"]
        for one in app.properties("AWS::Logs::MetricFilter")
        for each in one["MetricTransformations"]
    ]
    named_by_alarms = {
        json.dumps([one["MetricName"], one.get("Dimensions")]) for one in [*simple, *computed]
    }
    return named_by_alarms | {*filters}


def test_two_deployments_share_no_name(production: Synthesised, second: Synthesised) -> None:
    """Two deployments with two names have no physical name, export, query, metric or secret in
    common, and no parameter of Systems Manager at all.

    Red when one of the two would be refused, or set off the alarms of the other.
    """
    first, other = (physical_names(each) for each in (production, second))
    kinds = {
        one["Type"]
        for template in (second.stateful, second.service)
        for one in template.to_json()["Resources"].values()
    }

    # A new kind of resource belongs into one of the two lists.
    assert kinds <= {kind for kind, _ in PHYSICAL} | UNNAMED
    assert {kind for kind, _ in first} == {"AWS::ApiGatewayV2::Api", "AWS::Logs::QueryDefinition"}
    assert first & other == set()
    assert exports(production)
    assert exports(production) & exports(second) == set()
    assert own_metrics(production)
    assert own_metrics(production) & own_metrics(second) == set()
    for app in (production, second):
        assert app.resources("AWS::SSM::Parameter") == []
    for name in ("provider-api-key", "webhook-secret"):
        assert f"oncekey/subscriptions-production/{name}" in second.text()
    assert "payments-production" not in second.text()


def test_nothing_but_the_canary_tells_them_apart(
    production: Synthesised, second: Synthesised
) -> None:
    """The second deployment has the same resources, and those of its canary, which may read its own
    client's secret alone.
    """
    kinds = [
        sorted(one["Type"] for one in app.service.to_json()["Resources"].values())
        for app in (production, second)
    ]
    for kind in kinds[0]:
        kinds[1].remove(kind)
    canary = named(second.service, "AWS::Lambda::Function", "CanaryFunction")
    variables = canary["Environment"]["Variables"]
    policy = named(second.service, "AWS::IAM::Policy", "CanaryRoleDefaultPolicy")

    assert "AWS::Lambda::Function" in kinds[1]
    assert not [kind for kind in kinds[1] if kind.startswith(("AWS::DynamoDB", "AWS::ApiGateway"))]
    assert variables["CANARY_CLIENT_ARN"] == "oncekey/subscriptions-production/canary-client"
    assert variables["CANARY_CUSTOMER"] == "cus_canary"
    assert "HttpApi" in json.dumps(variables["CANARY_API_URL"])
    secrets: list[Any] = [
        one["Resource"]
        for one in policy["PolicyDocument"]["Statement"]
        if "secretsmanager" in json.dumps(one["Action"])
    ]
    assert len(secrets) == 1
    assert "canary-client-??????" in json.dumps(secrets)
    assert CANARY_FUNCTION.name not in {one.name for one in SERVICE.functions}
    rule = named(second.service, "AWS::Events::Rule", f"{pascal(CANARY_FUNCTION.name)}Schedule")
    assert rule["ScheduleExpression"] == "rate(60 minutes)"
