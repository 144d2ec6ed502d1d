"""The STRIPE preset: the errors and headers that clients of Stripe's API (v1) expect.

https://docs.stripe.com/api/idempotent_requests and https://docs.stripe.com/error-low-level
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from oncekey.http import wire
from oncekey.http.preset import expires, retry_after
from oncekey.problem import PROBLEMS

if TYPE_CHECKING:
    from oncekey.http.answer import Answer
    from oncekey.http.preset import Marks

# Problem code → status, Stripe's error type, and Stripe's error code. A case that Stripe does not
# have keeps its own code, so that the cases remain distinct.
ERRORS: dict[str, tuple[int, str, str]] = {
    "key-missing": (400, "invalid_request_error", "idempotency_key_missing"),
    "key-invalid": (400, "invalid_request_error", "idempotency_key_invalid"),
    "request-invalid": (400, "invalid_request_error", "request_invalid"),
    "signature-invalid": (400, "invalid_request_error", "signature_invalid"),
    "event-invalid": (400, "invalid_request_error", "event_invalid"),
    "tenant-missing": (403, "invalid_request_error", "tenant_missing"),
    "method-not-allowed": (405, "invalid_request_error", "method_not_allowed"),
    "key-reused": (400, "idempotency_error", "idempotency_key_reused"),
    "key-expired": (410, "idempotency_error", "idempotency_key_expired"),
    "request-too-old": (412, "idempotency_error", "request_too_old"),
    "quota-exceeded": (429, "invalid_request_error", "rate_limit"),
    "operation-unknown": (404, "invalid_request_error", "resource_missing"),
    "not-started-in-time": (408, "idempotency_error", "request_not_started_in_time"),
    "request-in-progress": (409, "idempotency_error", "idempotency_key_in_use"),
    "outcome-unknown": (409, "idempotency_error", "idempotency_outcome_unknown"),
    "store-unavailable": (503, "api_error", "store_unavailable"),
    "paused": (503, "api_error", "paused"),
    "not-executed": (503, "api_error", "not_executed"),
    "attempt-unfinished": (503, "api_error", "attempt_unfinished"),
    "answer-unavailable": (500, "api_error", "answer_unavailable"),
    "request-failed": (500, "api_error", "request_failed"),
}
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9]")


class StripePreset:
    """Stripe's error objects, `Stripe-Should-Retry`, `Original-Request`. All answers are stored."""

    name = "stripe"
    store_when = "begun"

    def refusal(
        self,
        code: str,
        *,
        base: str,
        detail: str | None = None,
        retry_after_ms: int | None = None,
        retryable: bool = True,
    ) -> Answer:
        """An error object. If `base` is a URL, `doc_url` is `base` followed by the problem code."""
        problem = PROBLEMS[code]
        status, kind, error_code = ERRORS[code]
        error = {"type": kind, "code": error_code, "message": detail or problem.detail}
        if base.startswith("http"):
            error["doc_url"] = f"{base}{code}"
        headers = {
            "Content-Type": wire.JSON,
            wire.SHOULD_RETRY: "true" if problem.retryable and retryable else "false",
            **retry_after(retry_after_ms),
        }
        return {
            "statusCode": status,
            "headers": headers,
            "body": json.dumps({"error": error}),
            "isBase64Encoded": False,
        }

    def refusal_headers(self, request_id: str | None) -> dict[str, str]:
        """The request's id, if the gateway gave it one."""
        return {"Request-Id": _request_id(request_id)} if request_id else {}

    def headers(self, marks: Marks) -> dict[str, str]:
        """The key, both request ids, and whether it is a replay.

        A stored answer also says that a retry does not help. Nothing is known about other answers.
        On the first answer the two request ids are the same, as Stripe's are.
        """
        original = _request_id(marks.operation_id)
        here = _request_id(marks.request_id or marks.operation_id)
        return {
            wire.KEY: marks.key,
            "Original-Request": original,
            "Request-Id": here if marks.is_replay else original,
            **({} if marks.expires_at_s is None else {wire.SHOULD_RETRY: "false"}),
            **expires(marks.expires_at_s),
            **({wire.REPLAYED: "true"} if marks.is_replay else {}),
        }


def _request_id(text: str) -> str:
    return "req_" + _NOT_IN_AN_ID.sub("", text)


STRIPE = StripePreset()
