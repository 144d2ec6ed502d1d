"""What a deployment may replace at will: layer, functions, API and alarms, who may do what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack

from infra.alarms import Alarms
from infra.event_sources import SEND_ACTIONS, add_event_sources
from infra.http_api import ServiceApi
from infra.names import pascal
from infra.schedules import add_schedule
from infra.service_function import ServiceFunction, layer_version
from oncekey_local.described_resources import DUE_INDEX

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from infra.resources import Resources
    from oncekey_local.description import Function, Service

# What the layer calls on the idempotency table. No DeleteItem (a record ends by its TTL), no Query
# or Scan, and nothing on the index.
RESERVE_ACTIONS = ("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:GetItem")
# The reconciler does the same to the records that it has found on the index.
DUE_ACTIONS = ("dynamodb:Query",)
# The relay deletes in batches. To IAM they are a matter of their own.
RELAY_ACTIONS = ("dynamodb:BatchWriteItem",)
READ_ACTIONS = ("dynamodb:GetItem",)
WRITE_ACTIONS = ("dynamodb:PutItem",)
UPDATE_ACTIONS = ("dynamodb:UpdateItem",)
DELETE_ACTIONS = ("dynamodb:DeleteItem",)
SCAN_ACTIONS = ("dynamodb:Scan",)
REPORT_ACTIONS = ("s3:PutObject",)


class ServiceStack(Stack):
    """The functions of a service behind its HTTP API, each with exactly its own grants.

    `whole_batches` are the logical ids of the event sources that take no partial answers, because
    the description says so.
    """

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
        self.whole_batches: set[str] = set()
        layer = layer_version(self, "Layer", target=environment.runtime)
        api = ServiceApi(
            self, "HttpApi", name=f"{service.name}-{environment.stage}", environment=environment
        )
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
            for mapping in add_event_sources(created, function, resources):
                self.whole_batches.add(self.get_logical_id(mapping))
            if function.schedule:
                add_schedule(created, function.schedule, resources)
            api.add_routes(created.function, function.routes)
        Alarms(self, "Alarms", service=service, resources=resources)
        CfnOutput(self, "ApiUrl", value=api.api.api_endpoint)


def _grant(created: ServiceFunction, function: Function, resources: Resources) -> None:
    if function.reserves_in:
        created.allow(resources.tables[function.reserves_in].table_arn, *RESERVE_ACTIONS)
    if function.reconciles:
        table_arn = resources.tables[function.reconciles].table_arn
        created.allow(table_arn, *RESERVE_ACTIONS)
        created.allow(f"{table_arn}/index/{DUE_INDEX}", *DUE_ACTIONS)
    if function.relays_from:
        created.allow(resources.tables[function.relays_from].table_arn, *RELAY_ACTIONS)
    touched = {
        READ_ACTIONS: function.reads,
        WRITE_ACTIONS: function.writes,
        UPDATE_ACTIONS: function.updates,
        DELETE_ACTIONS: function.deletes,
        SCAN_ACTIONS: function.scans,
    }
    for name in sorted({name for names in touched.values() for name in names}):
        allowed = [one for actions, names in touched.items() if name in names for one in actions]
        created.allow(resources.tables[name].table_arn, *allowed)
    for name in function.sends_to:
        created.allow(resources.queues[name].queue_arn, *SEND_ACTIONS)
    if function.keeps_answers_in:
        created.allow_answers(resources.buckets[function.keeps_answers_in])
    if function.reads_answers_in:
        created.allow_answers(resources.buckets[function.reads_answers_in], may_keep=False)
    if function.writes_reports_in:
        reports_arn = resources.buckets[function.writes_reports_in].arn_for_objects("reports/*")
        created.allow(reports_arn, *REPORT_ACTIONS)
