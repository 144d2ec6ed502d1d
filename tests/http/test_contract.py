"""What repeats get, and what is refused, over every event shape."""

from __future__ import annotations

import contextlib
import json
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from oncekey import NotExecuted
from oncekey.http import fingerprint
from oncekey.record.record import Status
from tests.support.events import load, with_body, with_key
from tests.support.protected import (
    SHAPES,
    Protected,
    headers_of,
    is_replay,
    problem_of,
    records,
    while_running,
)

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.requirement("A3")
@pytest.mark.requirement("A14")
@pytest.mark.case(12)
@pytest.mark.case(26)
def test_a_repeat_of_a_completed_request_gets_the_stored_answer_and_is_told_so(shape: str) -> None:
    """A repeat gets status, headers and body of the first answer, and `Idempotent-Replayed: true`.

    Red when the handler runs again, a header is dropped, or the replay is not marked.
    """
    service = Protected()

    first = service.send(load(shape))
    replay = service.send(load(shape))

    assert len(service.runs) == 1
    assert "idempotent-replayed" not in headers_of(first)
    assert headers_of(replay) == headers_of(first) | {"idempotent-replayed": "true"}
    assert replay["statusCode"] == first["statusCode"] == 201
    assert replay["body"] == first["body"] == '{"run": 1}'
    assert headers_of(replay)["location"] == "/payments/1"


@pytest.mark.requirement("C14")
def test_the_answer_says_when_the_key_expires() -> None:
    """First answer and replay carry `Idempotency-Expires` as an IMF-fixdate, retention after the
    completion, and echo the key.

    Red when the expiry is counted from anything else, or not said.
    """
    service = Protected(retention=timedelta(hours=48))

    first = headers_of(service.send(POST))
    completed_s = service.clock.now_ms() // 1000
    service.clock.advance(3_600_000)
    replay = headers_of(service.send(POST))

    expires = parsedate_to_datetime(first["idempotency-expires"])
    assert expires.timestamp() == completed_s + 48 * 3600
    assert first["idempotency-expires"].endswith(" GMT")
    assert replay["idempotency-expires"] == first["idempotency-expires"]
    assert first["idempotency-key"] == POST["headers"]["idempotency-key"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.requirement("A5")
@pytest.mark.case(53)
def test_the_same_key_with_another_body_is_refused(shape: str) -> None:
    """Same key, other body: 422 `key-reused`, whatever the state; nothing runs, nothing changes.

    Red when the fingerprint is not compared.
    """
    service = Protected()
    service.send(load(shape))
    before = records(service)

    answer = service.send(with_body(load(shape), '{"amount": 1}'))

    assert problem_of(answer) == (422, "key-reused", False)
    assert records(service) == before
    assert len(service.runs) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_record_by_an_older_fingerprint_algorithm_still_serves_its_request(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a release with a new algorithm a record by the old one is replayed to its own request,
    and another body under its key is still refused; new records are by the new one.

    Red when a stored fingerprint is compared by the newest algorithm alone, or not at all.
    """
    service = Protected()
    first = service.send(load(shape))
    newer = {"f2:": lambda request, _select: f"{request.path} {len(request.body)}"}
    monkeypatch.setattr(fingerprint, "ALGORITHMS", newer | fingerprint.ALGORITHMS)

    replay = service.send(load(shape))
    misuse = service.send(with_body(load(shape), '{"amount": 1}'))
    service.send(with_key(load(shape), "a-key-after-the-release"))

    assert (replay["body"], is_replay(replay)) == (first["body"], True)
    assert problem_of(misuse) == (422, "key-reused", False)
    versions = [record.fingerprint.partition(":")[0] for record in records(service)]
    assert versions == ["f1", "f2"]
    assert len(service.runs) == 2


@pytest.mark.case(1)
def test_a_refused_request_changes_nothing() -> None:
    """A repeat in flight, and another body after completion, leave the record as it was.

    Red when a refused request cleans up a record that it never held.
    """
    service = Protected()

    def refused() -> tuple[Any, Any]:
        before = records(service)
        service.send(POST)
        return before, records(service)

    before, after = while_running(service, POST, refused)
    assert after == before

    before = records(service)
    service.send(with_body(POST, "{}"))
    assert records(service) == before
    assert headers_of(service.send(POST))["idempotent-replayed"] == "true"
    assert len(service.runs) == 1


@pytest.mark.case(29)
@pytest.mark.requirement("E5")
def test_another_body_is_refused_in_every_state() -> None:
    """422 whether the first request runs, is complete, failed retryably or is unknown, and with the
    record got from the refused write or from a read.

    Red when any path to a record skips the comparison.
    """

    def fails(error: Exception) -> Any:
        def handler(_event: object, _op: object) -> None:
            raise error

        return handler

    other = with_body(POST, '{"amount": 2}')
    running = Protected()
    assert problem_of(while_running(running, POST, lambda: running.send(other)))[1] == "key-reused"
    waiting = Protected(in_progress="wait")
    assert problem_of(while_running(waiting, POST, lambda: waiting.send(other)))[1] == "key-reused"

    for error, status in ((NotExecuted(), Status.FAILED_RETRYABLE), (ValueError(), Status.UNKNOWN)):
        service = Protected()
        service.then = fails(error)
        with contextlib.suppress(ValueError):
            service.send(POST)
        assert records(service)[0].status is status
        assert problem_of(service.send(other))[1] == "key-reused"


@pytest.mark.requirement("C17")
def test_a_stored_answer_does_not_follow_later_changes() -> None:
    """A replay is what was answered then; what is true now has a GET of its own.

    Red when a replay is made by running anything.
    """
    service = Protected()
    balance = {"amount": 1}
    service.then = lambda _event, _op: {"statusCode": 200, "body": json.dumps(balance)}
    first = service.send(POST)
    balance["amount"] = 2

    assert service.send(POST)["body"] == first["body"] == '{"amount": 1}'


@pytest.mark.requirement("D2")
def test_the_store_holds_nothing_but_key_fingerprint_and_answer() -> None:
    """The record says nothing of payments but the answer that was given.

    Red when a field of the request is stored.
    """
    service = Protected()
    event = with_body(POST, '{"customer_id": "cus_private", "amount": 987654}')
    service.send(event)

    assert "cus_private" not in repr(records(service)[0].__reduce_ex__(2))
    assert "987654" not in repr(records(service)[0].__reduce_ex__(2))
