"""Constructs in more than one stack, and beside constructs of the CDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, CfnParameter, Duration, Environment, Stack, Stage
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_ssm as ssm
from aws_cdk.assertions import Template

from infra.oncekey_cdk import (
    IdempotencyTable,
    IdempotentFunction,
    IdempotentHttpApi,
    IdempotentRestApi,
    Observability,
    Outbox,
    Reconciler,
)
from oncekey_local.description.functions import METHODS
from tests.support.sample_constructs import grants, let_be, new_stack
from tests.support.sample_templates import named


def function(scope: Stack, name: str, **props: Any) -> IdempotentFunction:
    """A function of which nothing more is asked."""
    code = lambda_.Code.from_inline("def handler(event, context): ...")
    return IdempotentFunction(scope, name, code=code, handler="index.handler", **props)


def unprotected(scope: Stack, name: str, **props: Any) -> IdempotentFunction:
    """A function whose table is not asked for."""
    created = function(scope, name, **props)
    let_be(created, "FunctionTable")
    return created


@pytest.fixture(scope="module")
def app() -> App:
    """Data in one stack, under a customer's key; functions and the relay in another."""
    app = App(analytics_reporting=False)
    data, code = Stack(app, "Data"), Stack(app, "Code")
    key = kms.Key(data, "Key")
    records = IdempotencyTable(data, "Records", encryption_key=key)
    outbox = Outbox(data, "Outbox", encryption_key=key, relay_scope=code)
    handler = function(code, "Payments", table=records, outbox=outbox)
    outbox.add_worker(function(code, "Worker", table=records))
    ssm.StringParameter(code, "Limit", string_value="7").grant_read(handler)
    unprotected(code, "Inside", function_props={"vpc": ec2.Vpc(code, "Vpc", nat_gateways=0)})
    let_be(records, "Reconciler")
    return app


def template(app: App, name: str) -> Template:
    """The template of one of its stacks."""
    stack = app.node.find_child(name)
    assert isinstance(stack, Stack)
    return Template.from_stack(stack)


def test_data_and_code_can_be_apart(app: App) -> None:
    """The relay stands in the stack that may be replaced, and that stack alone needs the other."""
    data, code = template(app, "Data"), template(app, "Code")

    data.resource_count_is("AWS::Lambda::Function", 0)
    code.resource_count_is("AWS::DynamoDB::Table", 0)
    assert named(code, "AWS::Lambda::EventSourceMapping", "OutboxRelayStream")
    assert named(data, "AWS::SQS::Queue", "OutboxQueue")["VisibilityTimeout"] == 120
    assert "Fn::ImportValue" not in str(data.to_json())


def test_a_function_takes_the_cdks_own_grants(app: App) -> None:
    """A function is an `IGrantable`: what is granted to it is allowed to its role."""
    allowed = {
        action for actions, _ in grants(template(app, "Code"), "Payments") for action in actions
    }

    assert allowed >= {"ssm:GetParameter", "dynamodb:UpdateItem", "kms:Decrypt"}


def test_a_function_in_a_vpc_can_reach_into_it(app: App) -> None:
    """Its role may do what Lambda asks of it there, and has no managed policy."""
    code = template(app, "Code")
    allowed = {action for actions, _ in grants(code, "Inside") for action in actions}

    assert allowed >= {"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface"}
    assert "ManagedPolicyArns" not in named(code, "AWS::IAM::Role", "InsideRole")


def test_a_durable_function_may_save_its_checkpoints() -> None:
    """With `durable_config`, the role may save and read the executions of this function alone.

    Red when the function has no right to save its first checkpoint: the CDK grants it only to a
    role that it has made.
    """
    stack = new_stack()
    durable = lambda_.DurableConfig(execution_timeout=Duration.days(7))
    function(
        stack,
        "Orders",
        table=IdempotencyTable(stack, "Records"),
        runtime=lambda_.Runtime.PYTHON_3_14,
        function_props={"durable_config": durable},
    )
    let_be(stack, "Reconciler")

    # It also refuses resources that wait for each other.
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")

    (statement,) = [
        one
        for policy in policies.values()
        for one in policy["Properties"]["PolicyDocument"]["Statement"]
        if "Durable" in json.dumps(one["Action"])
    ]
    assert statement["Action"] == [
        "lambda:CheckpointDurableExecution",
        "lambda:GetDurableExecutionState",
    ]
    (arn, rest) = statement["Resource"]["Fn::Join"][1]
    assert arn["Fn::GetAtt"][0].startswith("OrdersFunction")
    assert rest == ":*"


def test_an_api_may_trust_a_user_pool_of_its_app() -> None:
    """The address of a user pool is known to the deployment only, and the authorizer gets it.

    Red when an issuer that is not known yet is refused as no https address.
    """
    stack = new_stack()
    pool = cognito.UserPool(stack, "Users")
    IdempotentHttpApi(
        stack, "Api", jwt_issuer=pool.user_pool_provider_url, jwt_audience=["payments"]
    ).add_route(unprotected(stack, "Payments"), "POST", "/payments")

    authorizer = named(Template.from_stack(stack), "AWS::ApiGatewayV2::Authorizer", "ApiJwt")
    (pool_id,) = Template.from_stack(stack).find_resources("AWS::Cognito::UserPool")
    assert authorizer["JwtConfiguration"]["Issuer"] == {"Fn::GetAtt": [pool_id, "ProviderURL"]}


def test_two_services_of_one_stack_may_share_an_api() -> None:
    """Each watches the API with alarms of its own, and the API counts its refusals once.

    Red when the second `Observability` creates what the first one has created at the API, or gives
    its queries the same names.
    """
    stack = new_stack()
    api = IdempotentHttpApi(
        stack, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["payments"]
    )
    functions = [unprotected(stack, name) for name in ("Orders", "Payments")]
    first = Observability(stack, "First", functions=functions[:1], apis=[api])
    second = Observability(stack, "Second", functions=functions[1:], apis=[api])
    second.watch_api(api)

    about_it = {"ApiFailures", "ApiClientErrors", "ApiTooManyRequests"}
    assert about_it <= {*first.alarms} & {*second.alarms}
    template = Template.from_stack(stack)
    template.resource_count_is("AWS::Logs::MetricFilter", 2)
    queries = template.find_resources("AWS::Logs::QueryDefinition").values()
    names = {one["Properties"]["Name"] for one in queries}
    assert len(names) == len(queries)
    assert names >= {f"Stack{below}/Why the store failed" for below in ("", "/Second")}


@pytest.mark.parametrize("kind", ["AWS::ApiGatewayV2::Route", "AWS::ApiGateway::Method"])
def test_a_route_may_take_any_method(kind: str) -> None:
    """What the description and the local runtime take as a method, both APIs take, too.

    Red when a described service runs on this machine and cannot be deployed.
    """
    stack = new_stack()
    api: IdempotentHttpApi | IdempotentRestApi = (
        IdempotentRestApi(stack, "Api")
        if kind == "AWS::ApiGateway::Method"
        else IdempotentHttpApi(
            stack, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["payments"]
        )
    )
    orders = unprotected(stack, "Orders")
    for method in METHODS:
        api.add_route(orders, method, "/orders")

    routes = Template.from_stack(stack).find_resources(kind)
    taken = {
        one["Properties"].get("HttpMethod") or one["Properties"]["RouteKey"].partition(" ")[0]
        for one in routes.values()
    }
    assert taken == {*METHODS}


@pytest.mark.parametrize("apart", ["stages", "regions"])
def test_stacks_of_one_name_in_two_places_are_kept_apart(apart: str) -> None:
    """Two stages, or two Regions, may have stacks of the same names, and so exports of the same
    names. What a function of one refers to is not in the other.

    Red when the two workers of two queues count as workers of the first one.
    """
    app = App(analytics_reporting=False)
    for number in ("1", "2"):
        env = Environment(account="111111111111", region=f"eu-west-{number}")
        scope = Stage(app, f"Stage{number}") if apart == "stages" else app
        data, code = (
            Stack(
                scope,
                f"{name}{number}",
                stack_name=name,
                env=env if apart == "regions" else None,
            )
            for name in ("data", "code")
        )
        records = IdempotencyTable(data, "Records")
        outbox = Outbox(data, "Outbox")
        outbox.add_worker(function(code, "Worker", table=records))
        Reconciler(code, "Reconciler", table=records)

    assert app.synth().stacks_recursively


def test_another_accounts_secret_is_named_by_its_arn() -> None:
    """Secrets Manager looks up a name in the caller's account, so a function would miss a secret of
    another account. One of the own account keeps its name.

    Red when a secret that is elsewhere is named by its name alone.
    """
    stack = Stack(App(), "Stack", env=Environment(account="111111111111", region="eu-west-1"))
    reader = unprotected(stack, "Reader")
    here, elsewhere = (
        f"arn:aws:secretsmanager:eu-west-1:{account}:secret:webhook"
        for account in ("111111111111", "222222222222")
    )
    imported = secretsmanager.Secret
    secrets = {
        "NAMED": imported.from_secret_name_v2(stack, "Named", "webhook"),
        "HERE": imported.from_secret_partial_arn(stack, "Here", here),
        "ELSEWHERE": imported.from_secret_partial_arn(stack, "Elsewhere", elsewhere),
        "WHOLE": imported.from_secret_complete_arn(stack, "Whole", f"{elsewhere}-AbCdEf"),
    }
    given = CfnParameter(stack, "Given").value_as_string
    reader.read_secret("GIVEN", imported.from_secret_partial_arn(stack, "Later", given))
    for variable, secret in secrets.items():
        reader.read_secret(variable, secret)

    reading = named(Template.from_stack(stack), "AWS::Lambda::Function", "ReaderFunction")
    told = reading["Environment"]["Variables"]
    assert {variable: told[f"{variable}_ARN"] for variable in secrets} == {
        "NAMED": "webhook",
        "HERE": "webhook",
        "ELSEWHERE": elsewhere,
        "WHOLE": f"{elsewhere}-AbCdEf",
    }
    assert "Given" in json.dumps(told["GIVEN_ARN"])
