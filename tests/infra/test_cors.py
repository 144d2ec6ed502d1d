"""Both APIs in front of browser pages of other origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Match, Template

from infra.oncekey_cdk import (
    IdempotentFunction,
    IdempotentHttpApi,
    IdempotentRestApi,
    IdempotentService,
)
from oncekey import Cors
from oncekey_local.description import Service
from tests.support.sample_constructs import let_be, new_stack, only

if TYPE_CHECKING:
    from aws_cdk import Stack

SHOP = "https://shop.example"
METHOD = "AWS::ApiGateway::Method"


def new_function(stack: Stack) -> IdempotentFunction:
    """A function to route to."""
    function = IdempotentFunction(
        stack,
        "Payments",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        timeout=Duration.seconds(20),
    )
    let_be(function, "FunctionTable")
    return function


def new_http_api(stack: Stack, cors: Cors | None = None) -> IdempotentHttpApi:
    """An HTTP API."""
    return IdempotentHttpApi(
        stack, "Api", jwt_issuer="https://login.example.com/", jwt_audience=["pay"], cors=cors
    )


def rest(cors: Cors | None) -> Template:
    """The template of a REST API with two routes on one path."""
    stack = new_stack()
    api = IdempotentRestApi(stack, "Api", cors=cors)
    function = new_function(stack)
    api.add_route(function, "POST", "/payments")
    api.add_route(function, "GET", "/payments")
    return Template.from_stack(stack)


def test_an_http_api_says_to_browsers_what_the_local_runtime_says() -> None:
    """The API's configuration has the origins, methods and headers of `Cors`, which the local front
    answers with.
    """
    cors = Cors(origins=[SHOP], read_headers=["X-Cost"], credentials=True)
    stack = new_stack()
    new_http_api(stack, cors)

    configured = only(Template.from_stack(stack), "AWS::ApiGatewayV2::Api")["CorsConfiguration"]

    local = {name.lower(): value for name, value in cors.preflight_headers(SHOP).items()}
    read = cors.answer_headers(SHOP)["Access-Control-Expose-Headers"]
    assert configured == {
        "AllowOrigins": [local["access-control-allow-origin"]],
        "AllowMethods": local["access-control-allow-methods"].split(","),
        "AllowHeaders": local["access-control-allow-headers"].split(","),
        "AllowCredentials": True,
        "ExposeHeaders": read.split(","),
        "MaxAge": int(local["access-control-max-age"]),
    }
    assert "X-Cost" in read


def test_no_page_is_let_in_unless_asked_for() -> None:
    """Without `cors`, neither API has a preflight or a header for pages."""
    stack = new_stack()
    new_http_api(stack)

    assert "CorsConfiguration" not in only(Template.from_stack(stack), "AWS::ApiGatewayV2::Api")
    bare = rest(None)
    bare.resource_count_is("AWS::ApiGateway::GatewayResponse", 0)
    bare.resource_properties_count_is(METHOD, {"HttpMethod": "OPTIONS"}, 0)


def test_a_rest_api_answers_a_preflight_without_authorization() -> None:
    """Each path has one OPTIONS method, which needs neither a signature nor a key, allows the
    headers of a signed request, and calls no function.
    """
    template = rest(Cors(origins=[SHOP, "https://admin.example"]))

    template.resource_properties_count_is(METHOD, {"HttpMethod": "OPTIONS"}, 1)
    template.has_resource_properties(
        METHOD,
        {
            "HttpMethod": "OPTIONS",
            "AuthorizationType": "NONE",
            "ApiKeyRequired": False,
            "Integration": {
                "Type": "MOCK",
                "IntegrationResponses": [
                    {
                        "ResponseParameters": Match.object_like(
                            {
                                "method.response.header.Access-Control-Allow-Origin": f"'{SHOP}'",
                                "method.response.header.Access-Control-Allow-Headers": (
                                    Match.string_like_regexp(
                                        "Authorization.*Idempotency-Key.*X-Api-Key.*X-Amz-Date"
                                    )
                                ),
                            }
                        ),
                        "ResponseTemplates": {
                            "application/json": Match.string_like_regexp("admin.example")
                        },
                    }
                ],
            },
        },
    )


@pytest.mark.parametrize(
    ("origins", "named"),
    [([SHOP], SHOP), (["*"], "*"), ([SHOP, "https://admin.example"], "*")],
)
def test_a_rest_apis_own_errors_can_be_read(origins: list[str], named: str) -> None:
    """API Gateway's own 4xx and 5xx name the one origin, or any: they hold nothing of a caller."""
    template = rest(Cors(origins=origins))

    template.resource_count_is("AWS::ApiGateway::GatewayResponse", 2)
    for kind in ("DEFAULT_4XX", "DEFAULT_5XX"):
        template.has_resource_properties(
            "AWS::ApiGateway::GatewayResponse",
            {
                "ResponseType": kind,
                "ResponseParameters": Match.object_like(
                    {"gatewayresponse.header.Access-Control-Allow-Origin": f"'{named}'"}
                ),
            },
        )


def test_a_rest_api_cannot_name_several_origins_with_credentials() -> None:
    """Its own errors could not be read by the pages of all of them."""
    cors = Cors(origins=[SHOP, "https://admin.example"], credentials=True)

    with pytest.raises(ValueError, match="one origin, or an HTTP API"):
        IdempotentRestApi(new_stack(), "Api", cors=cors)


def test_no_route_takes_the_preflights() -> None:
    """A route for OPTIONS would ask a preflight for the token that it does not have."""
    stack = new_stack()
    apis: list[Any] = [
        new_http_api(stack, Cors(origins=["*"])),
        IdempotentRestApi(stack, "Rest", cors=Cors(origins=["*"])),
    ]
    function = new_function(stack)
    for api in apis:
        with pytest.raises(ValueError, match="the API answers OPTIONS itself"):
            api.add_route(function, "OPTIONS", "/payments")
    with pytest.raises(ValueError, match="the API answers OPTIONS itself"):
        apis[0].add_route(function, "ANY", "/payments")


def test_a_described_service_and_its_api_let_in_the_same_pages() -> None:
    """An API without the description's `cors` would work locally and not when it is deployed."""
    stack = new_stack()
    cors = Cors(origins=[SHOP])
    service = Service(name="pages", functions=(), tables=(), cors=cors)

    with pytest.raises(ValueError, match=r"cors=SERVICE\.cors"):
        IdempotentService(stack, "Service", service, api=new_http_api(stack))
