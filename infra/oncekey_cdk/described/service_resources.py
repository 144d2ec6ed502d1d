"""The tables, buckets and queues of a described service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from aws_cdk import Duration
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import Construct

from oncekey.store.dynamodb.schema import DUE_INDEX
from oncekey_local.description import BucketName

from ..arguments import explained
from ..idempotency_table import IdempotencyTable
from ..outbox import OutboxTable
from ..response_bucket import ResponseBucket
from ..safe_table import SafeTable
from .names import pascal
from .queues import create_queues

if TYPE_CHECKING:
    from aws_cdk import aws_sqs as sqs

    from oncekey_local.description import Attribute, Bucket, Function, Index, Service, Table

_STREAM = dynamodb.StreamViewType.NEW_AND_OLD_IMAGES
_TYPES = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}


@explained
class ServiceResources(Construct):
    """The tables, buckets and queues of a description: what a deployment must not lose.

    Create it in a stack of its own, and pass it to `IdempotentService` in another stack, if the
    functions are to be replaced without their data. The logical ids of tables depend on where this
    construct stands: do not move or rename it after a deployment.

    Attributes:
        tables: By their names in the description.
        buckets: The same.
        queues: The same, dead-letter queues too.

    Args:
        service: The description.
        keeps_data: Whether everything is kept when the stack is deleted.
    """

    def __init__(
        self, scope: Construct, construct_id: str, service: Service, *, keeps_data: bool = True
    ) -> None:
        super().__init__(scope, construct_id)
        self.tables: dict[str, SafeTable] = {
            table.name: self._table(table, service, keeps_data=keeps_data)
            for table in service.tables
        }
        self.buckets = {
            bucket.name: self._bucket(bucket, service, keeps_data=keeps_data)
            for bucket in service.buckets
        }
        self.queues: dict[str, sqs.Queue] = {}
        for queue in service.queues:
            self.queues.update(create_queues(self, queue, service, keeps_data=keeps_data))

    def _bucket(self, bucket: Bucket, service: Service, *, keeps_data: bool) -> ResponseBucket:
        construct_id = f"{pascal(bucket.name)}Bucket"
        days = {one.prefix: one.after_days for one in bucket.expirations}
        if any(_keeps_answers(function, bucket.name) for function in service.functions):
            return ResponseBucket(self, construct_id, expire_after_days=days, keeps_data=keeps_data)
        # It holds no step results, which no rule of the layer's own bucket may remove.
        rules = [
            s3.LifecycleRule(expiration=Duration.days(after), prefix=prefix or None)
            for prefix, after in days.items()
        ]
        return ResponseBucket(
            self,
            construct_id,
            expire_after_days={},
            keeps_data=keeps_data,
            bucket_props={"lifecycle_rules": rules},
        )

    def _table(self, table: Table, service: Service, *, keeps_data: bool) -> SafeTable:
        construct_id = f"{pascal(table.name)}Table"
        functions = service.functions
        indexes = {index.name: _index(index) for index in table.indexes}
        created: SafeTable
        if table.name in {name for one in functions for name in (one.reserves_in, one.reconciles)}:
            created = IdempotencyTable(
                self,
                construct_id,
                due_index=indexes.pop(DUE_INDEX, None) is not None,
                keeps_data=keeps_data,
                table_props={"stream": _STREAM} if table.stream else None,
            )
        elif table.name in {one.relays_from for one in functions} and table.stream:
            created = OutboxTable(self, construct_id, keeps_data=keeps_data)
        else:
            created = SafeTable(
                self,
                construct_id,
                partition_key=_attribute(table.partition_key),
                sort_key=_attribute(table.sort_key) if table.sort_key else None,
                ttl_attribute=table.ttl_attribute,
                stream=table.stream,
                keeps_data=keeps_data,
            )
        for index in indexes.values():
            cast("dynamodb.Table", created.table).add_global_secondary_index(**index)
        return created


def _keeps_answers(function: Function, bucket: str) -> bool:
    named = function.environment.get("ONCEKEY_RESPONSE_BUCKET")
    return bucket in (function.keeps_answers_in, function.reads_answers_in) or named == BucketName(
        bucket
    )


def _index(index: Index) -> dict[str, Any]:
    return {
        "index_name": index.name,
        "partition_key": _attribute(index.partition_key),
        "sort_key": _attribute(index.sort_key) if index.sort_key else None,
        "projection_type": (
            dynamodb.ProjectionType.ALL
            if index.all_attributes
            else dynamodb.ProjectionType.KEYS_ONLY
        ),
    }


def _attribute(attribute: Attribute) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=attribute.name, type=_TYPES[attribute.type])
