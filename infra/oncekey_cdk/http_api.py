"""An HTTP API in front of protected functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from aws_cdk import Duration, Token
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oncekey.http.cors import METHODS

from .arguments import explained
from .faults import overridden, override_faults, refuse, refuse_route, without_none
from .log_groups import RETENTION, create_log_group
from .route_permissions import RoutePermissions
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aws_cdk import aws_logs as logs

    from oncekey import Cors

    from .faults import Props
    from .idempotent_function import IdempotentFunction

# Enough to find a request in its function's log. No header, query, path or address, because a log
# must not hold an Authorization header, an idempotency key or a payment's id.
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
# The account's limit is 10,000 a second; one service must not use it all.
REQUESTS_PER_SECOND = 500
BURST_REQUESTS = 1000

_OWN_API = {"http_api": "it is the API of this construct"}
# For emulators. API Gateway itself refuses an authorizer with such an address.
_EMULATED_ISSUERS = ("http://127.0.0.1:", "http://localhost:")


@explained
class IdempotentHttpApi(Construct):
    """An HTTP API. Its routes require a JWT, except those with `authorized=False`.

        api = IdempotentHttpApi(self, "Api", jwt_issuer=..., jwt_audience=["payments"])
        api.add_route(payments, "POST", "/payments")

    Attributes:
        api: The API.
        stage: Its only stage, `$default`, with throttle and access log.
        access_log: The log group of the access log; None if `stage_props` have another log, in
            which nobody can count refusals: then there is no alarm for 429 answers.
        cors: The pages that may call the API.
        functions: The protected functions behind its routes.

    Args:
        jwt_issuer: Who signs the callers' tokens, as an https URL.
        jwt_audience: For whom. The tenant comes from a claim of the token.
        cors: The browser pages of other origins that may call the API, by default none. The API
            answers their preflights before it asks for a token.
        requests_per_second: The throttle for all callers together.
        burst_requests: How many more may come at once.
        log_retention: How long the access log is kept.
        keeps_data: Whether the access log is kept when the stack is deleted.
        api_props: Overrides of any property of `aws_apigatewayv2.HttpApi`, by the CDK's names.
        stage_props: The same of `aws_apigatewayv2.HttpStage`.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        jwt_issuer: str,
        jwt_audience: list[str],
        cors: Cors | None = None,
        requests_per_second: int = REQUESTS_PER_SECOND,
        burst_requests: int = BURST_REQUESTS,
        log_retention: logs.RetentionDays = RETENTION,
        keeps_data: bool = True,
        api_props: Mapping[str, Any] | None = None,
        stage_props: Mapping[str, Any] | None = None,
    ) -> None:
        own_stage = {"create_default_stage": "the stage is this construct's; use stage_props="}
        faults = [
            *_authorizer_faults(jwt_issuer, jwt_audience),
            *override_faults(api_props, name="api_props", of=apigateway.HttpApi, fixed=own_stage),
            *override_faults(
                stage_props, name="stage_props", of=apigateway.HttpStage, fixed=_OWN_API
            ),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="IdempotentHttpApi")
        super().__init__(scope, construct_id)
        OncekeyChecks.of(self)
        self.cors = cors
        self.functions: list[IdempotentFunction] = []
        self._permissions = RoutePermissions()
        api: Props = {
            "default_authorizer": authorizers.HttpJwtAuthorizer(
                "Jwt", jwt_issuer, jwt_audience=jwt_audience
            ),
            **({"cors_preflight": _preflight(cors)} if cors else {}),
        }
        # Our own stage below has the throttle and the log.
        self.api = apigateway.HttpApi(
            self, "Api", create_default_stage=False, **overridden(api, api_props)
        )
        stage: Props = {
            "stage_name": "$default",
            "auto_deploy": True,
            "throttle": apigateway.ThrottleSettings(
                rate_limit=requests_per_second, burst_limit=burst_requests
            ),
        }
        self.stage = apigateway.HttpStage(
            self, "Stage", http_api=self.api, **overridden(stage, stage_props)
        )
        access_log = create_log_group(
            self, "AccessLog", retention=log_retention, keeps_data=keeps_data
        )
        self.access_log: logs.LogGroup | None = None
        if "access_log_settings" in without_none(stage_props):
            return
        self.access_log = access_log
        resource = cast("apigateway.CfnStage", self.stage.node.default_child)
        resource.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=access_log.log_group_arn, format=json.dumps(ACCESS_LOG_FIELDS)
        )

    def add_route(
        self,
        function: IdempotentFunction | lambda_.Function,
        method: str,
        path: str,
        *,
        authorized: bool = True,
    ) -> None:
        """Send requests of this method and path to `function`.

        The API may invoke it for this path only, or for any route of the API if the function has
        more than fifteen. The synthesis fails if the function may run for longer than the API
        waits.

        Args:
            function: The function.
            method: Such as `POST`.
            path: A template, such as `/payments/{payment_id}`.
            authorized: Whether a caller needs a JWT. A webhook does not, because its signature says
                who sent it.

        Raises:
            ValueError: There is no such method or path.
        """
        preflights = ("OPTIONS", "ANY") if self.cors and authorized else ()
        refuse_route(self, method, path, preflights=preflights)
        if isinstance(function, lambda_.Function):
            target: lambda_.Function | lambda_.Alias = function
        else:
            target = function.called
            self.functions.append(function)
        self.api.add_routes(
            path=path,
            methods=[apigateway.HttpMethod[method]],
            authorizer=None if authorized else apigateway.HttpNoneAuthorizer(),
            integration=integrations.HttpLambdaIntegration(
                f"{method} {path}",  # each needs a unique name within the API
                target,
                scope_permission_to_route=self._permissions.has_its_own(target),
            ),
        )


def _preflight(cors: Cors) -> apigateway.CorsPreflightOptions:
    return apigateway.CorsPreflightOptions(
        allow_origins=[*cors.origins],
        allow_methods=[apigateway.CorsHttpMethod[method] for method in METHODS],
        allow_headers=[*cors.allowed_headers],
        expose_headers=[*cors.exposed_headers],
        allow_credentials=cors.credentials,
        max_age=Duration.seconds(cors.max_age_s),
    )


def _authorizer_faults(issuer: str, audience: list[str]) -> Iterator[str]:
    # That of a user pool of this app, for example, is known to the deployment only.
    if not (Token.is_unresolved(issuer) or issuer.startswith(("https://", *_EMULATED_ISSUERS))):
        yield f"jwt_issuer must be an https:// URL, not {issuer!r}"
    if not audience:
        yield "jwt_audience is empty, so any token of the issuer would pass: name your audience"
