"""Leases, expiry and retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from tests.support.events import (
    load,
    with_body,
    with_key,
)
from tests.support.protected import (
    Protected,
    headers_of,
    problem_of,
    records,
    while_running,
)

POST = load("apigw_http_v2_post")


def test_retry_after_is_no_longer_than_the_lease() -> None:
    """A client is not sent away for longer than what it waits for can take."""
    service = Protected(timeout_ms=1_500)
    service.clock.advance(1)

    def near_the_end() -> dict[str, Any]:
        service.clock.advance(5_000)
        return service.send(POST)

    answer = while_running(service, POST, near_the_end)

    assert headers_of(answer)["retry-after"] == "2"


@pytest.mark.requirement("A6")
@pytest.mark.case(46)
def test_an_expired_record_counts_as_absent_though_it_is_still_stored() -> None:
    """After the retention the same key is a fresh operation with ids of its own, although DynamoDB
    may take days to delete the old item; a second before, it is a replay.

    Red when the stored time is not judged, or the old operation's id is kept.
    """
    service = Protected(retention=timedelta(hours=24))
    service.send(POST)
    service.clock.advance(24 * 3_600_000 - 1_000)
    assert headers_of(service.send(POST))["idempotent-replayed"] == "true"

    service.clock.advance(1_000)
    fresh = service.send(POST)

    assert fresh["body"] == '{"run": 2}'
    first, second = service.runs
    assert first.operation_id != second.operation_id
    assert first.downstream_key("charge") != second.downstream_key("charge")


def test_an_expired_key_may_be_used_for_another_request() -> None:
    """After expiry another body is no misuse."""
    service = Protected(retention=timedelta(seconds=60))
    service.send(POST)
    service.clock.advance(60_000)

    assert service.send(with_body(POST, "{}"))["statusCode"] == 201


@pytest.mark.parametrize("remaining_ms", [0, -1])
@pytest.mark.case(15)
def test_no_time_left_refuses_to_start(remaining_ms: int) -> None:
    """With no time left nothing starts and nothing is written: 503 `not-executed`.

    Red when zero is taken for "no limit".
    """
    service = Protected(timeout_ms=remaining_ms)

    assert problem_of(service.send(POST)) == (503, "not-executed", True)
    assert service.runs == []
    assert records(service) == []


@pytest.mark.case(15)
@pytest.mark.case(3)
def test_the_lease_comes_from_the_real_deadline_or_from_an_explicit_default() -> None:
    """A lease ends at the Lambda's deadline plus the margin; without a context, at the default.

    Red when a claim is written without a lease.
    """
    service = Protected(timeout_ms=1)
    started_ms = service.clock.now_ms()
    service.then = lambda _event, _op: {"statusCode": 500, "body": ""}
    service.send(POST)
    bare = Protected()
    bare.then = service.then
    bare.handler(dict(POST), None)

    assert records(service)[0].lease_until_ms == started_ms + 1 + 5_000
    assert records(bare)[0].lease_until_ms == started_ms + 60_000 + 5_000


@pytest.mark.requirement("B9")
@pytest.mark.case(18)
def test_only_settled_records_expire_and_expiry_counts_from_settling() -> None:
    """A record carries an expiry only once it is complete or safe to run again, counted from that
    moment; a running or unknown one has none.

    Red when a record is reserved with an expiry, or keeps an old one.
    """
    service = Protected(retention=timedelta(hours=1))
    running = while_running(service, POST, lambda: records(service)[0])
    assert running.expires_at_s is None
    assert running.due.at_ms == running.lease_until_ms + 60_000

    def fails_late(_event: object, _op: object) -> None:
        service.clock.advance(9_000)
        raise NotExecuted

    service.then = fails_late
    service.send(with_key(POST, "another-key-of-a-client"))
    completed, failed = records(service)

    assert completed.expires_at_s == completed.completed_at_ms // 1000 + 3600
    assert failed.status is Status.FAILED_RETRYABLE
    assert failed.expires_at_s == service.clock.now_ms() // 1000 + 3600
    assert (completed.due, failed.due) == (None, None)
