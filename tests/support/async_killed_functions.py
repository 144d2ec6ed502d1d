"""Handlers under `mode="queued"` whose processes are killed at each of their calls."""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from oncekey import Operation, idempotent, single_tenant
from oncekey.queued.jobs import Jobs
from tests.support.killed_functions import BUSINESS_TABLE, CLOCK, send_charge

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = dict[str, Any]


@idempotent(
    operation="POST /recorded-job",
    tenant=single_tenant(),
    effects="recorded",
    mode="queued",
    clock=CLOCK,
)
def _recorded(_event: Answer, _context: object, op: Operation) -> Answer:
    """A charge under a key, and an item that counts its writes."""
    charge = functools.partial(send_charge, op, "charge", is_keyed=True)
    charged = op.step("charge", charge, idempotent=True)
    op.transaction.update(
        BUSINESS_TABLE,
        {"pk": op.operation_id},
        "SET charge = :charge ADD writes :one",
        values={":charge": charged["id"], ":one": 1},
    )
    return _answer(op, charged)


@idempotent(operation="POST /unrecorded-job", tenant=single_tenant(), mode="queued", clock=CLOCK)
def _unrecorded(_event: Answer, _context: object, op: Operation) -> Answer:
    """A charge that the provider would make as often as it is asked."""
    return _answer(op, send_charge(op, "charge", is_keyed=False))


def _answer(op: Operation, charged: Answer) -> Answer:
    return {
        "statusCode": 201,
        "body": json.dumps({"payment": op.operation_id, "charge": charged["id"]}),
    }


HANDLERS: dict[str, Callable[[Answer, object], Answer]] = {
    "recorded": _recorded,
    "unrecorded": _unrecorded,
}
JOBS = Jobs(*HANDLERS.values())
