"""The stack that a deployment must not lose: tables, buckets and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Stack
from aws_cdk import aws_dynamodb as dynamodb

from infra.names import pascal
from infra.oncekey_cdk import IdempotencyTable, OutboxTable, ResponseBucket, SafeTable
from infra.queues import create_queues

if TYPE_CHECKING:
    from aws_cdk import aws_sqs as sqs
    from constructs import Construct

    from infra.environments import Environment
    from oncekey_local.description import Attribute, Index, Service, Table

_TYPES = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}


class StatefulStack(Stack):
    """The tables, buckets and queues of a service, by their names in its description."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        service: Service,
        environment: Environment,
    ) -> None:
        super().__init__(scope, construct_id, termination_protection=environment.keeps_data)
        self.tables: dict[str, SafeTable] = {
            table.name: self._table(table, service, keeps_data=environment.keeps_data)
            for table in service.tables
        }
        for name, table in self.tables.items():
            CfnOutput(self, f"{pascal(name)}TableName", value=table.table_name)

        self.buckets = {
            bucket.name: ResponseBucket(
                self,
                f"{pascal(bucket.name)}Bucket",
                expire_after_days={one.prefix: one.after_days for one in bucket.expirations},
                keeps_data=environment.keeps_data,
            )
            for bucket in service.buckets
        }
        for name, created in self.buckets.items():
            CfnOutput(self, f"{pascal(name)}BucketName", value=created.bucket_name)

        self.queues: dict[str, sqs.Queue] = {}
        for queue in service.queues:
            self.queues.update(create_queues(self, queue, service, environment))
        for name, created_queue in self.queues.items():
            CfnOutput(self, f"{pascal(name)}QueueUrl", value=created_queue.queue_url)

    def _table(self, table: Table, service: Service, *, keeps_data: bool) -> SafeTable:
        construct_id = f"{pascal(table.name)}Table"
        functions = service.functions
        if table.name in {name for one in functions for name in (one.reserves_in, one.reconciles)}:
            return IdempotencyTable(self, construct_id, keeps_data=keeps_data)
        if table.name in {one.relays_from for one in functions} and table.stream:
            return OutboxTable(self, construct_id, keeps_data=keeps_data)
        return SafeTable(
            self,
            construct_id,
            partition_key=_attribute(table.partition_key),
            ttl_attribute=table.ttl_attribute,
            indexes=[_index(index) for index in table.indexes],
            stream=table.stream,
            keeps_data=keeps_data,
        )


def _index(index: Index) -> dict[str, object]:
    return {
        "index_name": index.name,
        "partition_key": _attribute(index.partition_key),
        "sort_key": _attribute(index.sort_key) if index.sort_key else None,
        "projection_type": dynamodb.ProjectionType.KEYS_ONLY,
    }


def _attribute(attribute: Attribute) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=attribute.name, type=_TYPES[attribute.type])
