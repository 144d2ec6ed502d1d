"""The HTTP API in front of the functions: every route of the description.

None is open that the description does not call so.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.log_groups import log_group

if TYPE_CHECKING:
    from infra.environments import Environment
    from oncekey_local.description import Route

# Enough to follow a request to its function's log. No header, query, path or address: an
# Authorization header, an idempotency key and a payment's id are nobody's to read in a log.
ACCESS_LOG_FIELDS = {
    "request_id": "$context.requestId",
    "time": "$context.requestTime",
    "route": "$context.routeKey",
    "status": "$context.status",
    "response_length": "$context.responseLength",
    "integration_latency_ms": "$context.integrationLatency",
    "integration_error": "$context.integrationErrorMessage",
    "authorizer_error": "$context.authorizer.error",
}


class ServiceApi(Construct):
    """An HTTP API whose routes ask for a JWT of the environment's issuer and audience.

    But for those that are described as not authorized: theirs is for their function to judge.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, environment: Environment
    ) -> None:
        super().__init__(scope, construct_id)
        self.api = apigateway.HttpApi(
            self,
            "Api",
            api_name=name,
            # The stage is ours, below, for its throttle and its log.
            create_default_stage=False,
            default_authorizer=authorizers.HttpJwtAuthorizer(
                "Jwt", environment.jwt_issuer, jwt_audience=[environment.jwt_audience]
            ),
        )
        self.stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(
                rate_limit=environment.requests_per_second,
                burst_limit=environment.burst_requests,
            ),
        )
        access_log = log_group(self, "AccessLog", environment)
        stage = cast("apigateway.CfnStage", self.stage.node.default_child)
        stage.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=access_log.log_group_arn, format=json.dumps(ACCESS_LOG_FIELDS)
        )

    def add_routes(self, function: lambda_.IFunction, routes: tuple[Route, ...]) -> None:
        """Send `routes` to `function`, and let the API invoke it for these routes only."""
        for route in routes:
            self.api.add_routes(
                path=route.path,
                methods=[apigateway.HttpMethod[route.method]],
                # Without one the API's own is asked.
                authorizer=None if route.authorized else apigateway.HttpNoneAuthorizer(),
                # Each needs a name of its own within the API.
                integration=integrations.HttpLambdaIntegration(route.key, function),
            )
