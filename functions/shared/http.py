"""Events and answers of the HTTP API, as all routes read and write them."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from typing import Any

from oncekey import jwt_claim

Event = dict[str, Any]
Answer = dict[str, Any]

PROBLEM_BASE = "urn:payments:problem:"
# The same verified claim scopes the keys of writing routes and the data of reading routes.
TENANT = jwt_claim("tenant_id")


def body_of(event: Event) -> bytes:
    """The body's bytes as they were sent."""
    body = event.get("body") or ""
    if event.get("isBase64Encoded"):
        return base64.b64decode(body)
    return str(body).encode("utf-8", "surrogatepass")


def answer(
    status: HTTPStatus, body: dict[str, Any], headers: dict[str, str] | None = None
) -> Answer:
    """An answer in JSON."""
    return _answer(status, "application/json", body, headers or {})


def problem(status: HTTPStatus, code: str, detail: str, **members: str) -> Answer:
    """A final refusal, as RFC 9457 problem details."""
    details = {
        "type": PROBLEM_BASE + code,
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
        "retryable": False,
        **members,
    }
    return _answer(status, "application/problem+json", details, {})


def route_unknown() -> Answer:
    """The answer for a route that the function does not have."""
    return problem(HTTPStatus.NOT_FOUND, "route-unknown", "There is nothing here.")


def _answer(
    status: HTTPStatus, media_type: str, body: dict[str, Any], headers: dict[str, str]
) -> Answer:
    return {
        "statusCode": status.value,
        "headers": {"Content-Type": media_type, **headers},
        "body": json.dumps(body),
    }
