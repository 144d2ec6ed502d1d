"""What a described function may do, and to which resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_local.description import BucketName, QueueUrl, TableName
from oncekey_local.description.actions import SEND_ACTIONS
from oncekey_local.description.grants import grants_of

from ..grants import (
    FETCH_KEY_ACTIONS,
    KEEP_KEY_ACTIONS,
    RECEIVE_KEY_ACTIONS,
    SEND_KEY_ACTIONS,
    allow,
    allow_key,
)
from ..idempotency_table import IdempotencyTable

if TYPE_CHECKING:
    from oncekey_local.description import Function, Service

    from ..idempotent_function import IdempotentFunction
    from .service_resources import ServiceResources

# Whoever connects a trigger grants what it needs.
_OF_TRIGGERS = ("queues", "streams", "schedule")


def grant_described(
    created: IdempotentFunction, function: Function, service: Service, resources: ServiceResources
) -> None:
    """Let the function do exactly what its description says, one statement for each resource."""
    allowed: dict[tuple[TableName | BucketName | QueueUrl, str], list[str]] = {}
    for grant in grants_of(service, function):
        if grant.field not in _OF_TRIGGERS:
            allowed.setdefault((grant.on, grant.below), []).extend(grant.actions)
    for (on, below), actions in allowed.items():
        _allow(created, [*dict.fromkeys(actions)], on, below, resources)
    for name in dict.fromkeys((function.reserves_in, function.reconciles)):
        if name is not None:
            records = resources.tables[name]
            assert isinstance(records, IdempotencyTable)
            records.deny_pauses(created)


def _allow(
    created: IdempotentFunction,
    actions: list[str],
    on: TableName | BucketName | QueueUrl,
    below: str,
    resources: ServiceResources,
) -> None:
    match on:
        case TableName(table=name):
            resources.tables[name].allow(created, *actions, below=below)
        case QueueUrl(queue=name):
            queue = resources.queues[name]
            allow(created, actions, queue.queue_arn)
            sends = {*SEND_ACTIONS} <= {*actions}
            key_actions = SEND_KEY_ACTIONS if sends else RECEIVE_KEY_ACTIONS
            allow_key(created, key_actions, queue.encryption_master_key, service="sqs")
        case BucketName(bucket=name):
            bucket = resources.buckets[name]
            allow(created, actions, f"{bucket.bucket.bucket_arn}{below}")
            writes = not {*actions} <= {"s3:GetObject", "s3:ListBucket"}
            key_actions = KEEP_KEY_ACTIONS if writes else FETCH_KEY_ACTIONS
            allow_key(created, key_actions, bucket.encryption_key, service="s3")
