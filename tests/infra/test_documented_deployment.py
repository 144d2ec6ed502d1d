"""The Python of infra/README.md on deployments: it synthesises what the page says."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from infra.environments import RolloutPlan
from infra.oncekey_cdk import IdempotencyTable, IdempotentFunction, Observability
from tests.support.documents import rows, run_example, text_of
from tests.support.sample_constructs import let_be, new_stack, only

PAGE = "infra/README.md"


@pytest.fixture
def given() -> dict[str, Any]:
    """What a reader's app has before the example."""
    stack = new_stack()
    records = IdempotencyTable(stack, "Records")
    let_be(records, "Reconciler")
    return {
        "stack": stack,
        "records": records,
        "code": lambda_.Code.from_inline("def handler(event, context): ..."),
        "IdempotentFunction": IdempotentFunction,
        "Observability": Observability,
    }


def test_the_example_deploys_gradually(given: dict[str, Any]) -> None:
    """The example gives the function an alias, a group and its three alarms, and the handles that
    the page names are there.
    """
    payments = run_example("infra/README.md", "CANARY_10_PERCENT_5_MINUTES", **given)["payments"]
    template = Template.from_stack(given["stack"])

    group = only(template, "AWS::CodeDeploy::DeploymentGroup")
    assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
    assert len(group["AlarmConfiguration"]["Alarms"]) == 3
    assert payments.rollout.alias.alias_name == "live"
    payments.rollout.group.add_pre_hook(payments.function)
    payments.rollout.stop_on(*given["Observability"](given["stack"], "More").alarms.values())


def test_the_table_names_each_way() -> None:
    """Each value of `-c rollout=` has its row."""
    named = {row[0].split("`")[1] for row in rows(text_of(PAGE), "## Gradual deployment")}

    assert named == {*RolloutPlan}


def test_the_example_of_a_vpc_has_its_endpoints(given: dict[str, Any]) -> None:
    """In the example's VPC without a gateway to the internet, the function's subnets have routes to
    DynamoDB and S3, and an endpoint of SQS and of Secrets Manager in each zone, which take HTTPS
    from the whole VPC and answer under the services' own names.

    Red when a function in the VPC would wait for a service until its timeout.
    """
    run_example("infra/README.md", "add_gateway_endpoint(", **given)
    template = Template.from_stack(given["stack"])
    resources = template.to_json()["Resources"]
    endpoints = template.find_resources("AWS::EC2::VPCEndpoint").values()
    by_kind: dict[str, list[dict[str, Any]]] = {"Gateway": [], "Interface": []}
    for one in endpoints:
        by_kind[one["Properties"]["VpcEndpointType"]].append(one["Properties"])

    (function,) = (
        one["Properties"]
        for name, one in resources.items()
        if one["Type"] == "AWS::Lambda::Function" and name.startswith("Payments")
    )
    subnets = {one["Ref"] for one in function["VpcConfig"]["SubnetIds"]}
    tables = {
        one["Properties"]["RouteTableId"]["Ref"]
        for one in resources.values()
        if one["Type"] == "AWS::EC2::SubnetRouteTableAssociation"
        and one["Properties"]["SubnetId"]["Ref"] in subnets
    }
    assert len(subnets) == len(tables) == 2
    assert _services(by_kind["Gateway"]) == {"dynamodb", "s3"}
    for gateway in by_kind["Gateway"]:
        assert {one["Ref"] for one in gateway["RouteTableIds"]} == tables
    assert _services(by_kind["Interface"]) == {"sqs", "secretsmanager"}
    for interface in by_kind["Interface"]:
        assert interface["PrivateDnsEnabled"]
        assert {one["Ref"] for one in interface["SubnetIds"]} == subnets
        (group,) = (one["Fn::GetAtt"][0] for one in interface["SecurityGroupIds"])
        (rule,) = resources[group]["Properties"]["SecurityGroupIngress"]
        assert (rule["FromPort"], rule["ToPort"]) == (443, 443)
        assert "CidrBlock" in rule["CidrIp"]["Fn::GetAtt"]
    assert "AWS::EC2::NatGateway" not in {one["Type"] for one in resources.values()}


def _services(endpoints: list[dict[str, Any]]) -> set[str]:
    texts = [str(one["ServiceName"]) for one in endpoints]
    return {
        name
        for name in ("dynamodb", "s3", "sqs", "secretsmanager")
        if any(f".{name}" in text for text in texts)
    }
