"""The stack that a deployment must not lose: tables, buckets and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Place

from infra.oncekey_cdk import AuditTable, OncekeyOperators, ServiceResources
from infra.oncekey_cdk.described.names import pascal

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from oncekey_local.description import Service


class StatefulStack(Stack):
    """The tables, buckets and queues of a service."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: Service,
        environment: Environment,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=Place(account=environment.account, region=environment.region),
            termination_protection=environment.keeps_data,
        )
        # With the id `Default` the tables have the logical ids that were released.
        self.resources = ServiceResources(
            self, "Default", service, keeps_data=environment.keeps_data
        )
        for name, table in self.resources.tables.items():
            CfnOutput(self, f"{pascal(name)}TableName", value=table.table_name)
        for name, bucket in self.resources.buckets.items():
            CfnOutput(self, f"{pascal(name)}BucketName", value=bucket.bucket_name)
        for name, queue in self.resources.queues.items():
            CfnOutput(self, f"{pascal(name)}QueueUrl", value=queue.queue_url)
        if any("ONCEKEY_TABLE" in function.environment for function in service.functions):
            OncekeyOperators.described(
                self,
                "Operators",
                service,
                resources=self.resources,
                audit=AuditTable(self, "AuditTable", keeps_data=environment.keeps_data),
            )
