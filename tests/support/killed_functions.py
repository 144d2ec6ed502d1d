"""Recorded handlers whose process is killed at each of their calls, and their resolvers."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from oncekey import (
    Completed,
    NotExecuted,
    Operation,
    Question,
    idempotent,
    resolver,
    single_tenant,
)
from oncekey.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.tripwire import Tripwire

BUSINESS_TABLE = "business"
STEPS = ("authorise", "capture", "receipt")
LARGE_TEXT_BYTES = 6_000
LARGE_MESSAGE_BYTES = 210_000

Answer = dict[str, Any]
Handler = Any


class SharedClock(SystemClock):
    """The real clock and what the test adds to it, for all processes at once.

    A process that is `held_at_ms` believes that it is that time, whatever the others do.
    """

    held_at_ms: int | None = None

    def now_ms(self) -> int:
        """See `oncekey.clock.Clock.now_ms`."""
        if self.held_at_ms is not None:
            return self.held_at_ms
        return super().now_ms() + int(Path(os.environ["CLOCK_FILE"]).read_text())


CLOCK = SharedClock()
# Set by the process that runs a handler, before it does.
tripwires: list[Tripwire] = []


def send_charge(operation: Operation, step: str, *, is_keyed: bool) -> Answer:
    """Charge the customer at the provider; with `is_keyed` under the step's downstream key."""
    tripwires[-1].note("ran", step=step)
    headers = {"Authorization": "Bearer " + os.environ["PROVIDER_API_KEY"]}
    if is_keyed:
        headers["Idempotency-Key"] = operation.downstream_key(step)
    facts = {"operation_id": operation.operation_id, "step": step}
    answer = requests.post(
        os.environ["PROVIDER_URL"] + "/v1/payment_intents",
        data={
            "amount": 500,
            "currency": "eur",
            "customer": "cus_1",
            "confirm": "true",
            **{f"metadata[{name}]": fact for name, fact in facts.items()},
        },
        headers=headers,
        timeout=20,
    )
    answer.raise_for_status()
    return _as_result(answer.json())


def _found_out(question: Question) -> Completed | NotExecuted:
    """What the provider says of a charge that it was shown no key of."""
    wanted = {"operation_id": question.operation_id, "step": question.step}
    answer = requests.get(
        os.environ["PROVIDER_URL"] + "/v1/payment_intents/search",
        params={"query": " AND ".join(f"metadata['{key}']:'{at}'" for key, at in wanted.items())},
        headers={"Authorization": "Bearer " + os.environ["PROVIDER_API_KEY"]},
        timeout=20,
    )
    answer.raise_for_status()
    found = answer.json()["data"]
    return Completed(_as_result(found[0])) if found else NotExecuted()


def _as_result(intent: Answer) -> Answer:
    return {"id": intent["id"], "amount": intent["amount"]}


def text_of(size_bytes: int) -> str:
    """Text that hardly compresses, the same each time."""
    blocks = (hashlib.sha256(str(number).encode()).hexdigest() for number in range(size_bytes))
    text = ""
    while len(text) < size_bytes:
        text += next(blocks)
    return text[:size_bytes]


def _payment(name: str, *, is_keyed: bool, is_large: bool = False) -> Handler:
    """A payment: a business item, a charge, a change of the item, a message, and the answer."""

    @idempotent(operation=name, tenant=single_tenant(), effects="recorded", clock=CLOCK)
    def handler(_event: Answer, _context: object, op: Operation) -> Answer:
        key = {"pk": op.operation_id}
        op.transaction.put(
            BUSINESS_TABLE,
            {**key, "status": "created", "writes": 1},
            condition="attribute_not_exists(pk)",
        )
        op.commit("created")

        def charge() -> Answer:
            evidence = {"evidence": text_of(LARGE_TEXT_BYTES)} if is_large else {}
            return send_charge(op, "charge", is_keyed=is_keyed) | evidence

        charged = op.step("charge", charge, idempotent=is_keyed)
        op.transaction.update(
            BUSINESS_TABLE,
            key,
            "SET #status = :paid, charge = :charge ADD writes :one",
            names={"#status": "status"},
            values={":paid": "paid", ":charge": charged["id"], ":one": 1},
        )
        note = text_of(LARGE_MESSAGE_BYTES) if is_large else "small"
        op.outbox.publish("payment.made", {"payment": op.operation_id, "note": note})
        body = {"payment": op.operation_id, "charge": charged}
        return {"statusCode": 201, "body": json.dumps(body)}

    return handler


def _in_steps(name: str, *, is_keyed: bool) -> Handler:
    """Three charges, one after the other, and an item that names them."""

    @idempotent(operation=name, tenant=single_tenant(), effects="recorded", clock=CLOCK)
    def handler(_event: Answer, _context: object, op: Operation) -> Answer:
        charges = {}
        for step in STEPS:
            charge = functools.partial(send_charge, op, step, is_keyed=is_keyed)
            charges[step] = op.step(step, charge, idempotent=is_keyed)
        return _told(op, charges)

    return handler


def _in_steps_async(name: str, *, is_keyed: bool) -> Handler:
    @idempotent(operation=name, tenant=single_tenant(), effects="recorded", clock=CLOCK)
    async def handler(_event: Answer, _context: object, op: Operation) -> Answer:
        charges = {}
        for step in STEPS:
            charge = functools.partial(asyncio.to_thread, send_charge, op, step, is_keyed=is_keyed)
            charges[step] = await op.step_async(step, charge, idempotent=is_keyed)
        return _told(op, charges)

    return lambda event, context: asyncio.run(handler(event, context))


def _told(op: Operation, charges: dict[str, Answer]) -> Answer:
    ids = {step: charge["id"] for step, charge in charges.items()}
    op.transaction.put(BUSINESS_TABLE, {"pk": op.operation_id, **ids})
    op.outbox.publish("payment.made", {"payment": op.operation_id})
    return {"statusCode": 201, "body": json.dumps({"payment": op.operation_id, "charges": ids})}


HANDLERS: dict[str, Callable[[Answer, object], Answer]] = {
    "keyed": _payment("POST /keyed", is_keyed=True),
    "keyed-large": _payment("POST /keyed-large", is_keyed=True, is_large=True),
    "unkeyed": _payment("POST /unkeyed", is_keyed=False),
    "keyed-steps": _in_steps("POST /keyed-steps", is_keyed=True),
    "keyed-steps-async": _in_steps_async("POST /keyed-steps-async", is_keyed=True),
    "unkeyed-steps-async": _in_steps_async("POST /unkeyed-steps-async", is_keyed=False),
}
resolver("POST /unkeyed", "charge")(_found_out)
for _step in STEPS:
    resolver("POST /unkeyed-steps-async", _step)(_found_out)
