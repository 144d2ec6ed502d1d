"""What a deployment must not lose: tables, buckets, queues, in a stack that code changes not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from infra.names import pascal
from infra.queues import create_queues

if TYPE_CHECKING:
    from constructs import Construct

    from infra.environments import Environment
    from oncekey_local.description import Attribute, Bucket, Service, Table

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
        self.tables: dict[str, dynamodb.Table] = {
            table.name: self._table(table, environment) for table in service.tables
        }
        for name, table in self.tables.items():
            CfnOutput(self, f"{pascal(name)}TableName", value=table.table_name)

        self.buckets: dict[str, s3.Bucket] = {
            bucket.name: self._bucket(bucket, environment) for bucket in service.buckets
        }
        for name, created in self.buckets.items():
            CfnOutput(self, f"{pascal(name)}BucketName", value=created.bucket_name)

        self.queues: dict[str, sqs.Queue] = {}
        for queue in service.queues:
            self.queues.update(create_queues(self, queue, service, environment))
        for name, created_queue in self.queues.items():
            CfnOutput(self, f"{pascal(name)}QueueUrl", value=created_queue.queue_url)

    def _bucket(self, bucket: Bucket, environment: Environment) -> s3.Bucket:
        return s3.Bucket(
            self,
            f"{pascal(bucket.name)}Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=Duration.days(one.after_days), prefix=one.prefix or None
                )
                for one in bucket.expirations
            ],
            removal_policy=(
                RemovalPolicy.RETAIN if environment.keeps_data else RemovalPolicy.DESTROY
            ),
        )

    def _table(self, table: Table, environment: Environment) -> dynamodb.Table:
        # `Table`, not `TableV2`: the latter is a global table to CloudFormation, which local
        # engines ignore. No table name: a retained one would block the next fresh deployment.
        # Encryption is DynamoDB's default, under a key that AWS owns.
        created = dynamodb.Table(
            self,
            f"{pascal(table.name)}Table",
            partition_key=_attribute(table.partition_key),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=table.ttl_attribute,
            stream=dynamodb.StreamViewType.NEW_AND_OLD_IMAGES if table.stream else None,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=environment.keeps_data,
            removal_policy=(
                RemovalPolicy.RETAIN if environment.keeps_data else RemovalPolicy.DESTROY
            ),
        )
        for index in table.indexes:
            created.add_global_secondary_index(
                index_name=index.name,
                partition_key=_attribute(index.partition_key),
                sort_key=_attribute(index.sort_key) if index.sort_key else None,
                projection_type=dynamodb.ProjectionType.KEYS_ONLY,
            )
        return created


def _attribute(attribute: Attribute) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=attribute.name, type=_TYPES[attribute.type])
