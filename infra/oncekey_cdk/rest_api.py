"""A REST API in front of protected functions, with usage plans if you need them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, Names
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from oncekey.http.cors import METHODS

from .arguments import explained
from .checks import API_TIMEOUT_S
from .faults import overridden, override_faults, refuse, refuse_route, without_none
from .http_api import ACCESS_LOG_FIELDS as HTTP_API_FIELDS
from .http_api import BURST_REQUESTS, REQUESTS_PER_SECOND
from .log_groups import RETENTION, create_log_group
from .route_permissions import RoutePermissions
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aws_cdk import aws_logs as logs

    from oncekey import Cors

    from .faults import Props
    from .idempotent_function import IdempotentFunction

_FIXED = {
    "deploy_options": "use stage_props=",
    "default_method_options": "use authorizer= and usage_plans=",
}
_NAME_MAX = 128
_OF_ANOTHER_LOG = {"access_log_destination", "access_log_format"}
# A page that signs its requests (IAM) or has an API key sends these, too.
_SENT_TO_REST_APIS = ("X-Api-Key", "X-Amz-Date", "X-Amz-Security-Token")
# The answers that API Gateway gives itself, such as 403 without authorization, or 429.
_OWN_ANSWERS = {
    "4xx": apigateway.ResponseType.DEFAULT_4_XX,
    "5xx": apigateway.ResponseType.DEFAULT_5_XX,
}
# As for an HTTP API, nothing that the caller sent.
ACCESS_LOG_FIELDS = {
    **HTTP_API_FIELDS,
    "route": "$context.httpMethod $context.resourcePath",
    "integration_latency_ms": "$context.integration.latency",
    "integration_error": "$context.integration.error",
}


@dataclass(frozen=True, kw_only=True)
class UsagePlan:
    """What one customer may use: a rate, a burst, and optionally a number of requests a day."""

    requests_per_second: int
    burst_requests: int
    requests_per_day: int | None = None


@explained
class IdempotentRestApi(Construct):
    """A REST API. Its methods require an authorizer, except those with `authorized=False`.

    With usage plans they ask for an API key, too, which says which plan a caller is on. It is no
    proof of who calls: by default a request is signed (IAM) as well. Take the tenant from
    `iam_principal()` or from the authorizer's claims.

    Attributes:
        api: The API.
        access_log: The log group of its stage. The account needs a role for it, once:
            https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-logging.html
            None if `stage_props` have another destination or format, in which nobody can count
            refusals: then there is no alarm for 429 answers.
        cors: The pages that may call the API.
        functions: The protected functions behind its routes.
        plans: The usage plans, by the names that they were given.
        keys: The API keys, one for each plan.

    Args:
        authorizer: Who says yes; by default IAM.
        usage_plans: The plans, by names.
        cors: The browser pages of other origins that may call the API, by default none. The API
            answers their preflights, and adds the headers to its own errors. A REST API adds none
            to a function's answers: decorate the handlers with the same `Cors`.
        requests_per_second: The throttle over all callers together.
        burst_requests: How many more may come at once.
        timeout: For how long the API waits, 29 s at most unless the account's quota was raised.
        log_retention: For how long the access log is kept.
        keeps_data: Whether it outlives the stack.
        api_props: Overrides of any property of `aws_apigateway.RestApi`, by the CDK's names.
        stage_props: The same of `aws_apigateway.StageOptions`.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    access_log: logs.LogGroup | None
    functions: list[IdempotentFunction]
    plans: dict[str, apigateway.UsagePlan]
    keys: dict[str, apigateway.IApiKey]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        authorizer: apigateway.IAuthorizer | None = None,
        usage_plans: Mapping[str, UsagePlan] | None = None,
        cors: Cors | None = None,
        requests_per_second: int = REQUESTS_PER_SECOND,
        burst_requests: int = BURST_REQUESTS,
        timeout: Duration | None = None,
        log_retention: logs.RetentionDays = RETENTION,
        keeps_data: bool = True,
        api_props: Mapping[str, Any] | None = None,
        stage_props: Mapping[str, Any] | None = None,
    ) -> None:
        faults = [
            *_plan_faults(usage_plans or {}),
            *_cors_faults(cors),
            *override_faults(api_props, name="api_props", of=apigateway.RestApi, fixed=_FIXED),
            *override_faults(stage_props, name="stage_props", of=apigateway.StageOptions, fixed={}),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="IdempotentRestApi")
        super().__init__(scope, construct_id)
        self.cors, self._timeout = cors, timeout or Duration.seconds(API_TIMEOUT_S)
        OncekeyChecks.of(self)
        access_log = create_log_group(
            self, "AccessLog", retention=log_retention, keeps_data=keeps_data
        )
        given = without_none(stage_props)
        self.access_log = None if _OF_ANOTHER_LOG & {*given} else access_log
        throttle = _throttle(requests_per_second, burst_requests)
        stage = {**throttle, **_observed(access_log), **given}
        self.api = apigateway.RestApi(
            self,
            "Api",
            deploy_options=apigateway.StageOptions(**stage),
            default_method_options=apigateway.MethodOptions(
                authorizer=authorizer,
                authorization_type=None if authorizer else apigateway.AuthorizationType.IAM,
                api_key_required=bool(usage_plans),
            ),
            # The role would be for the whole account, and be deleted with this stack.
            **overridden(
                {
                    "cloud_watch_role": False,
                    # CloudWatch identifies the metrics of a REST API by its name alone, in the
                    # whole account.
                    "rest_api_name": Names.unique_resource_name(self, max_length=_NAME_MAX),
                },
                api_props,
            ),
        )
        if cors:
            self._add_headers_to_own_answers(cors)
        self.functions, self.plans, self.keys = [], {}, {}
        self._permissions = RoutePermissions()
        for name, plan in (usage_plans or {}).items():
            self._add_plan(name, plan)

    def add_route(
        self,
        function: IdempotentFunction | lambda_.Function,
        method: str,
        path: str,
        *,
        authorized: bool = True,
    ) -> apigateway.Method:
        """Send requests of this method and path to `function`.

        The API may invoke it for this route only, or for any route of the API if the function has
        more than fifteen. The synthesis fails if the function may run for longer than the API
        waits.

        Args:
            function: The function.
            method: Such as `POST`.
            path: A template, such as `/payments/{payment_id}`.
            authorized: Whether a caller must be authorized and, with usage plans, have an API key.

        Raises:
            ValueError: There is no such method or path.
        """
        refuse_route(self, method, path, preflights=("OPTIONS",) if self.cors else ())
        if isinstance(function, lambda_.Function):
            target: lambda_.Function | lambda_.Alias = function
        else:
            target = function.called
            self.functions.append(function)
        none: Props = {
            "authorization_type": apigateway.AuthorizationType.NONE,
            "api_key_required": False,
        }
        resource = self.api.root.resource_for_path(path)
        if self.cors and not resource.node.try_find_child("OPTIONS"):
            _add_preflight(resource, self.cors)
        is_own = self._permissions.has_its_own(target)
        return resource.add_method(
            method,
            apigateway.LambdaIntegration(
                target,
                timeout=self._timeout,
                scope_permission_to_method=is_own,
                # A permission for the whole API is for its test stage, too, whatever is said here.
                allow_test_invoke=not is_own,
            ),
            **({} if authorized else none),
        )

    def _add_headers_to_own_answers(self, cors: Cors) -> None:
        # These headers cannot depend on the request, and the answers hold nothing of a caller.
        origin = cors.origins[0] if len(cors.origins) == 1 else "*"
        headers = cors.answer_headers(cors.origins[0])
        headers["Access-Control-Allow-Origin"] = origin
        for name, kind in _OWN_ANSWERS.items():
            self.api.add_gateway_response(
                f"Cors{name}",
                type=kind,
                response_headers={header: f"'{value}'" for header, value in headers.items()},
            )

    def _add_plan(self, name: str, plan: UsagePlan) -> None:
        quota = apigateway.QuotaSettings(limit=plan.requests_per_day, period=apigateway.Period.DAY)
        created = self.api.add_usage_plan(
            f"{name}Plan",
            throttle=apigateway.ThrottleSettings(
                rate_limit=plan.requests_per_second, burst_limit=plan.burst_requests
            ),
            quota=quota if plan.requests_per_day else None,
        )
        created.add_api_stage(stage=self.api.deployment_stage)
        self.plans[name], self.keys[name] = created, self.api.add_api_key(f"{name}Key")
        created.add_api_key(self.keys[name])


def _throttle(requests_per_second: int, burst_requests: int) -> Props:
    return {
        "throttling_rate_limit": requests_per_second,
        "throttling_burst_limit": burst_requests,
    }


def _observed(access_log: logs.LogGroup) -> Props:
    return {
        "tracing_enabled": True,
        "access_log_destination": apigateway.LogGroupLogDestination(access_log),
        "access_log_format": apigateway.AccessLogFormat.custom(json.dumps(ACCESS_LOG_FIELDS)),
    }


def _add_preflight(resource: apigateway.IResource, cors: Cors) -> None:
    resource.add_cors_preflight(
        allow_origins=[*cors.origins],
        allow_methods=[*METHODS],
        allow_headers=[*cors.allowed_headers, *_SENT_TO_REST_APIS],
        allow_credentials=cors.credentials,
        max_age=Duration.seconds(cors.max_age_s),
    )


def _cors_faults(cors: Cors | None) -> Iterator[str]:
    if cors and cors.credentials and len(cors.origins) > 1:
        yield (
            "cors has credentials and several origins: the errors of a REST API can name one origin"
            " only, so pages of the others could not read them; use one origin, or an HTTP API"
        )


def _plan_faults(plans: Mapping[str, UsagePlan]) -> Iterator[str]:
    for name, plan in plans.items():
        if not name.isalnum():
            yield f"usage plan {name!r}: use letters and digits only"
        for field in ("requests_per_second", "burst_requests", "requests_per_day"):
            value = getattr(plan, field)
            if value is not None and value < 1:
                yield f"usage plan {name!r}: {field} is {value}, at least 1"
