"""The contract of one protected operation: which refusals it may send, and which headers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from oncekey.http import wire
from oncekey.http.preset import Marks
from oncekey.problem import PROBLEMS
from oncekey.record.record import Effects, Status
from oncekey.settings import MAX_KEY_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from oncekey.http.policy import HttpPolicy
    from oncekey.http.preset import Preset
    from oncekey.settings import Settings

Schema = dict[str, Any]

_HOUR_S = 3600
# Members of a refusal whose text may differ from one refusal to the next.
_PROSE = frozenset({"detail", "message"})
_HEADERS = {
    "Cache-Control": "`no-store`.",
    wire.KEY: "The key of the request.",
    wire.EXPIRES: "How long this answer is kept, as an HTTP date. Absent: it is not kept.",
    wire.REPLAYED: "`true` if this is the stored answer of an earlier request.",
    wire.RETRY_AFTER: "In how many seconds the same request may be sent again, with the same key.",
    "Location": "Where to ask how far the operation is.",
    "Original-Request": "The id of the request that was carried out.",
    "Request-Id": "The id of this request.",
    wire.SHOULD_RETRY: "`true` if the same request should be sent again, with the same key.",
}


def codes_of(policy: HttpPolicy, settings: Settings) -> Iterator[str]:
    """The codes of the refusals that this operation may send."""
    yield from ("key-missing",) if policy.required else ()
    yield from ("key-invalid", "request-invalid", "tenant-missing")
    if policy.is_queued:
        yield "not-started-in-time"
    yield "request-in-progress"
    if policy.effects is not Effects.REPEATABLE:
        yield "outcome-unknown"
    if settings.gone_for_s:
        yield "key-expired"
    yield from ("request-too-old", "key-reused")
    if policy.quota is not None:
        yield "quota-exceeded"
    if settings.pause_check_s:
        yield "paused"
    yield "answer-unavailable"
    if policy.stores_failures:
        yield "request-failed"
    yield from ("not-executed", "store-unavailable")
    if policy.effects is Effects.RECORDED:
        yield "attempt-unfinished"


def codes_of_webhook(settings: Settings) -> Iterator[str]:
    """The codes of the refusals that a webhook may send."""
    yield from ("signature-invalid", "event-invalid", "tenant-missing")
    if settings.pause_check_s:
        yield "paused"
    yield from ("not-executed", "store-unavailable")


def refusals(
    codes: Iterator[str], preset: Preset, base: str
) -> Iterator[tuple[int, str, str, str, Schema, dict[str, Any]]]:
    """Status, code, title, media type, schema and headers of each refusal, as `preset` sends it."""
    for code in codes:
        answer = preset.refusal(code, base=base)
        names = [name for name in answer["headers"] if name.lower() != "content-type"]
        names += preset.refusal_headers("request")
        if PROBLEMS[code].retryable:
            names.append(wire.RETRY_AFTER)
        yield (
            answer["statusCode"],
            code,
            PROBLEMS[code].title,
            answer["headers"]["Content-Type"],
            _schema_of(json.loads(answer["body"])),
            headers(names),
        )


def answer_headers(preset: Preset) -> dict[str, Any]:
    """The headers of a handler's answer and of its replay."""
    marks = Marks(key="k", operation_id="o", is_replay=True, expires_at_s=0, request_id="r")
    return headers(preset.headers(marks))


def headers(names: Any) -> dict[str, Any]:
    """Header objects for these names."""
    return {
        name: {"schema": {"type": "string"}, "description": _HEADERS.get(name, name)}
        for name in names
    }


def key_parameter(policy: HttpPolicy) -> dict[str, Any]:
    """The request header with the key."""
    return {
        "name": wire.KEY,
        "in": "header",
        "required": policy.required,
        "description": (
            "A random value for each new operation, such as a UUID. Every retry of the operation"
            " sends the same one. In quotes, it may have spaces; without, no quote, comma or"
            " semicolon."
        ),
        "schema": {"type": "string", "pattern": _key_pattern(policy.min_key_length)},
        "example": "5c4b1f0e-6a0e-4d7a-9a58-1f1c7f0f3f7a",
    }


def _key_pattern(least: int) -> str:
    # Bare, or in quotes with its own quotes and backslashes escaped. It is not blank.
    length = f"{{{max(least, 1)},{MAX_KEY_LENGTH}}}"
    bare = rf"[!#-+\--:<-~]{length}"
    quoted = rf'"(?! *"$)(?:[ !#-\[\]-~]|\\["\\]){length}"'
    return f"^(?:{bare}|{quoted})$"


FIRST_SENT_PARAMETER: Mapping[str, Any] = {
    "name": wire.FIRST_SENT,
    "in": "header",
    "required": False,
    "description": (
        "When the request was first sent, as an HTTP date. If its answer may be forgotten by now,"
        " it is refused (412) instead of carried out as a new one."
    ),
    # No format of JSON Schema, but a name of the date of RFC 9110, section 5.6.7.
    "schema": {"type": "string", "format": "http-date"},
    "example": "Fri, 27 Nov 2026 10:00:00 GMT",
}

ACCEPTED: Schema = {
    "type": "object",
    "required": ["operation_id", "status", "retry_after_s"],
    "properties": {
        "operation_id": {"type": "string", "format": "uuid"},
        "status": {"enum": [status.value.lower() for status in Status]},
        "retry_after_s": {"type": "integer", "minimum": 0},
    },
}

OPERATION_STATUS: Schema = {
    "type": "object",
    "required": ["operation_id", "operation", "status", "created_at"],
    "properties": {
        "operation_id": {"type": "string", "format": "uuid"},
        "operation": {"type": "string"},
        "status": {"enum": [status.value.lower() for status in Status]},
        "created_at": {"type": "string", "format": "date-time"},
        "completed_at": {"type": "string", "format": "date-time"},
        "answer": {
            "type": "object",
            "required": ["status"],
            "properties": {"status": {"type": "integer"}, "location": {"type": "string"}},
        },
    },
}


def other_problem(base: str) -> Schema:
    """A problem of the service's own, and none of the layer's."""
    escaped = "".join(f"\\{letter}" if letter in ".+*?()[]{}|^$\\" else letter for letter in base)
    return {
        "type": "object",
        "properties": {"type": {"type": "string", "not": {"pattern": f"^{escaped}"}}},
    }


def prose_of(policy: HttpPolicy, settings: Settings) -> str:
    """What a client has to know, for the operation's description."""
    kept = _duration(settings.retention_s)
    after = "gets 410" if settings.gone_for_s else "starts a new operation"
    text = (
        "Safe to retry: send the same `Idempotency-Key` with every retry of one operation. It takes"
        " effect once, and every retry gets the first answer. Answers are kept for"
        f" {kept}; after that, the same key {after}."
    )
    if not policy.required:
        text += " A request without a key is not protected."
    return text


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, _HOUR_S)
    if rest:
        return f"{seconds} seconds"
    return f"{hours // 24} days" if hours % 24 == 0 and hours > 24 else f"{hours} hours"


def _schema_of(value: Any, name: str = "") -> Schema:
    """The schema of refusals that differ from `value` in their prose only."""
    if isinstance(value, dict):
        members = {each: _schema_of(inner, each) for each, inner in value.items()}
        return {"type": "object", "required": [*value], "properties": members}
    if name in _PROSE:
        return {"type": "string", "example": value}
    if name == "retryable" and value:
        # False, if waiting does not help this time.
        return {"type": "boolean"}
    return {"const": value}
