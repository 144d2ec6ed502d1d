"""`POST /orders`: places an order, once for each `Idempotency-Key`."""

from __future__ import annotations

import json
import os
from typing import Any

from oncekey import HttpRequest, Operation, idempotent, jwt_claim, read_request

MOST_QUANTITY = 1_000_000
LONGEST_ITEM_BYTES = 500


def order_of(request: HttpRequest) -> dict[str, Any]:
    """The order in a request: what must be the same in a retry.

    What it raises on is answered 400, and nothing is written.
    """
    order = json.loads(request.body)
    item, quantity = order["item"], order["quantity"]
    if type(quantity) is not int or not 1 <= quantity <= MOST_QUANTITY:
        raise ValueError("quantity")
    if type(item) is not str or not 1 <= len(item.encode()) <= LONGEST_ITEM_BYTES:
        raise ValueError("item")
    return {"item": item, "quantity": quantity}


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
    row = {"pk": order_id, "tenant": op.tenant, "status": "placed", **order}
    op.transaction.put(os.environ["ORDERS_TABLE"], row)
    op.outbox.publish("order.placed", {"order_id": order_id, **order})
    return {
        "statusCode": 201,
        "headers": {"Content-Type": "application/json", "Location": f"/orders/{order_id}"},
        "body": json.dumps({"order_id": order_id, "status": "placed"}),
    }
