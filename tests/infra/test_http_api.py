"""The HTTP API of the service stack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from infra.oncekey_cdk import IdempotentHttpApi, IdempotentRestApi
from infra.service import SERVICE
from tests.support.sample_constructs import new_stack

if TYPE_CHECKING:
    from tests.support.templates import Synthesised


def test_the_routes_are_those_of_the_description(app: Synthesised) -> None:
    """Every described route is there and no other, so no catch-all swallows a typing error."""
    described = [route.key for function in SERVICE.functions for route in function.routes]

    routes = app.properties("AWS::ApiGatewayV2::Route")

    assert sorted(route["RouteKey"] for route in routes) == sorted(described)


def test_no_route_is_open_but_the_webhooks(app: Synthesised) -> None:
    """Every route asks for a JWT of the one authorizer, but for that of the provider's events."""
    (authorizer,) = app.service.find_resources("AWS::ApiGatewayV2::Authorizer")
    asked = {
        route["RouteKey"]: (route["AuthorizationType"], route.get("AuthorizerId"))
        for route in app.properties("AWS::ApiGatewayV2::Route")
    }

    assert asked.pop("POST /webhooks/stripe") == ("NONE", None)
    assert list(asked.values()) == [("JWT", {"Ref": authorizer})] * len(asked)


@pytest.mark.parametrize(
    ("stage", "issuer", "audience"),
    [
        ("dev", "https://issuer.example.com/", "payments"),
        ("production", "https://login.example.com/", "payments-api"),
    ],
)
def test_the_authorizer_trusts_the_environments_issuer(
    stage: str, issuer: str, audience: str, request: pytest.FixtureRequest
) -> None:
    """Issuer and audience are the context's."""
    app: Synthesised = request.getfixturevalue(stage)

    app.service.has_resource_properties(
        "AWS::ApiGatewayV2::Authorizer",
        {
            "AuthorizerType": "JWT",
            "IdentitySource": ["$request.header.Authorization"],
            "JwtConfiguration": {"Audience": [audience], "Issuer": issuer},
        },
    )


@pytest.mark.parametrize(("stage", "rate", "burst"), [("dev", 20, 40), ("production", 500, 1000)])
def test_the_default_stage_is_throttled(
    stage: str, rate: int, burst: int, request: pytest.FixtureRequest
) -> None:
    """The only stage is the default one, and it refuses what exceeds the environment's rate."""
    app: Synthesised = request.getfixturevalue(stage)

    app.service.resource_count_is("AWS::ApiGatewayV2::Stage", 1)
    app.service.has_resource_properties(
        "AWS::ApiGatewayV2::Stage",
        {
            "StageName": "$default",
            "DefaultRouteSettings": {
                "ThrottlingRateLimit": rate,
                "ThrottlingBurstLimit": burst,
            },
        },
    )


def test_the_access_log_holds_no_secret(app: Synthesised) -> None:
    """The access log says what became of a request and nothing that the caller sent."""
    (stage,) = app.properties("AWS::ApiGatewayV2::Stage")
    settings = stage["AccessLogSettings"]

    assert set(json.loads(settings["Format"]).values()) == {
        "$context.requestId",
        "$context.requestTime",
        "$context.routeKey",
        "$context.status",
        "$context.responseLength",
        "$context.integrationLatency",
        "$context.integrationErrorMessage",
        "$context.authorizer.error",
    }
    assert settings["DestinationArn"]["Fn::GetAtt"][0].startswith("HttpApiAccessLog")


def test_the_api_may_invoke_for_its_own_routes_only(app: Synthesised) -> None:
    """Each permission to invoke names this API and one described path, or is the clock's."""
    (api,) = app.service.find_resources("AWS::ApiGatewayV2::Api")
    permissions = app.properties("AWS::Lambda::Permission")
    sources = [
        permission["SourceArn"]["Fn::Join"][1]
        for permission in permissions
        if permission["Principal"] == "apigateway.amazonaws.com"
    ]
    scheduled = [one for one in permissions if one["Principal"] == "events.amazonaws.com"]
    assert len(scheduled) == sum(function.schedule is not None for function in SERVICE.functions)
    assert len(scheduled) + len(sources) == len(permissions)

    assert all({"Ref": api} in source for source in sources)
    assert sorted(source[-1] for source in sources) == sorted(
        f"/*/*{route.path}" for function in SERVICE.functions for route in function.routes
    )


def test_the_url_is_an_output(app: Synthesised) -> None:
    """Whoever deployed finds the address in the outputs."""
    assert list(app.service.find_outputs("ApiUrl")) == ["ApiUrl"]


@pytest.mark.parametrize("kind", ["http", "rest"])
def test_a_function_with_many_routes_has_a_policy_that_lambda_takes(kind: str) -> None:
    """Lambda refuses a resource policy of more than 20 KB in the middle of a deployment. One
    function, such as a FastAPI app, may have more routes than fit, and every route may invoke it.

    Red when each route has a permission of its own.
    """
    stack = new_stack()
    function = lambda_.Function(
        stack,
        "App",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        runtime=lambda_.Runtime.PYTHON_3_13,
    )
    issuer = "https://login.example.com/"
    api = (
        IdempotentHttpApi(stack, "Api", jwt_issuer=issuer, jwt_audience=["a"])
        if kind == "http"
        else IdempotentRestApi(stack, "Api")
    )
    paths = [f"/orders/{{order_id}}/lines/{number}" for number in range(100)]

    for path in paths:
        api.add_route(function, "POST", path)

    found = Template.from_stack(stack).find_resources("AWS::Lambda::Permission").values()
    permissions = [one["Properties"] for one in found]
    sources = [json.dumps(one["SourceArn"]) for one in permissions]
    # A statement has about 600 characters: its id, the function's ARN and that of the route.
    assert len(permissions) * 600 + sum(map(len, sources)) < 20_480
    assert {one["Principal"] for one in permissions} == {"apigateway.amazonaws.com"}
    # All of this API, and of no other.
    (all_routes,) = [source for source in sources if "/*/*/*" in source]
    assert '{"Ref": "Api' in all_routes


@pytest.mark.parametrize("number", [1, 15])
def test_a_function_with_few_routes_may_be_invoked_for_them_alone(number: int) -> None:
    """The permission for a whole API is for functions with more routes than fit alone."""
    stack = new_stack()
    function = lambda_.Function(
        stack,
        "App",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        runtime=lambda_.Runtime.PYTHON_3_13,
    )
    issuer = "https://login.example.com/"
    api = IdempotentHttpApi(stack, "Api", jwt_issuer=issuer, jwt_audience=["a"])

    for one in range(number):
        api.add_route(function, "POST", f"/orders/{one}")

    permissions = Template.from_stack(stack).find_resources("AWS::Lambda::Permission").values()
    assert len(permissions) == number
    assert "/*/*/*" not in json.dumps([*permissions])
