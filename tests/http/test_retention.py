"""For how long a key is known, and what is said of one that is no longer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from oncekey import NotExecuted
from tests.support.events import load, with_body, with_header
from tests.support.protected import (
    SHAPES,
    Answer,
    Protected,
    fails,
    headers_of,
    is_replay,
    problem_of,
    records,
)

POST = load("apigw_http_v2_post")
HOUR_MS = 3_600_000


@pytest.mark.requirement("B14", "D15")
@pytest.mark.parametrize("shape", SHAPES)
def test_an_expired_key_says_so_for_the_stated_time_and_is_then_free(shape: str) -> None:
    """With `after_expiry="gone"`: a replay until the retention is over, 410 for `gone_for`, and
    then a fresh operation; the header promises no more than the retention.

    Red when the answer is given after its expiry, the key is free before `gone_for` is over or
    never, or the expiry said includes the time of the 410.
    """
    event = load(shape)
    service = Protected(
        retention=timedelta(hours=2), after_expiry="gone", gone_for=timedelta(hours=1)
    )
    first = service.send(event)
    expiry = datetime.fromtimestamp(service.clock.now_ms() / 1000 + 7200, tz=UTC)
    service.clock.advance(2 * HOUR_MS - 1)
    replay = service.send(event)
    service.clock.advance(1)
    gone = service.send(event)
    service.clock.advance(HOUR_MS - 1)
    still_gone = service.send(event)
    service.clock.advance(1)
    fresh = service.send(event)

    said = {headers_of(answer)["idempotency-expires"] for answer in (first, replay)}
    assert said == {format_datetime(expiry, usegmt=True)}
    assert is_replay(replay)
    assert problem_of(gone) == problem_of(still_gone) == (410, "key-expired", False)
    assert fresh["body"] == '{"run": 2}'
    assert len({run.operation_id for run in service.runs}) == 2


def test_by_default_an_expired_key_is_a_new_operation_at_once() -> None:
    """Without `after_expiry="gone"` nothing is ever answered 410."""
    service = Protected(retention=timedelta(hours=2))
    service.send(POST)
    service.clock.advance(2 * HOUR_MS)

    assert service.send(POST)["body"] == '{"run": 2}'


def test_what_did_not_happen_is_never_gone() -> None:
    """A key whose attempt came to nothing has no answer that could expire: it runs again."""
    service = Protected(retention=timedelta(hours=1), after_expiry="gone")
    service.then = fails(NotExecuted())
    service.send(POST)
    service.then = None
    service.clock.advance(HOUR_MS + 1)

    assert service.send(POST)["statusCode"] == 201


@pytest.mark.requirement("B11")
@pytest.mark.requirement("E7")
def test_the_retention_is_the_operations_own_and_counts_from_the_completion() -> None:
    """Two operations of one store keep their answers for 24 h, the default, and for 30 days, from
    when the handler ended, not from when the request came.

    Red when the retention is the store's, is shorter by default, or counts from the reserve.
    """
    usual = Protected(timeout_ms=900_000)
    long = Protected(
        timeout_ms=900_000,
        store=usual.store,
        operation="POST /loans",
        retention=timedelta(days=30),
    )
    for service, hours in ((usual, 24), (long, 720)):

        def slow(_event: object, _op: object, service: Protected = service) -> Answer:
            service.clock.advance(600_000)
            return {"statusCode": 201, "body": "done"}

        service.then = slow
        service.send(POST)
        service.then = None
        service.clock.advance(hours * HOUR_MS - 1_000)
        assert is_replay(service.send(POST))
        service.clock.advance(1_000)
        assert service.send(POST)["body"] == '{"run": 2}'


def first_sent(at_ms: int) -> dict[str, Any]:
    """The request, first sent then."""
    date = format_datetime(datetime.fromtimestamp(at_ms // 1000, tz=UTC), usegmt=True)
    return with_header(POST, "Repeatability-First-Sent", date)


@pytest.mark.requirement("C13")
def test_a_request_that_was_first_sent_too_long_ago_does_not_begin() -> None:
    """Older than the retention and nothing under the key: 412, because its answer may have been
    forgotten; nothing runs and nothing is written. A younger one runs.

    Red when an old request is run as if it were new.
    """
    service = Protected(retention=timedelta(hours=2))
    now_ms = service.clock.now_ms()

    old = service.send(first_sent(now_ms - 2 * HOUR_MS - 1_000))
    assert problem_of(old) == (412, "request-too-old", False)
    assert service.runs == []
    assert records(service) == []

    assert service.send(first_sent(now_ms - 2 * HOUR_MS))["statusCode"] == 201


@pytest.mark.requirement("C13")
def test_an_old_request_gets_what_is_still_known_of_it() -> None:
    """Something lives under the key: a replay, a conflict or a resumption, however old it is.

    Red when the age alone refuses, or an expired record counts as living.
    """
    service = Protected(retention=timedelta(hours=2))
    began_ms = service.clock.now_ms()
    service.then = fails(NotExecuted())
    service.send(first_sent(began_ms))
    service.then = None
    service.clock.advance(2 * HOUR_MS - 1_000)

    first = service.send(first_sent(began_ms - HOUR_MS))
    replay = service.send(first_sent(began_ms - HOUR_MS))
    misuse = service.send(with_body(first_sent(began_ms - HOUR_MS), '{"amount": 2}'))
    service.clock.advance(2 * HOUR_MS)
    forgotten = service.send(first_sent(began_ms - HOUR_MS))

    assert first["statusCode"] == 201
    assert is_replay(replay)
    assert problem_of(misuse)[:2] == (422, "key-reused")
    assert problem_of(forgotten)[:2] == (412, "request-too-old")
    assert len(service.runs) == 2


@pytest.mark.requirement("C13")
@pytest.mark.parametrize("value", ["yesterday", "2026-11-27T10:00:00Z", "1764237600", ""])
def test_a_date_that_cannot_be_read_is_refused_and_not_ignored(value: str) -> None:
    """A malformed Repeatability-First-Sent is 400: ignoring it would take the protection away.

    Red when what cannot be read counts as not sent.
    """
    service = Protected()

    answer = service.send(with_header(POST, "Repeatability-First-Sent", value))

    assert problem_of(answer) == (400, "request-invalid", False)
    assert service.runs == []
