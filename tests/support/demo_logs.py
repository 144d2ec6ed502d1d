"""What might have been seen in a scene of the demo, for whoever judges it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from oncekey_local.demo.log import CHARGE, REFUND, Exchange, Movement, Order, SceneLog
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDER = Order(key="7f1c52b8-6f0e-4a53-8f0b-6f3a1f6f7a11", amount=1200)


def answer(step: str, status: int, payment_id: str | None = "pay_1", **headers: str) -> Exchange:
    """An answer that shows a payment."""
    shown = {} if payment_id is None else {"payment_id": payment_id}
    return _exchange(step, status, shown, headers)


def accepted_answer(step: str, payment_id: str = "pay_1", **headers: str) -> Exchange:
    """An answer that accepts a payment."""
    shown = {"payment_id": payment_id, "status": "pending"}
    return _exchange(step, 202, shown, {"location": f"/payments/{payment_id}", **headers})


def given_back(step: str, refund_id: str = "ref_1", **headers: str) -> Exchange:
    """An answer that shows a refund."""
    shown = {"refund_id": refund_id, "payment_id": "pay_1", "status": "succeeded"}
    return _exchange(step, 201, shown, headers)


def problem(step: str, status: int, code: str, **headers: str) -> Exchange:
    """An answer that reports a problem."""
    shown = {"type": f"urn:oncekey:problem:{code}", "status": status}
    return _exchange(step, status, shown, headers)


def replayed(exchange: Exchange) -> Exchange:
    """The same answer, out of the record."""
    return replace(exchange, headers={**exchange.headers, "idempotent-replayed": "true"})


def log(
    *exchanges: Exchange,
    movements: tuple[Movement, ...] = (),
    made_before: tuple[Movement, ...] = (),
    states: dict[str, str] | None = None,
    calls: int = 0,
) -> SceneLog:
    """A scene in which this was seen."""
    return SceneLog(
        exchanges=exchanges,
        made_before=made_before,
        movements=movements,
        states=states or {},
        provider_calls=calls,
    )


def charge(number: int, status: str = "succeeded", *, operation: str = "") -> Movement:
    """A charge of the payment `pay_<number>`."""
    return Movement(
        kind=CHARGE,
        id=f"pi_{number}",
        operation_id=operation or f"operation {number}",
        concerns=f"pay_{number}",
        amount=1200,
        status=status,
    )


def refund(number: int, *, operation: str = "") -> Movement:
    """The refund `ref_<number>`."""
    return replace(
        charge(number, operation=operation),
        kind=REFUND,
        id=f"re_{number}",
        concerns=f"ref_{number}",
    )


def _exchange(
    step: str, status: int, shown: Mapping[str, object], headers: Mapping[str, str]
) -> Exchange:
    return Exchange(
        step=step,
        tenant="acme",
        order=ORDER,
        status=status,
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        body=json.dumps(shown).encode() if shown else b"",
    )
