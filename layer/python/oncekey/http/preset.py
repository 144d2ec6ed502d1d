"""The presets: how an API words its refusals and marks its replays. The IETF preset is here.

It follows draft-ietf-httpapi-idempotency-key-header-07, with RFC 9457 problem details.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.http import wire
from oncekey.http.http_date import http_date
from oncekey.problem import PROBLEMS
from oncekey.record.outcome import whole_seconds
from oncekey.record.policy import IETF_NAME

if TYPE_CHECKING:
    from oncekey.http.answer import Answer


class Marks:
    """The values for the headers of an answer.

    `key` is the header as the client sent it. `expires_at_s` is in epoch seconds, and None if the
    answer is not stored. `request_id` is the gateway's id of this request, or None.
    """

    __slots__ = ("expires_at_s", "is_replay", "key", "operation_id", "request_id")

    def __init__(
        self,
        *,
        key: str,
        operation_id: str,
        is_replay: bool,
        expires_at_s: int | None,
        request_id: str | None,
    ) -> None:
        self.key = key
        self.operation_id = operation_id
        self.is_replay = is_replay
        self.expires_at_s = expires_at_s
        self.request_id = request_id


class Preset(Protocol):
    """One wording of the contract. All presets have the same cases."""

    @property
    def name(self) -> str:
        """Its name in records, for code that answers in place of the handler."""
        ...

    @property
    def store_when(self) -> str:
        """Which answers are stored unless an operation says otherwise: `final` or `begun`."""
        ...

    def refusal(
        self,
        code: str,
        *,
        base: str,
        detail: str | None = None,
        retry_after_ms: int | None = None,
        retryable: bool = True,
    ) -> Answer:
        """The answer for the problem `code` (see `oncekey.problem.PROBLEMS`).

        `retryable` is False if waiting does not help this time, even if the code is retryable.
        """
        ...

    def refusal_headers(self, request_id: str | None) -> dict[str, str]:
        """Further headers of a refusal. `request_id` is the gateway's id of the request."""
        ...

    def headers(self, marks: Marks) -> dict[str, str]:
        """The headers of a first answer or a replay."""
        ...


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
        """An RFC 9457 problem whose `type` is `base` followed by the code."""
        headers = {"Content-Type": wire.PROBLEM, **retry_after(retry_after_ms)}
        return {
            "statusCode": PROBLEMS[code].status,
            "headers": headers,
            "body": _problem_details(code, base, detail, retryable=retryable),
            "isBase64Encoded": False,
        }

    def refusal_headers(self, request_id: str | None) -> dict[str, str]:
        """No further headers."""
        del request_id
        return {}

    def headers(self, marks: Marks) -> dict[str, str]:
        """The key, its expiry, and whether this is a replay."""
        headers = {wire.KEY: marks.key, **expires(marks.expires_at_s)}
        if marks.is_replay:
            headers[wire.REPLAYED] = "true"
        return headers


@lru_cache(64)
def _problem_details(code: str, base: str, detail: str | None, *, retryable: bool) -> str:
    """The body of a refusal (RFC 9457). It is cached, because repeats get the same refusal."""
    problem = PROBLEMS[code]
    body: dict[str, Any] = {
        "type": f"{base}{code}",
        "title": problem.title,
        "status": problem.status,
        "detail": detail or problem.detail,
        "retryable": problem.retryable and retryable,
    }
    return json.dumps(body)


def retry_after(duration_ms: int | None) -> dict[str, str]:
    """The Retry-After header, in whole seconds, rounded up (RFC 9110, section 10.2.3)."""
    return {} if duration_ms is None else {wire.RETRY_AFTER: str(whole_seconds(duration_ms))}


def expires(expires_at_s: int | None) -> dict[str, str]:
    """The header with the expiry of the key, as IMF-fixdate (RFC 9110, section 5.6.7)."""
    return {} if expires_at_s is None else {wire.EXPIRES: http_date(expires_at_s)}


IETF = IetfPreset()
