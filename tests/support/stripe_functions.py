"""Functions whose API speaks to clients of Stripe's SDK: payments under the STRIPE preset."""

from __future__ import annotations

import json
from multiprocessing.connection import Client
from typing import Any
from urllib.parse import parse_qs

from oncekey import STRIPE, NotExecuted, Operation, idempotent, jwt_claim


@idempotent(operation="POST /v1/customers", tenant=jwt_claim("tenant_id"), preset=STRIPE)
def customers(event: dict[str, Any], _context: object, op: Operation) -> dict[str, Any]:
    """Creates a customer, named after its operation; the description says how it goes.

    `fail` raises, `decline` is a card error, `nothing` happens not at all, and `meet:<port>` waits
    there until the test lets it go.
    """
    form = {name: values[0] for name, values in parse_qs(_text(event)).items()}
    wish = form.get("description", "")
    if wish == "fail":
        raise ValueError("this handler fails")
    if wish == "nothing":
        raise NotExecuted
    if wish == "decline":
        error = {"type": "card_error", "code": "card_declined", "message": "declined"}
        return {"statusCode": 402, "body": json.dumps({"error": error})}
    if wish.startswith("meet:"):
        with Client(("127.0.0.1", int(wish.removeprefix("meet:"))), authkey=b"test") as connection:
            connection.send(op.attempt)
            connection.recv()
    customer = {"id": f"cus_{op.operation_id}", "object": "customer", **form}
    return {
        "statusCode": 200,
        "headers": {"Content-Type": "application/json"},
        "body": json.dumps(customer),
    }


def _text(event: dict[str, Any]) -> str:
    import base64

    body = str(event.get("body") or "")
    return base64.b64decode(body).decode() if event.get("isBase64Encoded") else body
