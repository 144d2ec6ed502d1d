"""The answers to a sender of webhooks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from oncekey.http import wire
from oncekey.http.answer import with_headers
from oncekey.http.preset import IETF
from oncekey.record.outcome import RETRY_SOON_MS
from oncekey.webhooks.acceptance import Receipt

if TYPE_CHECKING:
    from oncekey.http.answer import Answer
    from oncekey.http.event import HttpRequest
    from oncekey.settings import Settings

_AGAIN = "The event was not accepted, or this is not confirmed. Send it again; it counts once."
_STATUSES = {Receipt.ACCEPTED: "accepted", Receipt.REPEAT: "repeat", Receipt.IGNORED: "ignored"}


def answered(receipt: Receipt, request: HttpRequest) -> Answer:
    """The 200 after which the event need not be sent again. Its body says why."""
    headers = {"Content-Type": wire.JSON}
    if receipt is Receipt.REPEAT:
        headers[wire.REPLAYED] = "true"
    body = json.dumps({"status": _STATUSES[receipt]})
    answer = {"statusCode": 200, "body": body, "isBase64Encoded": False}
    return with_headers(answer, headers, request.shape)


def our_refusal(
    code: str, request: HttpRequest, settings: Settings, after_ms: int = RETRY_SOON_MS
) -> Answer:
    """The 503 after which the sender sends the event again."""
    return problem(code, request, settings, detail=_AGAIN, retry_after_ms=after_ms)


def problem(
    code: str,
    request: HttpRequest,
    settings: Settings,
    *,
    detail: str,
    retry_after_ms: int | None = None,
) -> Answer:
    """The answer for the problem `code`. Its status says whether to send the event again."""
    base = settings.problem_base
    answer = IETF.refusal(code, base=base, detail=detail, retry_after_ms=retry_after_ms)
    return with_headers(answer, {}, request.shape)
