"""What the fields of a described function allow it to do, and on which resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.store.dynamodb.schema import DUE_INDEX
from oncekey_local.description import actions
from oncekey_local.description.resources import BucketName, QueueUrl, TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey_local.description import Function, Service

STREAM = "/stream/*"
_OBJECTS = "/*"
# The fields of tables that allow the same on each of them.
ON_TABLES = {
    "reads": actions.READ_ACTIONS,
    "writes": actions.WRITE_ACTIONS,
    "updates": actions.UPDATE_ACTIONS,
    "deletes": actions.DELETE_ACTIONS,
    "checks": actions.CHECK_ACTIONS,
    "queries": actions.QUERY_ACTIONS,
    "scans": actions.SCAN_ACTIONS,
}


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Actions on one resource of the description.

    `field` of the function gives them. `below` is what follows in the ARN after that of the table,
    bucket or queue: of an index, a stream or objects.
    """

    field: str
    actions: tuple[str, ...]
    on: TableName | BucketName | QueueUrl
    below: str = ""


def grants_of(service: Service, function: Function) -> Iterator[Grant]:
    """All that the role of `function` may do, apart from logs, traces and secrets."""
    yield from _of_records(function)
    yield from _of_outbox(service, function)
    yield from _of_tables(service, function)
    for name in function.sends_to:
        yield Grant(field="sends_to", actions=actions.SEND_ACTIONS, on=QueueUrl(name))
    yield from _of_answers(function)
    for one in function.allows:
        below = "" if one.objects is None else f"/{one.objects}*"
        yield Grant(field="allows", actions=one.actions, on=one.on, below=below)
    yield from _of_triggers(function)


def _of_records(function: Function) -> Iterator[Grant]:
    for field, name in (
        ("reserves_in", function.reserves_in),
        ("reconciles", function.reconciles),
    ):
        if name:
            yield Grant(field=field, actions=actions.RESERVE_ACTIONS, on=TableName(name))
    if function.reconciles:
        records = TableName(function.reconciles)
        due = f"/index/{DUE_INDEX}"
        yield Grant(field="reconciles", actions=actions.DUE_ACTIONS, on=records, below=due)


def _of_outbox(service: Service, function: Function) -> Iterator[Grant]:
    if function.relays_from:
        fifo = {name for one in service.queues if one.fifo for name in (one.name, one.dead_letters)}
        in_order = actions.SWEEP_ACTIONS if fifo & {*function.sends_to} else ()
        allowed = (*actions.RELAY_ACTIONS, *in_order)
        yield Grant(field="relays_from", actions=allowed, on=TableName(function.relays_from))


def _of_tables(service: Service, function: Function) -> Iterator[Grant]:
    indexes = {table.name: table.indexes for table in service.tables}
    for field, allowed in ON_TABLES.items():
        for name in getattr(function, field):
            yield Grant(field=field, actions=allowed, on=TableName(name))
            for index in indexes.get(name, ()) if field == "queries" else ():
                below = f"/index/{index.name}"
                yield Grant(field=field, actions=allowed, on=TableName(name), below=below)


def _of_answers(function: Function) -> Iterator[Grant]:
    for field, allowed, name in (
        ("keeps_answers_in", actions.KEEP_ACTIONS, function.keeps_answers_in),
        ("reads_answers_in", actions.FETCH_ACTIONS, function.reads_answers_in),
    ):
        if name:
            bucket = BucketName(name)
            yield Grant(field=field, actions=allowed, on=bucket, below=_OBJECTS)
            yield Grant(field=field, actions=actions.LIST_ACTIONS, on=bucket)


def _of_triggers(function: Function) -> Iterator[Grant]:
    """What Lambda does under the function's role, for its triggers."""
    for trigger in function.queues:
        yield Grant(field="queues", actions=actions.RECEIVE_ACTIONS, on=QueueUrl(trigger.queue))
    for stream in function.streams:
        table = TableName(stream.table)
        yield Grant(field="streams", actions=actions.STREAM_ACTIONS, on=table, below=STREAM)
        if stream.on_failure:
            queue = QueueUrl(stream.on_failure)
            yield Grant(field="streams", actions=actions.SEND_ACTIONS, on=queue)
    if function.schedule and function.schedule.on_failure:
        queue = QueueUrl(function.schedule.on_failure)
        yield Grant(field="schedule", actions=actions.SEND_ACTIONS, on=queue)
