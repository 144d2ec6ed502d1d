"""The HTTP API of the service stack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from infra.service import SERVICE

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
