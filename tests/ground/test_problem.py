"""The refusals of the HTTP contract."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey.http.preset import IETF
from oncekey.problem import PROBLEMS
from oncekey.record.outcome import Reason
from oncekey.settings import PROBLEM_BASE

# The contract with clients: code, status, title, and whether sending the same again can help.
CONTRACT = [
    ("key-missing", 400, "Idempotency-Key is missing", False),
    ("key-invalid", 400, "Idempotency-Key is invalid", False),
    ("request-invalid", 400, "The request is invalid", False),
    ("signature-invalid", 400, "The signature is invalid", False),
    ("event-invalid", 400, "The event is invalid", False),
    ("tenant-missing", 403, "The caller's tenant is not known", False),
    ("method-not-allowed", 405, "The method is not allowed here", False),
    ("key-reused", 422, "Idempotency-Key is already used", False),
    ("request-in-progress", 409, "A request is outstanding for this Idempotency-Key", True),
    ("outcome-unknown", 409, "The outcome of this Idempotency-Key is not known yet", True),
    ("store-unavailable", 503, "The idempotency store is unavailable", True),
    ("not-executed", 503, "This attempt was not carried out", True),
    ("attempt-unfinished", 503, "This attempt ended before it had an answer", True),
    ("key-expired", 410, "The Idempotency-Key has expired", False),
    ("request-too-old", 412, "The request was first sent too long ago", False),
    ("answer-unavailable", 500, "The stored answer is not available", False),
    ("request-failed", 500, "The request failed", False),
    ("not-started-in-time", 408, "The request was not started in time", False),
    ("operation-unknown", 404, "There is no such operation", False),
    ("paused", 503, "New work is paused", True),
    ("quota-exceeded", 429, "The quota of keys is used up", True),
]


def body_of(code: str, **options: Any) -> dict[str, Any]:
    """The problem body of `code`."""
    body: dict[str, Any] = json.loads(IETF.refusal(code, base=PROBLEM_BASE, **options)["body"])
    return body


@pytest.mark.parametrize(("code", "status", "title", "retryable"), CONTRACT)
def test_a_problem_is_as_the_contract_says(
    code: str, status: int, title: str, retryable: bool
) -> None:
    """Code, status, title and retry advice of every problem are fixed."""
    answer = IETF.refusal(code, base="https://example.com/problems/")

    assert answer["statusCode"] == status
    assert answer["headers"] == {"Content-Type": "application/problem+json"}
    assert answer["isBase64Encoded"] is False
    assert json.loads(answer["body"]) == {
        "type": f"https://example.com/problems/{code}",
        "title": title,
        "status": status,
        "detail": PROBLEMS[code].detail,
        "retryable": retryable,
    }


def test_every_problem_is_in_the_contract() -> None:
    """No problem goes out that clients were not told of, and every refusal has one."""
    assert {code for code, *_ in CONTRACT} == set(PROBLEMS)
    assert set(Reason) - {Reason.SUPERSEDED} <= set(PROBLEMS)


@pytest.mark.case(53)
def test_running_reused_unknown_and_unavailable_are_told_apart() -> None:
    """Each of the four has its own type and advice; only a reused key is not to be sent again.

    Red when two of them share a code, or one of the others no longer says to keep the key.
    """
    again = ["request-in-progress", "outcome-unknown", "store-unavailable"]
    bodies = {code: body_of(code) for code in [*again, "key-reused"]}

    assert len({body["type"] for body in bodies.values()}) == 4
    for code in again:
        assert bodies[code]["retryable"] is True
        assert "Send the same request with the same key again" in bodies[code]["detail"]
        assert "Retry-After" in bodies[code]["detail"]
    assert bodies["key-reused"]["retryable"] is False
    assert "Take a new key" in bodies["key-reused"]["detail"]


@pytest.mark.case(53)
@pytest.mark.parametrize("code", ["request-in-progress", "outcome-unknown"])
def test_a_client_is_warned_of_a_new_key(code: str) -> None:
    """Where a new key could run the request twice, the answer says so.

    Red when the warning is dropped from either detail.
    """
    assert "A new key" in body_of(code)["detail"]


@pytest.mark.parametrize(
    ("left_ms", "seconds"),
    [(0, "0"), (1, "1"), (999, "1"), (1000, "1"), (1001, "2"), (59_001, "60")],
)
def test_retry_after_is_never_too_early(left_ms: int, seconds: str) -> None:
    """Retry-After is whole seconds, rounded up, so that a client does not come too soon.

    Red when the milliseconds are rounded down, or the header is left out.
    """
    answer = IETF.refusal("request-in-progress", base=PROBLEM_BASE, retry_after_ms=left_ms)

    assert answer["headers"]["Retry-After"] == seconds


def test_a_detail_can_be_given() -> None:
    """What is known about this request stands in place of the general text."""
    assert body_of("key-invalid", detail="It has 300 characters.")["detail"] == (
        "It has 300 characters."
    )
