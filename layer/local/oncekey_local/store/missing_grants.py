"""Which field of a function grants an action: what a refusal tells the developer to add."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.schema import DUE_INDEX
from oncekey_local.description import (
    BucketName,
    Function,
    QueueTrigger,
    QueueUrl,
    TableName,
    outbox_table,
    records_table,
)
from oncekey_local.description.grants import ON_TABLES, Grant, grants_of
from oncekey_local.functions.environment import arn_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.description import Service, Table

_NOTHING = Function(name="any", handler="any.handler", timeout_s=1)


def remedies(service: Service) -> list[tuple[str, str, str]]:
    """For each action on an ARN, the field to add. The first one that fits is the best.

    Those without an action are for all that no field grants.
    """
    return [
        (action, arn_of(service, grant), text)
        for text, function in _fields(service)
        for grant in grants_of(service, function)
        for action in grant.actions
    ] + [("", arn_of(service, grant), text) for grant, text in _others(service)]


def _fields(service: Service) -> Iterator[tuple[str, Function]]:
    """The fields as they are written, with one resource each, and a function that has them."""
    for table in service.tables:
        for field in _of_table(table):
            is_tuple = field in ON_TABLES
            written = f'("{table.name}",)' if is_tuple else f'"{table.name}"'
            given: dict[str, Any] = {field: (table.name,) if is_tuple else table.name}
            yield f"{field}={written}", dataclasses.replace(_NOTHING, **given)
    for name in (name for queue in service.queues for name in (queue.name, queue.dead_letters)):
        yield f'sends_to=("{name}",)', dataclasses.replace(_NOTHING, sends_to=(name,))
        trigger = QueueTrigger(queue=name)
        receiving = dataclasses.replace(_NOTHING, queues=(trigger,))
        yield f'queues=(QueueTrigger(queue="{name}"),)', receiving
    for bucket in sorted(_of_answers(service)):
        keeping = dataclasses.replace(_NOTHING, keeps_answers_in=bucket)
        yield f'keeps_answers_in="{bucket}"', keeping


def _of_table(table: Table) -> list[str]:
    """The fields for a table. What the layer does to its own tables comes first."""
    if table.partition_key == records_table("").partition_key and DUE_INDEX in {
        index.name for index in table.indexes
    }:
        return ["reserves_in", "reconciles", *ON_TABLES]
    if table.partition_key == outbox_table("").partition_key and table.stream:
        return ["writes", "relays_from", *ON_TABLES]
    return [*ON_TABLES]


def _of_answers(service: Service) -> set[str]:
    return {
        value.bucket
        for function in service.functions
        for name, value in function.environment.items()
        if name == "ONCEKEY_RESPONSE_BUCKET" and isinstance(value, BucketName)
    }


def _others(service: Service) -> Iterator[tuple[Grant, str]]:
    queues = (name for queue in service.queues for name in (queue.name, queue.dead_letters))
    resources: tuple[TableName | BucketName | QueueUrl, ...] = (
        *(TableName(table.name) for table in service.tables),
        *(BucketName(bucket.name) for bucket in service.buckets),
        *map(QueueUrl, queues),
    )
    for on in resources:
        (name,) = dataclasses.astuple(on)
        written = f'Allow(actions=("{{action}}",), on={type(on).__name__}("{name}"))'
        yield Grant(field="allows", actions=(), on=on), f"allows=({written},)"
        if isinstance(on, BucketName):
            written = written[:-1] + ', objects="")'
            yield Grant(field="allows", actions=(), on=on, below="/*"), f"allows=({written},)"
