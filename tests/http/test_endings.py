"""How an attempt ends, and what the next one gets."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from oncekey import Final, NotExecuted
from oncekey.record.record import Status
from tests.support.dynamodb import dynamodb_table, items, store_on
from tests.support.events import (
    load,
)
from tests.support.protected import (
    Protected,
    headers_of,
    problem_of,
    records,
)

POST = load("apigw_http_v2_post")


@pytest.mark.parametrize(
    ("status", "stored"),
    [
        (200, True),
        (201, True),
        (204, True),
        (303, True),
        (400, True),
        (402, True),
        (404, True),
        (409, True),
        (422, True),
        (408, False),
        (425, False),
        (429, False),
        (500, False),
        (502, False),
        (503, False),
        (504, False),
    ],
)
@pytest.mark.requirement("C8")
@pytest.mark.case(37)
def test_final_answers_are_stored_and_others_run_again_where_that_is_harmless(
    status: int, stored: bool
) -> None:
    """2xx, 3xx and 4xx but 408, 425 and 429 are stored; after anything else a repeatable handler
    runs again, and no passing failure is replayed.

    Red when a 5xx is stored, or a 4xx is not.
    """
    service = Protected(effects="repeatable")
    service.then = lambda _event, _op: {"statusCode": status, "body": "x"}

    first = service.send(POST)
    second = service.send(POST)

    assert first["statusCode"] == second["statusCode"] == status
    assert ("idempotency-expires" in headers_of(first)) is stored
    assert ("idempotent-replayed" in headers_of(second)) is stored
    assert len(service.runs) == (1 if stored else 2)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
@pytest.mark.requirement("D3")
@pytest.mark.case(37)
def test_an_answer_that_is_not_final_leaves_an_unrecorded_operation_unknown(status: int) -> None:
    """What calls the outside world on its own and does not end well is never run again.

    Red when a 5xx releases the key.
    """
    service = Protected()
    service.then = lambda _event, _op: {"statusCode": status, "body": "x"}

    assert service.send(POST)["statusCode"] == status
    answer = service.send(POST)

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert 1 <= int(headers_of(answer)["retry-after"]) <= 60
    assert len(service.runs) == 1
    assert records(service)[0].expires_at_s is None


def test_an_exception_reaches_its_caller_and_leaves_the_outcome_unknown() -> None:
    """An unrecorded handler that raises: the exception is the caller's, a repeat gets 409
    `outcome-unknown`, and the record says what kind of error it was, not what it said.
    """
    service = Protected()

    def handler(_event: object, _op: object) -> None:
        raise ValueError("secret payload")

    service.then = handler
    with pytest.raises(ValueError, match="secret payload"):
        service.send(POST)

    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)
    assert records(service)[0].last_error == "ValueError"


@pytest.mark.parametrize("exit_with", [KeyboardInterrupt, SystemExit])
def test_an_exit_is_recorded_too(exit_with: type[BaseException]) -> None:
    """An exit in the middle of a handler is an interruption like any other."""
    service = Protected()

    def handler(_event: object, _op: object) -> None:
        raise exit_with

    service.then = handler
    with pytest.raises(exit_with):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN


@pytest.mark.requirement("D1")
@pytest.mark.requirement("D3")
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_what_is_proven_not_executed_runs_again(effects: str) -> None:
    """`NotExecuted`: 503 `not-executed`, retryable, and the same key runs again at once, as attempt
    2 of the same operation.

    Red when the key is not released, or the operation gets a new id.
    """
    service = Protected(effects=effects)

    def handler(_event: object, _op: object) -> None:
        service.then = None
        raise NotExecuted

    service.then = handler
    refused = service.send(POST)
    again = service.send(POST)

    assert problem_of(refused) == (503, "not-executed", True)
    assert int(headers_of(refused)["retry-after"]) == 1
    assert again["statusCode"] == 201
    first, second = service.runs
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.operation_id == second.operation_id


@pytest.mark.requirement("D3")
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(ConnectionRefusedError, id="a type"),
        pytest.param((LookupError, ConnectionRefusedError), id="types"),
        pytest.param(lambda error: "refused" in str(error), id="a predicate"),
    ],
)
def test_an_error_declared_as_proof_counts_as_not_executed(rule: Any) -> None:
    """`not_executed=` types or a predicate release the key; other errors do not.

    Red when the rule is ignored, or accepts everything.
    """
    service = Protected(not_executed=rule)
    error: Exception = ConnectionRefusedError("refused")

    def handler(_event: object, _op: object) -> None:
        raise error

    service.then = handler
    assert problem_of(service.send(POST)) == (503, "not-executed", True)
    error = TimeoutError("no answer")
    with pytest.raises(TimeoutError):
        service.send(POST)

    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)
    assert len(service.runs) == 2


@pytest.mark.parametrize("status", [201, 402, 429, 500])
def test_a_final_raised_anywhere_ends_the_operation_with_its_answer(status: int) -> None:
    """`Final` is stored whatever its status, and replayed."""
    service = Protected()

    def deep_down() -> None:
        raise Final(status, {"why": "so"}, headers={"X-Reason": "because"})

    service.then = lambda _event, _op: deep_down()
    first = service.send(POST)
    replay = service.send(POST)

    assert first["statusCode"] == status
    assert json.loads(first["body"]) == {"why": "so"}
    assert headers_of(first)["x-reason"] == "because"
    assert headers_of(first)["content-type"] == "application/json"
    assert headers_of(replay) == headers_of(first) | {"idempotent-replayed": "true"}
    assert len(service.runs) == 1


def test_a_final_that_cannot_be_sent_is_recorded_before_it_is_raised() -> None:
    """A `Final` whose body has no JSON form is the author's mistake, and ends the operation."""
    service = Protected()

    def handler(_event: object, _op: object) -> None:
        raise Final(201, {"at": object()})

    service.then = handler
    with pytest.raises(TypeError, match="cannot be sent as JSON"):
        service.send(POST)

    assert records(service)[0].status is Status.COMPLETED


def test_a_rule_that_fails_proves_nothing() -> None:
    """A `not_executed` predicate that raises counts as no; the handler's error is raised."""

    def rule(error: BaseException) -> bool:
        raise ZeroDivisionError

    service = Protected(not_executed=rule)

    def handler(_event: object, _op: object) -> None:
        raise LookupError

    service.then = handler
    with pytest.raises(LookupError):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN


def test_a_body_with_lone_surrogates_is_replayed_as_it_was() -> None:
    """What JSON can say and UTF-8 cannot is stored escaped, and comes back equal."""
    with dynamodb_table() as client:
        service = Protected(store=store_on(client))
        service.then = lambda _event, _op: {"statusCode": 200, "body": "\ud800 and ä"}
        first, replay = service.send(POST), service.send(POST)
        (item,) = items(client)

    assert first["body"] == replay["body"] == "\ud800 and ä"
    assert item["response"]["S"].isascii()


def test_a_retention_shorter_than_the_lease_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Answers forgotten before the first request must have ended are a mistake, and said to be."""
    service = Protected(operation="POST /short-lived", retention=timedelta(seconds=10))
    service.send(POST)
    service.send(POST)

    said = [record for record in caplog.records if "shorter than the lease" in record.message]
    assert len(said) == 1
