"""The REST API with usage plans that other teams take into their own app."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from infra.oncekey_cdk import IdempotentFunction, IdempotentRestApi, UsagePlan
from tests.support.sample_constructs import let_be, new_stack, only

METHOD = "AWS::ApiGateway::Method"
PLAN = "AWS::ApiGateway::UsagePlan"


def build(*, timeout_s: int = 20, waits_s: int = 29) -> Any:
    """The stack of an API with one plan, a route behind it, and an open one."""
    stack = new_stack()
    function = IdempotentFunction(
        stack,
        "Payments",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        timeout=Duration.seconds(timeout_s),
    )
    let_be(function, "FunctionTable")
    api = IdempotentRestApi(
        stack,
        "Api",
        usage_plans={
            "Gold": UsagePlan(requests_per_second=9, burst_requests=18, requests_per_day=1000)
        },
        timeout=Duration.seconds(waits_s),
        api_props={"description": "payments by plan"},
    )
    api.add_route(function, "POST", "/payments/{payment_id}/refunds")
    api.add_route(function, "POST", "/webhooks", authorized=False)
    return stack


@pytest.fixture(scope="module")
def rest() -> Template:
    """Its template."""
    return Template.from_stack(build())


def test_every_method_asks_who_calls_and_for_a_key(rest: Template) -> None:
    """Requests are signed and name a plan's key, but for the route that says otherwise."""
    asked = {
        one["Properties"]["AuthorizationType"]: one["Properties"].get("ApiKeyRequired", False)
        for one in rest.find_resources(METHOD).values()
    }

    assert asked == {"AWS_IAM": True, "NONE": False}


def test_a_plan_limits_its_own_customers(rest: Template) -> None:
    """A plan has rate, burst and requests a day, a key of its own, and this stage."""
    plan = only(rest, PLAN)

    assert plan["Throttle"] == {"BurstLimit": 18, "RateLimit": 9}
    assert plan["Quota"] == {"Limit": 1000, "Period": "DAY"}
    assert len(plan["ApiStages"]) == 1
    rest.resource_count_is("AWS::ApiGateway::ApiKey", 1)
    assert only(rest, "AWS::ApiGateway::UsagePlanKey")["KeyType"] == "API_KEY"


def test_the_stage_is_throttled_and_its_log_holds_no_secret(rest: Template) -> None:
    """All callers together have a limit; the log names no header, query or address; no payload."""
    stage = only(rest, "AWS::ApiGateway::Stage")
    (settings,) = stage["MethodSettings"]

    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (500, 1000)
    assert not settings["DataTraceEnabled"]
    logged = json.loads(stage["AccessLogSetting"]["Format"]).values()
    assert not [one for one in logged if "identity" in one or "header" in one]
    rest.resource_count_is("AWS::ApiGateway::Account", 0)
    assert only(rest, "AWS::ApiGateway::RestApi")["Description"] == "payments by plan"


def test_a_function_that_outlasts_the_api_is_refused() -> None:
    """The limit is the time for which this API waits, wherever the account's quota has been set."""
    app = build(timeout_s=40, waits_s=29).node.root
    assert isinstance(app, App)

    with pytest.raises(RuntimeError, match="a function's timeout of 40 s .* at most 29"):
        app.synth()
    raised = build(timeout_s=40, waits_s=40).node.root
    assert isinstance(raised, App)
    assert raised.synth().stacks
