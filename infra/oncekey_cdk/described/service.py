"""A whole service from its description: one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Duration
from constructs import Construct

from ..arguments import explained
from ..faults import refuse
from ..idempotent_function import IdempotentFunction
from ..layer import ARCHITECTURE, RUNTIME
from ..log_groups import RETENTION
from ..metrics import service_variable
from ..synth_checks import acknowledge
from .alarms import create_alarms
from .handlers_code import code_faults, handlers_code
from .names import pascal
from .permissions import grant_described
from .service_resources import ServiceResources
from .triggers import add_triggers
from .variables import secrets, setting_faults, variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aws_cdk import aws_codedeploy as codedeploy
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk import aws_logs as logs
    from aws_cdk import aws_secretsmanager as secretsmanager
    from aws_cdk import aws_sns as sns

    from oncekey_local.description import Function, Service

    from ..http_api import IdempotentHttpApi
    from ..rest_api import IdempotentRestApi

# The ids of the other parts in the construct.
_ALARMS, _RESOURCES = "Alarms", "Resources"


@explained
class IdempotentService(Construct):
    """Everything that a description names, with exact grants and alarms.

        api = IdempotentHttpApi(stack, "Api", jwt_issuer=..., jwt_audience=["orders"])
        IdempotentService(stack, "Service", SERVICE, api=api)

    `oncekey dev` runs the same description, so the local and the deployed service have the same
    routes, timeouts, queues and variables.

    Attributes:
        resources: The tables, buckets and queues.
        functions: The functions by their names in the description. Grant them what the description
            cannot say; `read_secret` gives one a secret of yours.
        alarms: The alarms and their topic.

    Args:
        service: The description.
        api: Gets the routes.
        resources: The resources of another stack; by default they are created here.
        code: The handlers; by default their packages in the working directory.
        settings: A value for each `Setting` in the description, by its name: text, or a secret.
        layers: By default the library alone.
        runtime: The functions' Python.
        architecture: The functions' processor.
        log_retention: How long the functions' logs are kept.
        keeps_data: Whether tables, buckets, queues and logs are kept when the stack is deleted.
        rollout: How a deployment moves the traffic to the functions' new versions, such as
            `LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES`; by default at once. An alarm on a
            function, or on the API in front of it, rolls the deployment back.
        alarm_topic: A topic of yours for the alarms; by default a new one.
        function_props: Overrides of any property of `aws_lambda.Function`, for all functions.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        service: Service,
        *,
        api: IdempotentHttpApi | IdempotentRestApi | None = None,
        resources: ServiceResources | None = None,
        code: lambda_.Code | None = None,
        settings: Mapping[str, str | secretsmanager.ISecret] | None = None,
        layers: Sequence[lambda_.ILayerVersion] | None = None,
        runtime: lambda_.Runtime = RUNTIME,
        architecture: lambda_.Architecture = ARCHITECTURE,
        log_retention: logs.RetentionDays = RETENTION,
        keeps_data: bool = True,
        rollout: codedeploy.ILambdaDeploymentConfig | None = None,
        alarm_topic: sns.ITopic | None = None,
        function_props: Mapping[str, Any] | None = None,
    ) -> None:
        settings = settings or {}
        faults = [
            *_given_faults(scope, service, api, resources),
            *setting_faults(service, settings),
            *(code_faults(service) if code is None else []),
        ]
        refuse(faults, scope=scope, construct_id=construct_id, kind="IdempotentService")
        super().__init__(scope, construct_id)
        self.resources = resources or ServiceResources(
            self, _RESOURCES, service, keeps_data=keeps_data
        )
        code = code or handlers_code(service)
        named = service_variable(self)
        self.functions: dict[str, IdempotentFunction] = {}
        for function in service.functions:
            created = IdempotentFunction(
                self,
                pascal(function.name),
                code=code,
                handler=function.handler,
                timeout=Duration.seconds(function.timeout_s),
                environment={**named, **variables(self, function, self.resources, settings)},
                layers=layers,
                memory_mb=function.memory_mb,
                runtime=runtime,
                architecture=architecture,
                log_retention=log_retention,
                keeps_data=keeps_data,
                rollout=rollout,
                function_props=function_props,
            )
            self.functions[function.name] = created
            self._connect(created, function, service, api, settings)
        self.alarms = create_alarms(
            self,
            service=service,
            resources=self.resources,
            functions=self.functions,
            api=api,
            topic=alarm_topic,
        )

    def _connect(
        self,
        created: IdempotentFunction,
        function: Function,
        service: Service,
        api: IdempotentHttpApi | IdempotentRestApi | None,
        settings: Mapping[str, str | secretsmanager.ISecret],
    ) -> None:
        for variable, secret in secrets(function, settings).items():
            created.read_secret(variable, secret)
        if "ONCEKEY_TABLE" not in function.environment:
            acknowledge(
                created,
                "FunctionTable",
                "The description gives it no table, and it protects nothing.",
            )
        grant_described(created, function, service, self.resources)
        add_triggers(created, function, self.resources)
        for route in function.routes:
            assert api is not None
            api.add_route(created, route.method, route.path, authorized=route.authorized)


def _name_faults(service: Service, taken: list[str]) -> Iterator[str]:
    """The functions that would get the id of another part of the construct."""
    for function in service.functions:
        name = pascal(function.name)
        if name in taken:
            yield (
                f"function {function.name!r} would have the id {name}, which another part of the"
                f" service has: give it another name, such as {f'{function.name}-function'!r}"
            )
        taken = [*taken, name]


def _given_faults(
    scope: Construct,
    service: Service,
    api: IdempotentHttpApi | IdempotentRestApi | None,
    resources: ServiceResources | None,
) -> Iterator[str]:
    yield from _api_faults(service, api)
    yield from _name_faults(service, [_ALARMS] if resources else [_ALARMS, _RESOURCES])
    tables = [*resources.tables.values()] if resources else []
    # All tables are in one stack, so one of them stands for all.
    for table in tables[:1]:
        yield from table.region_faults(scope)


def _api_faults(
    service: Service, api: IdempotentHttpApi | IdempotentRestApi | None
) -> Iterator[str]:
    routes = [route.key for function in service.functions for route in function.routes]
    if routes and api is None:
        yield (
            f"the description has routes, such as {routes[0]!r}, and there is no API: pass"
            " api=IdempotentHttpApi(...)"
        )
    if api is not None and api.cors != service.cors:
        yield (
            "the description and the API let in different pages of browsers: pass the"
            " description's own, IdempotentHttpApi(..., cors=SERVICE.cors)"
        )
