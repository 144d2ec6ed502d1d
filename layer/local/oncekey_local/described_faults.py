"""What can be wrong with the functions, tables, buckets and routes of a description."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oncekey_local.described_resources import BucketName, TableName

if TYPE_CHECKING:
    from oncekey_local.described_functions import Function
    from oncekey_local.description import Service

PLAIN_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def faults(service: Service) -> list[str]:
    """Everything that is wrong, one sentence each."""
    return [
        *_duplicates(service),
        *_unknown_tables(service),
        *_unknown_buckets(service),
        *_impossible_buckets(service),
        *_timeouts(service),
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


def _unknown_tables(service: Service) -> list[str]:
    known = {table.name for table in service.tables}
    return [
        f"function {function.name!r} names table {name!r}, which the service does not have"
        for function in service.functions
        for name in _tables_named_by(function)
        if name not in known
    ]


def _unknown_buckets(service: Service) -> list[str]:
    known = {bucket.name for bucket in service.buckets}
    return [
        f"function {function.name!r} names bucket {name!r}, which the service does not have"
        for function in service.functions
        for name in _buckets_named_by(function)
        if name not in known
    ]


def _impossible_buckets(service: Service) -> list[str]:
    names = [
        f"bucket {bucket.name!r} has a name that S3 would refuse: "
        "use lower-case letters, digits and hyphens"
        for bucket in service.buckets
        if not PLAIN_NAME.fullmatch(bucket.name)
    ]
    return names + [
        f"bucket {bucket.name!r} expires after {bucket.expire_after_days} days: "
        "at least 1, or None for never"
        for bucket in service.buckets
        if bucket.expire_after_days is not None and bucket.expire_after_days < 1
    ]


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
    held = [name for name in (function.keeps_answers_in, function.reads_answers_in) if name]
    return sorted({*referenced, *held})


def _tables_named_by(function: Function) -> list[str]:
    referenced = [
        value.table for value in function.environment.values() if isinstance(value, TableName)
    ]
    touched = (*function.reads, *function.writes, *function.updates, *function.deletes)
    streamed = [trigger.table for trigger in function.streams]
    named = [name for name in (function.reserves_in, function.relays_from) if name]
    return sorted({*referenced, *touched, *streamed, *named})
