"""What a described function may do, and to which resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..event_sources import grant_send
from ..grants import RELAY_ACTIONS, SWEEP_ACTIONS
from ..idempotency_table import IdempotencyTable

if TYPE_CHECKING:
    from oncekey_local.description import Function

    from ..idempotent_function import IdempotentFunction
    from .resources import ServiceResources

READ_ACTIONS = ("dynamodb:GetItem",)
WRITE_ACTIONS = ("dynamodb:PutItem",)
UPDATE_ACTIONS = ("dynamodb:UpdateItem",)
DELETE_ACTIONS = ("dynamodb:DeleteItem",)
SCAN_ACTIONS = ("dynamodb:Scan",)
REPORT_ACTIONS = ("s3:PutObject",)


def grant_described(
    created: IdempotentFunction, function: Function, resources: ServiceResources
) -> None:
    """Let the function do exactly what its description says."""
    if function.reserves_in:
        _records(function.reserves_in, resources).grant_reserve(created)
    if function.reconciles:
        _records(function.reconciles, resources).grant_reconcile(created)
    if function.relays_from:
        is_ordered = any(resources.queues[name].fifo for name in function.sends_to)
        actions = (*RELAY_ACTIONS, *SWEEP_ACTIONS) if is_ordered else RELAY_ACTIONS
        resources.tables[function.relays_from].allow(created, *actions)
    touched = {
        READ_ACTIONS: function.reads,
        WRITE_ACTIONS: function.writes,
        UPDATE_ACTIONS: function.updates,
        DELETE_ACTIONS: function.deletes,
        SCAN_ACTIONS: function.scans,
    }
    for name in sorted({name for names in touched.values() for name in names}):
        allowed = [one for actions, names in touched.items() if name in names for one in actions]
        resources.tables[name].allow(created, *allowed)
    for name in function.sends_to:
        grant_send(created, resources.queues[name])
    if function.keeps_answers_in:
        resources.buckets[function.keeps_answers_in].grant_keep(created)
    if function.reads_answers_in:
        resources.buckets[function.reads_answers_in].grant_fetch(created)
    if function.writes_reports_in:
        bucket = resources.buckets[function.writes_reports_in].bucket
        created.allow(bucket.arn_for_objects("reports/*"), *REPORT_ACTIONS)


def _records(name: str, resources: ServiceResources) -> IdempotencyTable:
    table = resources.tables[name]
    assert isinstance(table, IdempotencyTable)
    return table
