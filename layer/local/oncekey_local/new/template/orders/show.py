"""`GET /orders/{order_id}`: shows an order to the tenant that placed it."""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any

import boto3

from oncekey import jwt_claim

tenant_of = jwt_claim("tenant_id")


@cache
def orders() -> Any:
    """The table, opened at the first request."""
    return boto3.resource("dynamodb").Table(os.environ["ORDERS_TABLE"])


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Show the order. Another tenant's order looks absent."""
    order_id = event["pathParameters"]["order_id"]
    tenant = tenant_of(event["requestContext"])
    row = orders().get_item(Key={"pk": order_id}).get("Item")
    if tenant is None or row is None or row["tenant"] != tenant:
        return answer(404, {"message": "There is no such order."})
    order = {"item": row["item"], "quantity": int(row["quantity"]), "status": row["status"]}
    return answer(200, {"order_id": order_id, **order})


def answer(status: int, body: dict[str, Any]) -> dict[str, Any]:
    """A JSON answer."""
    return {
        "statusCode": status,
        "headers": {"Content-Type": "application/json"},
        "body": json.dumps(body),
    }
