"""`POST /orders`: places an order, once for each `Idempotency-Key`."""

from __future__ import annotations

import json
import os
from typing import Any

from oncekey import HttpRequest, Operation, idempotent, jwt_claim, read_request


def order_of(request: HttpRequest) -> dict[str, Any]:
    """The order in a request: what must be the same in a retry.

    What it raises on is answered 400, and nothing is written.
    """
    order = json.loads(request.body)
    if type(order["quantity"]) is not int or order["quantity"] < 1:
        raise ValueError("quantity")
    return {"item": str(order["item"]), "quantity": order["quantity"]}


@idempotent(
    operation="POST /orders",
    tenant=jwt_claim("tenant_id"),
    effects="recorded",
    fingerprint=order_of,
)
def handler(event: dict[str, Any], context: object, op: Operation) -> dict[str, Any]:
    """Place the order. Its row, its message and this answer are written in one transaction."""
    order = order_of(read_request(event))
    order_id = op.operation_id  # the same in every attempt
    row = {"pk": f"{op.tenant}#{order_id}", "status": "placed", **order}
    op.transaction.put(os.environ["ORDERS_TABLE"], row)
    op.outbox.publish("order.placed", {"order_id": order_id, **order})
    return {
        "statusCode": 201,
        "headers": {"Content-Type": "application/json", "Location": f"/orders/{order_id}"},
        "body": json.dumps({"order_id": order_id, "status": "placed"}),
    }
