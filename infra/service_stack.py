"""The stack that a deployment may replace: layer, functions, API, alarms and grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack

from infra.alarms import add_alarms
from infra.event_sources import add_event_sources
from infra.log_groups import log_retention
from infra.names import pascal
from infra.oncekey_cdk import IdempotencyTable, IdempotentHttpApi
from infra.oncekey_cdk.event_sources import grant_send
from infra.oncekey_cdk.grants import RELAY_ACTIONS, SWEEP_ACTIONS
from infra.schedules import add_schedule
from infra.service_function import ServiceFunction, layer_version

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from infra.oncekey_cdk import IdempotentFunction
    from infra.resources import Resources
    from oncekey_local.description import Function, Service

READ_ACTIONS = ("dynamodb:GetItem",)
WRITE_ACTIONS = ("dynamodb:PutItem",)
UPDATE_ACTIONS = ("dynamodb:UpdateItem",)
DELETE_ACTIONS = ("dynamodb:DeleteItem",)
SCAN_ACTIONS = ("dynamodb:Scan",)
REPORT_ACTIONS = ("s3:PutObject",)


class ServiceStack(Stack):
    """The functions of a service behind its HTTP API, each with its own exact grants."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: Service,
        environment: Environment,
        resources: Resources,
    ) -> None:
        super().__init__(scope, construct_id)
        layer = layer_version(self, "Layer", target=environment.runtime)
        api = IdempotentHttpApi(
            self,
            "HttpApi",
            jwt_issuer=environment.jwt_issuer,
            jwt_audience=[environment.jwt_audience],
            cors=service.cors,
            requests_per_second=environment.requests_per_second,
            burst_requests=environment.burst_requests,
            log_retention=log_retention(environment),
            keeps_data=environment.keeps_data,
            api_props={"api_name": f"{service.name}-{environment.stage}"},
        )
        functions: list[IdempotentFunction] = []
        for function in service.functions:
            created = ServiceFunction(
                self,
                pascal(function.name),
                function=function,
                layer=layer,
                resources=resources,
                environment=environment,
            )
            _grant(created, function, resources)
            add_event_sources(created, function, resources)
            if function.schedule:
                add_schedule(created, function.schedule, resources)
            for route in function.routes:
                api.add_route(created, route.method, route.path, authorized=route.authorized)
            functions.append(created)
        add_alarms(self, service=service, resources=resources, functions=functions, api=api)
        CfnOutput(self, "ApiUrl", value=api.api.api_endpoint)


def _grant(created: ServiceFunction, function: Function, resources: Resources) -> None:
    if function.reserves_in:
        _records(function.reserves_in, resources).grant_reserve(created)
    if function.reconciles:
        _records(function.reconciles, resources).grant_reconcile(created)
    if function.relays_from:
        is_ordered = any(resources.queues[name].fifo for name in function.sends_to)
        actions = (*RELAY_ACTIONS, *SWEEP_ACTIONS) if is_ordered else RELAY_ACTIONS
        resources.tables[function.relays_from].allow(created, *actions)
    touched = {
        READ_ACTIONS: function.reads,
        WRITE_ACTIONS: function.writes,
        UPDATE_ACTIONS: function.updates,
        DELETE_ACTIONS: function.deletes,
        SCAN_ACTIONS: function.scans,
    }
    for name in sorted({name for names in touched.values() for name in names}):
        allowed = [one for actions, names in touched.items() if name in names for one in actions]
        resources.tables[name].allow(created, *allowed)
    for name in function.sends_to:
        grant_send(created, resources.queues[name])
    if function.keeps_answers_in:
        resources.buckets[function.keeps_answers_in].grant_keep(created)
    if function.reads_answers_in:
        resources.buckets[function.reads_answers_in].grant_fetch(created)
    if function.writes_reports_in:
        bucket = resources.buckets[function.writes_reports_in].bucket
        created.allow(bucket.arn_for_objects("reports/*"), *REPORT_ACTIONS)


def _records(name: str, resources: Resources) -> IdempotencyTable:
    table = resources.tables[name]
    assert isinstance(table, IdempotencyTable)
    return table
