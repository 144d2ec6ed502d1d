"""The faults of the functions, tables, buckets and routes in a description."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oncekey.store.dynamodb.schema import DUE_INDEX
from oncekey_local.description.functions import METHODS, template_faults, variable_faults
from oncekey_local.description.resources import (
    BucketName,
    QueueUrl,
    Setting,
    TableName,
    outbox_table,
    records_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oncekey_local.description import Service
    from oncekey_local.description.functions import Function
    from oncekey_local.description.resources import Attribute, Bucket, Index, Table

_DUE_SHARDS = "ONCEKEY_DUE_SHARDS"
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_MEMORY_MIN_MB, _MEMORY_MAX_MB = 128, 10_240
PLAIN_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def faults(service: Service) -> list[str]:
    """All faults, one sentence each."""
    return [
        *_duplicates(service),
        *_unknown(service, "table", service.tables, _tables_named_by),
        *_unknown(service, "bucket", service.buckets, _buckets_named_by),
        *_impossible_buckets(service),
        *(fault for bucket in service.buckets for fault in _of_expirations(bucket)),
        *_without_due_index(service),
        *_of_layers_tables(service),
        *_names(service),
        *(fault for table in service.tables for fault in _of_table(table)),
        *(fault for function in service.functions for fault in _of_limits(function)),
        *_settings(service),
        *(fault for function in service.functions for fault in _of_allows(function)),
        *_shards(service),
        *_timeouts(service),
        *_routes(service),
        *_preflights(service),
    ]


def _duplicates(service: Service) -> list[str]:
    queues = [name for queue in service.queues for name in (queue.name, queue.dead_letters)]
    kinds = (
        ("function", [function.name for function in service.functions]),
        ("table", [table.name for table in service.tables]),
        ("bucket", [bucket.name for bucket in service.buckets]),
        ("queue", queues),
        ("route", [route.key for function in service.functions for route in function.routes]),
    )
    return [
        f"{kind} {value!r} is named twice"
        for kind, values in kinds
        for value in sorted({value for value in values if values.count(value) > 1})
    ]


def _unknown(
    service: Service,
    kind: str,
    resources: Iterable[Table | Bucket],
    named_by: Callable[[Function], list[str]],
) -> list[str]:
    known = {resource.name for resource in resources}
    return [
        f"function {function.name!r} names {kind} {name!r}, which the service does not have"
        for function in service.functions
        for name in named_by(function)
        if name not in known
    ]


def _impossible_buckets(service: Service) -> list[str]:
    return [
        f"bucket {bucket.name!r} has a name that S3 would refuse: "
        "use lower-case letters, digits and hyphens"
        for bucket in service.buckets
        if not PLAIN_NAME.fullmatch(bucket.name)
    ]


def _of_expirations(bucket: Bucket) -> Iterator[str]:
    name = f"bucket {bucket.name!r}"
    for number, one in enumerate(bucket.expirations):
        if one.after_days < 1:
            yield f"{name} expires {one.prefix!r} after {one.after_days} days: at least 1"
        if one.prefix and (not one.prefix.endswith("/") or one.prefix.startswith("/")):
            # Otherwise the prefix would also match the names of other folders.
            yield f"{name} expires {one.prefix!r}: say a folder, such as 'answers/', or '' for all"
        for other in bucket.expirations[:number]:
            if one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix):
                yield (
                    f"{name} expires {other.prefix!r} and {one.prefix!r}, of which one is part of"
                    " the other: S3 would take the shorter time"
                )


def _without_due_index(service: Service) -> list[str]:
    without = {
        table.name
        for table in service.tables
        if DUE_INDEX not in [index.name for index in table.indexes]
    }
    return [
        f"function {function.name!r} reconciles table {function.reconciles!r},"
        f" which has no index {DUE_INDEX!r}"
        for function in service.functions
        if function.reconciles in without
    ]


def _of_layers_tables(service: Service) -> list[str]:
    tables = {table.name: table for table in service.tables}
    return [
        f"function {function.name!r} has {field}={name!r}, a table with another key, TTL or index"
        f" than the layer needs: use {made.__name__}({name!r})"
        for function in service.functions
        for field, name, made in (
            ("reserves_in", function.reserves_in, records_table),
            ("reconciles", function.reconciles, records_table),
            ("relays_from", function.relays_from, outbox_table),
        )
        if name in tables and not _fits(tables[name], made(name))
    ]


def _fits(table: Table, made: Table) -> bool:
    """Whether it has the layer's key and TTL, and the layer's index unless it has none."""
    due = [index for index in table.indexes if index.name == DUE_INDEX]
    return _fixed(table) == _fixed(made) and due in ([], [*made.indexes])


def _fixed(table: Table) -> tuple[Attribute, Attribute | None, str | None]:
    return table.partition_key, table.sort_key, table.ttl_attribute


def _of_table(table: Table) -> Iterator[str]:
    name = f"table {table.name!r}"
    if not _TABLE_NAME.fullmatch(table.name):
        yield f"{name} has a name that DynamoDB would refuse: use letters, digits and hyphens"
    indexes = [index.name for index in table.indexes]
    for twice in sorted({each for each in indexes if indexes.count(each) > 1}):
        yield f"{name} has the index {twice!r} twice"
    keyed: list[Table | Index] = [table, *table.indexes]
    keys = [key for each in keyed for key in (each.partition_key, each.sort_key)]
    types: dict[str, set[str]] = {}
    for key in keys:
        if key is not None:
            types.setdefault(key.name, set()).add(key.type)
    for attribute, found in types.items():
        if found not in ({"S"}, {"N"}):
            yield (
                f"{name} has the key {attribute!r} of type {' and '.join(sorted(found))}: one of S"
                " and N"
            )


def _of_limits(function: Function) -> Iterator[str]:
    # https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
    name = f"function {function.name!r}"
    if function.timeout_s < 1:
        yield f"{name} has a timeout of {function.timeout_s} s: at least 1"
    if not _MEMORY_MIN_MB <= function.memory_mb <= _MEMORY_MAX_MB:
        yield (
            f"{name} has {function.memory_mb} MB of memory: {_MEMORY_MIN_MB} to {_MEMORY_MAX_MB}"
        )
    if not all(function.handler.rpartition(".")[::2]):
        yield f"{name} has the handler {function.handler!r}: say MODULE.NAME, from the root"
    yield from (f"{name} has {fault}" for fault in variable_faults(function.environment))


def _names(service: Service) -> list[str]:
    return [
        f"function {function.name!r} has a name that AWS would refuse: "
        "use lower-case letters, digits and hyphens"
        for function in service.functions
        if not PLAIN_NAME.fullmatch(function.name)
    ]


def _settings(service: Service) -> list[str]:
    found = {
        value
        for function in service.functions
        for value in function.environment.values()
        if isinstance(value, Setting)
    }
    names = [setting.name for setting in found]
    return [
        f"setting {name!r} is described twice, differently: use one Setting for both"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def _of_allows(function: Function) -> Iterator[str]:
    for one in function.allows:
        service = {TableName: "dynamodb", BucketName: "s3", QueueUrl: "sqs"}[type(one.on)]
        for action in one.actions:
            if not re.fullmatch(rf"{service}:[A-Za-z]+", action):
                yield (
                    f"function {function.name!r} allows {action!r} on {one.on}: say a whole action"
                    f" of that resource, such as '{service}:...'"
                )
        if one.objects is not None and not isinstance(one.on, BucketName):
            yield f"function {function.name!r} allows objects of {one.on}: only buckets have any"


def _shards(service: Service) -> list[str]:
    # The reconciler never finds a record in a shard that it does not know.
    faults: list[str] = []
    for one in service.functions:
        told = {
            other.environment.get(_DUE_SHARDS)
            for other in service.functions
            if one.reconciles and one.reconciles in (other.reserves_in, other.reconciles)
        }
        if len(told) > 1:
            faults.append(
                f"function {one.name!r} reconciles table {one.reconciles!r}, whose functions are"
                f" told different numbers of {_DUE_SHARDS}: tell all of them the same"
            )
    return faults


def _timeouts(service: Service) -> list[str]:
    # An HTTP API gives up after 30 s while the function runs on: the client would never see the
    # first answer.
    return [
        f"function {function.name!r} has routes and a timeout of {function.timeout_s} s: "
        "at most 29 behind an HTTP API"
        for function in service.functions
        if function.routes and function.timeout_s > 29
    ]


def _buckets_named_by(function: Function) -> list[str]:
    referenced = [
        value.bucket for value in function.environment.values() if isinstance(value, BucketName)
    ]
    allowed = [one.on.bucket for one in function.allows if isinstance(one.on, BucketName)]
    held = (function.keeps_answers_in, function.reads_answers_in)
    return sorted({*referenced, *allowed, *(name for name in held if name)})


def _tables_named_by(function: Function) -> list[str]:
    referenced = [
        value.table for value in function.environment.values() if isinstance(value, TableName)
    ]
    touched = (
        *function.reads,
        *function.writes,
        *function.updates,
        *function.deletes,
        *function.checks,
        *function.queries,
        *function.scans,
        *(one.on.table for one in function.allows if isinstance(one.on, TableName)),
    )
    streamed = [trigger.table for trigger in function.streams]
    roles = (function.reserves_in, function.reconciles, function.relays_from)
    named = [name for name in roles if name]
    return sorted({*referenced, *touched, *streamed, *named})


def _routes(service: Service) -> Iterator[str]:
    for function in service.functions:
        for route in function.routes:
            if route.method not in METHODS:
                yield f"route {route.key!r}: the method is one of {', '.join(METHODS)}"
            if not route.path.startswith("/"):
                yield f"route {route.key!r}: the path must begin with a slash"
            yield from (f"route {route.key!r}: {fault}" for fault in template_faults(route.path))


def _preflights(service: Service) -> list[str]:
    return [
        f"route {route.key!r} needs a token and would take the browsers' preflights, which have"
        " none: name its methods, without OPTIONS"
        for function in service.functions
        for route in function.routes
        if service.cors and route.authorized and route.method in {"ANY", "OPTIONS"}
    ]
