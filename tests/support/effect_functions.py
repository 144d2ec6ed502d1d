"""Functions with one effect, a charge at the provider, under different promises."""

from __future__ import annotations

import json
import os
from typing import Any

import requests

from oncekey import Operation, idempotent, jwt_claim

_TENANT = jwt_claim("tenant_id")


def _charge(operation: Operation, **metadata: str) -> dict[str, Any]:
    # No key of any kind: the provider cannot tell a repeated call from a new one.
    facts = {"operation_id": operation.operation_id, "attempt": str(operation.attempt), **metadata}
    answer = requests.post(
        os.environ["PROVIDER_URL"] + "/v1/payment_intents",
        data={
            "amount": 500,
            "currency": "eur",
            "customer": "cus_1",
            "confirm": "true",
            **{f"metadata[{name}]": fact for name, fact in facts.items()},
        },
        headers={"Authorization": "Bearer " + os.environ["PROVIDER_API_KEY"]},
        timeout=20,
    )
    answer.raise_for_status()
    return {"statusCode": 201, "body": json.dumps({"attempt": operation.attempt})}


@idempotent(operation="POST /repeatable", tenant=_TENANT, effects="repeatable")
def repeatable(_event: dict[str, Any], _context: object, op: Operation) -> dict[str, Any]:
    """A charge that its author declares harmless to repeat.

    It shows the provider the key that it could be recognised by, as mere metadata.
    """
    return _charge(op, downstream_key=op.downstream_key("charge"))


@idempotent(operation="POST /unrecorded", tenant=_TENANT)
def unrecorded(_event: dict[str, Any], _context: object, op: Operation) -> dict[str, Any]:
    """A charge that nobody knows of when it is interrupted."""
    return _charge(op)
