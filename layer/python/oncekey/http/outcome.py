"""The outcome of a request as an HTTP answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from oncekey.http import wire
from oncekey.http.answer import (
    Answer,
    answer_from,
    changed_by,
    stored_and_given,
    with_headers,
)
from oncekey.http.headers import for_replay, with_cookies_for
from oncekey.http.key import HEADER
from oncekey.http.preset import Marks, retry_after
from oncekey.problem import STORE_NOT_SET_UP, as_our_refusal, marked
from oncekey.record.outcome import (
    Failed,
    Outcome,
    Ran,
    Reason,
    Refusal,
    Replayed,
    Unrecorded,
    whole_seconds,
)
from oncekey.telemetry import requests as telemetry

_OURS = frozenset(name.lower() for name in (wire.KEY, wire.EXPIRES, wire.REPLAYED))

if TYPE_CHECKING:
    from oncekey.http.event import HttpRequest
    from oncekey.http.policy import HttpPolicy
    from oncekey.record.record import Record
    from oncekey.settings import Settings


def answer_to(
    outcome: Outcome, request: HttpRequest, policy: HttpPolicy, settings: Settings
) -> Answer | Failed:
    """The answer for the caller, or the attempt's exception as `Failed`."""
    match outcome:
        case Failed():
            return outcome
        case Unrecorded():
            return cast("Answer", outcome.value)
        case Ran():
            marks = _marks(request, outcome.record, outcome.expires_at_s, settings)
            return _marked(outcome.value, marks, request, policy)
        case Replayed():
            return _replay(outcome, request, policy, settings)
        case Refusal():
            return _refusal(outcome, request, policy, settings)


def _replay(
    replayed: Replayed, request: HttpRequest, policy: HttpPolicy, settings: Settings
) -> Answer:
    record = replayed.record
    marks = _marks(request, record, record.expires_at_s, settings, is_replay=True)
    try:
        answer = answer_from(replayed.stored)
    except ValueError:
        telemetry.answer_unavailable(record, record.created_at_ms, "the stored answer is damaged")
        return refused(Reason.ANSWER_UNAVAILABLE, request, policy, settings)
    # A record of another release, or a resolver's answer, may contain headers not to be repeated.
    upgraded = _upgraded(answer, record, request, policy)
    repeated = for_replay(upgraded, policy.replay_headers)
    return _marked(with_cookies_for(repeated, request.shape), marks, request, policy)


def _marked(answer: Answer, marks: Marks, request: HttpRequest, policy: HttpPolicy) -> Answer:
    # A handler may pass on a provider's answer. Its headers must not replace ours.
    headers = policy.preset.headers(marks)
    return with_headers(answer, headers, request.shape, without=_OURS)


def refused(
    code: str,
    request: HttpRequest,
    policy: HttpPolicy,
    settings: Settings,
    *,
    detail: str | None = None,
    retry_after_ms: int | None = None,
    needs_deployment: bool = False,
) -> Answer:
    """The answer for the problem `code`, in the shape of `request`."""
    final: dict[str, Any] = {"retryable": False} if needs_deployment else {}
    answer = policy.preset.refusal(
        code,
        base=settings.problem_base,
        detail=STORE_NOT_SET_UP if needs_deployment else detail,
        retry_after_ms=retry_after_ms,
        **final,
    )
    headers = policy.preset.refusal_headers(_request_id(request))
    return marked(with_headers(answer, headers, request.shape), code)


def _refusal(
    refusal: Refusal, request: HttpRequest, policy: HttpPolicy, settings: Settings
) -> Answer:
    if refusal.is_findable:
        return as_our_refusal(with_headers(_accepted(refusal), {}, request.shape))
    return refused(
        refusal.reason,
        request,
        policy,
        settings,
        detail=refusal.detail,
        retry_after_ms=refusal.retry_after_ms,
        needs_deployment=refusal.needs_deployment,
    )


def _accepted(refusal: Refusal) -> Answer:
    """202: the request was accepted before, and is running or waiting to run."""
    assert refusal.record is not None
    operation_id = refusal.record.operation_id
    body = {
        "operation_id": operation_id,
        "status": refusal.record.status.value.lower(),
        "retry_after_s": whole_seconds(refusal.retry_after_ms or 0),
    }
    return {
        "statusCode": 202,
        "headers": {
            "Content-Type": wire.JSON,
            "Location": f"/operations/{operation_id}",
            **retry_after(refusal.retry_after_ms),
        },
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def _upgraded(answer: Answer, record: Record, request: HttpRequest, policy: HttpPolicy) -> Answer:
    version = record.response_version or 1
    if policy.upgrade_response is None or version == policy.response_version:
        return answer
    changed = changed_by("upgrade_response", policy.upgrade_response(answer, version))
    try:
        return stored_and_given(changed, request.shape)[1]
    except TypeError as mistake:
        told = f"oncekey: what upgrade_response returned cannot be sent: {mistake}"
        raise TypeError(told) from None


def _marks(
    request: HttpRequest,
    record: Record,
    expires_at_s: int | None,
    settings: Settings,
    *,
    is_replay: bool = False,
) -> Marks:
    if expires_at_s is not None and record.policy is not None:
        expires_at_s = record.policy.given_until_s(expires_at_s)
    elif expires_at_s is not None and settings.gone_for_s:
        # The record lives longer than its answer, to say that its key has expired.
        completed_at_ms = record.completed_at_ms
        if completed_at_ms is None:
            expires_at_s -= settings.gone_for_s
        else:
            given_until_s = whole_seconds(completed_at_ms) + settings.retention_s
            expires_at_s = min(expires_at_s, given_until_s)
    return Marks(
        key=request.header_lines(HEADER)[0].strip(),
        operation_id=record.operation_id,
        is_replay=is_replay,
        expires_at_s=expires_at_s,
        request_id=_request_id(request),
    )


def _request_id(request: HttpRequest) -> str | None:
    request_id = request.context.get("requestId")
    return request_id if isinstance(request_id, str) else None
