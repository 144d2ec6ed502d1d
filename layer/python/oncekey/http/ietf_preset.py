"""The IETF preset: draft-ietf-httpapi-idempotency-key-header-07 with RFC 9457 problem details."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncekey.problem import PROBLEMS
from oncekey.record.outcome import whole_seconds
from oncekey.record.policy import IETF_NAME

if TYPE_CHECKING:
    from oncekey.http.answer import Answer
    from oncekey.http.preset import Marks


# By name, in any locale.
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


class IetfPreset:
    """Problem details with stable codes; `Idempotency-Expires` and `Idempotent-Replayed`."""

    name = IETF_NAME
    store_when = "final"

    def refusal(
        self,
        code: str,
        *,
        base: str,
        detail: str | None = None,
        retry_after_ms: int | None = None,
        retryable: bool = True,
    ) -> Answer:
        """A problem answer; its `type` is `base` and the code."""
        problem = PROBLEMS[code]
        body: dict[str, Any] = {
            "type": f"{base}{code}",
            "title": problem.title,
            "status": problem.status,
            "detail": detail or problem.detail,
            "retryable": problem.retryable and retryable,
        }
        headers = {"Content-Type": "application/problem+json", **retry_after(retry_after_ms)}
        return {
            "statusCode": problem.status,
            "headers": headers,
            "body": json.dumps(body),
            "isBase64Encoded": False,
        }

    def refusal_headers(self, request_id: str | None) -> dict[str, str]:
        """None."""
        del request_id
        return {}

    def headers(self, marks: Marks) -> dict[str, str]:
        """The key, until when it is kept, and whether this is a replay."""
        headers = {"Idempotency-Key": marks.key, **expires(marks.expires_at_s)}
        if marks.is_replay:
            headers["Idempotent-Replayed"] = "true"
        return headers


def retry_after(duration_ms: int | None) -> dict[str, str]:
    """The header for a pause, in whole seconds, rounded up (RFC 9110, section 10.2.3)."""
    return {} if duration_ms is None else {"Retry-After": str(whole_seconds(duration_ms))}


def expires(expires_at_s: int | None) -> dict[str, str]:
    """The header that says when the key expires, as IMF-fixdate (RFC 9110, section 5.6.7)."""
    return {} if expires_at_s is None else {"Idempotency-Expires": http_date(expires_at_s)}


@lru_cache(8)
def http_date(at_s: int) -> str:
    """An instant, in seconds since the epoch, as IMF-fixdate (RFC 9110, section 5.6.7)."""
    at = datetime.fromtimestamp(at_s, UTC)
    day, month = _DAYS[at.weekday()], _MONTHS[at.month - 1]
    time = f"{at.hour:02}:{at.minute:02}:{at.second:02}"
    return f"{day}, {at.day:02} {month} {at.year:04} {time} GMT"


IETF = IetfPreset()
