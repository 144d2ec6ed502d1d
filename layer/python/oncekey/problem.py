"""What refused requests are answered: RFC 9457 problem details with stable codes (the IETF preset).

The codes and statuses are a contract with clients; draft-ietf-httpapi-idempotency-key-header-07,
section 2.7, suggests the statuses 400, 409 and 422 and the titles of those cases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncekey.http_answer import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A kind of refusal.

    `retryable`: True means "same key, wait"; False means "do not send this again".
    """

    status: int
    title: str
    detail: str
    retryable: bool


_AGAIN = "Send the same request with the same key again after the time in Retry-After."

PROBLEMS: dict[str, Problem] = {
    "key-missing": Problem(
        status=400,
        title="Idempotency-Key is missing",
        detail="This operation needs an Idempotency-Key header.",
        retryable=False,
    ),
    "key-invalid": Problem(
        status=400,
        title="Idempotency-Key is invalid",
        detail="The Idempotency-Key is malformed.",
        retryable=False,
    ),
    "request-invalid": Problem(
        status=400,
        title="The request is invalid",
        detail="The request does not have the form that this operation needs; nothing was done.",
        retryable=False,
    ),
    "tenant-missing": Problem(
        status=403,
        title="The caller's tenant is not known",
        detail="The verified request context does not say whose key this is; nothing was done.",
        retryable=False,
    ),
    "key-reused": Problem(
        status=422,
        title="Idempotency-Key is already used",
        detail="This key was used for a different request. Take a new key for a new operation.",
        retryable=False,
    ),
    "request-in-progress": Problem(
        status=409,
        title="A request is outstanding for this Idempotency-Key",
        detail=f"The first request with this key is still running. {_AGAIN}"
        " A new key would run it twice.",
        retryable=True,
    ),
    "outcome-unknown": Problem(
        status=409,
        title="The outcome of this Idempotency-Key is not known yet",
        detail="The first request with this key was interrupted and may have taken effect."
        f" {_AGAIN}"
        " A new key could run it twice.",
        retryable=True,
    ),
    "store-unavailable": Problem(
        status=503,
        title="The idempotency store is unavailable",
        detail=f"The request was not carried out, because it could not be protected. {_AGAIN}",
        retryable=True,
    ),
    "not-executed": Problem(
        status=503,
        title="The request was not carried out",
        detail=f"Nothing happened. {_AGAIN}",
        retryable=True,
    ),
}


def problem_answer(
    code: str, *, base: str, detail: str | None = None, retry_after_ms: int | None = None
) -> Answer:
    """The answer for the problem `code`; its `type` is `base` and the code."""
    problem = PROBLEMS[code]
    body: dict[str, Any] = {
        "type": f"{base}{code}",
        "title": problem.title,
        "status": problem.status,
        "detail": detail or problem.detail,
        "retryable": problem.retryable,
    }
    headers = {"Content-Type": "application/problem+json"}
    if retry_after_ms is not None:
        headers["Retry-After"] = str(-(-retry_after_ms // 1000))
    return {
        "statusCode": problem.status,
        "headers": headers,
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }
