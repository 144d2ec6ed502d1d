"""What a deployment may replace at will: layer, functions and API, and who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3

from infra.http_api import ServiceApi
from infra.service_function import ServiceFunction, layer_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from constructs import Construct

    from infra.environments import Environment
    from oncekey_local.description import Function, Service

# What the layer calls on the idempotency table. No DeleteItem (a record ends by its TTL), no Query
# or Scan (the reconciler's), and nothing on the index.
RESERVE_ACTIONS = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem")
READ_ACTIONS = ("dynamodb:GetItem",)
WRITE_ACTIONS = ("dynamodb:PutItem",)


class ServiceStack(Stack):
    """The functions of a service behind its HTTP API, each with exactly its own grants."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: Service,
        environment: Environment,
        tables: Mapping[str, dynamodb.ITable],
        buckets: Mapping[str, s3.IBucket],
    ) -> None:
        super().__init__(scope, construct_id)
        layer = layer_version(self, "Layer")
        api = ServiceApi(
            self, "HttpApi", name=f"{service.name}-{environment.stage}", environment=environment
        )
        for function in service.functions:
            created = ServiceFunction(
                self,
                function.name.capitalize(),
                function=function,
                layer=layer,
                tables=tables,
                buckets=buckets,
                environment=environment,
            )
            _grant(created, function, tables)
            if function.keeps_answers_in:
                created.allow_answers(buckets[function.keeps_answers_in])
            api.add_routes(created.function, function.routes)
        CfnOutput(self, "ApiUrl", value=api.api.api_endpoint)


def _grant(
    created: ServiceFunction, function: Function, tables: Mapping[str, dynamodb.ITable]
) -> None:
    if function.reserves_in:
        created.allow(tables[function.reserves_in], *RESERVE_ACTIONS)
    for name in sorted({*function.reads, *function.writes}):
        actions = (
            *(READ_ACTIONS if name in function.reads else ()),
            *(WRITE_ACTIONS if name in function.writes else ()),
        )
        created.allow(tables[name], *actions)
