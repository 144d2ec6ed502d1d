"""Answers of DynamoDB that are lost on their way, and a DynamoDB that is down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from oncekey.record.transitions import Ending, Settle
from oncekey.store.store import Written
from tests.support.dynamodb import LossyTransport, Recorder, dynamodb_table, items, store_on
from tests.support.events import load, with_body
from tests.support.protected import Protected, headers_of, problem_of, while_running
from tests.support.wire import Wire, wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient

POST = load("apigw_http_v2_post")


@pytest.fixture
def client() -> Iterator[DynamoDBClient]:
    """A client of an empty table."""
    with dynamodb_table() as client:
        yield client


@pytest.fixture(params=["sdk", "direct"])
def transport(
    request: pytest.FixtureRequest, client: DynamoDBClient
) -> Iterator[LossyTransport | Wire]:
    """What loses the answers: of `client`, or of the direct transport on its socket."""
    if request.param == "sdk":
        yield LossyTransport(client)
    else:
        with wire() as way:
            yield way


@pytest.fixture
def service(client: DynamoDBClient, transport: LossyTransport | Wire) -> Protected:
    """A handler on that table by that transport, with time for retries."""
    store = transport.store() if isinstance(transport, Wire) else store_on(client)
    # The store thinks of the client's own long time-outs; nothing takes time here.
    store._call_timeout_ms = 0
    return Protected(store=store)


def recorded(transport: LossyTransport | Wire, client: DynamoDBClient) -> Recorder | Wire:
    """What the store sends from now on."""
    return transport if isinstance(transport, Wire) else Recorder(client)


def status_of(client: DynamoDBClient) -> str:
    """The status of the only record."""
    (item,) = items(client)
    status: str = item["status"]["S"]
    return status


@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.case(9)
def test_a_reserve_that_was_applied_is_recognised_when_its_answer_is_lost(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient, lost: int
) -> None:
    """A PutItem that is applied and whose answer is dropped: the handler runs once, and the caller
    is answered as if nothing had happened.

    Red when the owner of the record that stands in the way is not compared with one's own.
    """
    transport.lose("PutItem", lost)

    answer = service.send(POST)

    assert answer["statusCode"] == 201
    assert len(service.runs) == 1
    assert status_of(client) == Status.COMPLETED
    assert service.send(POST)["body"] == answer["body"]


@pytest.mark.parametrize("lost", [1, 2, 5])
@pytest.mark.case(9)
def test_a_completion_that_was_applied_is_recognised_when_its_answer_is_lost(
    service: Protected, transport: LossyTransport | Wire, lost: int
) -> None:
    """An UpdateItem that is applied and whose answer is dropped: the answer is the handler's, with
    its expiry, and not a replay.

    Red when a completion that is refused because it has landed already counts as lost.
    """
    transport.lose("UpdateItem", lost)

    answer = service.send(POST)

    assert answer["statusCode"] == 201
    assert "idempotency-expires" in headers_of(answer)
    assert "idempotent-replayed" not in headers_of(answer)
    assert headers_of(service.send(POST))["idempotent-replayed"] == "true"
    assert len(service.runs) == 1


@pytest.mark.parametrize("operation", ["PutItem", "UpdateItem"])
def test_a_request_that_did_not_arrive_is_sent_again(
    service: Protected, transport: LossyTransport | Wire, operation: str
) -> None:
    """One broken connection costs a retry and nothing else."""
    transport.refuse(operation)

    assert service.send(POST)["statusCode"] == 201
    assert len(service.runs) == 1


def test_a_resume_whose_answer_is_lost_is_ours(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient
) -> None:
    """The second attempt after `NotExecuted` holds its lease though the answer was lost."""

    def fails(_event: object, _op: object) -> None:
        service.then = None
        raise NotExecuted

    service.then = fails
    service.send(POST)
    transport.lose("UpdateItem")

    assert service.send(POST)["statusCode"] == 201
    assert [run.attempt for run in service.runs] == [1, 2]
    assert status_of(client) == Status.COMPLETED


@pytest.mark.requirement("C9")
def test_a_store_that_is_down_refuses_before_anything_runs(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient
) -> None:
    """Store down: 503 `store-unavailable` with Retry-After, retryable; the handler does not run.

    Red when the handler runs unprotected.
    """
    transport.refuse("PutItem", 1000)

    answer = service.send(POST)

    assert problem_of(answer) == (503, "store-unavailable", True)
    assert int(headers_of(answer)["retry-after"]) >= 1
    assert service.runs == []
    transport.refuse("PutItem", 0)
    assert service.send(POST)["statusCode"] == 201
    assert len(items(client)) == 1


def test_a_reserve_is_tried_three_times(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient
) -> None:
    """A caller is refused after three tries rather than kept waiting."""
    recorder = recorded(transport, client)
    transport.refuse("PutItem", 1000)

    service.send(POST)

    assert recorder.operations == ["PutItem"] * 3


def test_a_store_that_is_down_at_completion_costs_the_record_and_not_the_answer(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient
) -> None:
    """The work is done: its caller gets the true answer without `Idempotency-Expires`, after tries
    up to the deadline; a repeat is told to wait, then that the outcome is unknown; nothing runs
    twice.
    """
    transport.refuse("UpdateItem", 1000)
    deadline_ms = service.clock.now_ms() + 10_000

    answer = service.send(POST)

    assert (answer["statusCode"], answer["body"]) == (201, '{"run": 1}')
    assert "idempotency-expires" not in headers_of(answer)
    assert deadline_ms - 2_000 < service.clock.now_ms() <= deadline_ms - 250
    transport.refuse("UpdateItem", 0)
    assert problem_of(service.send(POST))[1] == "request-in-progress"
    service.clock.advance(20_000)
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert status_of(client) == Status.UNKNOWN
    assert len(service.runs) == 1


def test_what_a_store_that_is_down_at_completion_missed_is_settled_later(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient
) -> None:
    """The caller gets the true answer; after the lease the outcome is unknown, until somebody who
    knows it settles the record; then the client's retry gets the settled answer, as a replay.

    Red when the key is released, a settlement does not reach the client, or anything runs twice.
    """
    transport.refuse("UpdateItem", 1000)
    first = service.send(POST)
    transport.refuse("UpdateItem", 0)
    assert first["statusCode"] == 201
    service.clock.advance(20_000)
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    (in_doubt,) = items(client)

    now_ms = service.clock.now_ms()
    found_out = Ending(
        response=json.dumps({"statusCode": 201, "body": first["body"]}),
        completed_at_ms=now_ms,
        expires_at_s=now_ms // 1000 + 86_400,
    )
    settle = Settle(
        pk=in_doubt["pk"]["S"],
        seen_owner=in_doubt["owner"]["S"],
        new_owner="a-resolver",
        to=found_out,
    )
    assert service.store.write(settle) == Written()
    retry = service.send(POST)

    assert (retry["statusCode"], retry["body"]) == (201, first["body"])
    assert headers_of(retry)["idempotent-replayed"] == "true"
    assert "idempotency-expires" in headers_of(retry)
    assert status_of(client) == Status.COMPLETED
    assert len(service.runs) == 1


@pytest.mark.case(23)
@pytest.mark.parametrize(
    "returned",
    [
        pytest.param({"statusCode": 200, "body": b"bytes"}, id="bytes"),
        pytest.param({"statusCode": 200, "body": {"a": 1}}, id="a dict as body"),
        pytest.param({"statusCode": 200, "headers": {"X": {1, 2}}, "body": ""}, id="a set"),
    ],
)
def test_a_final_answer_that_cannot_be_stored_is_told_to_its_author_and_never_run_again(
    service: Protected, client: DynamoDBClient, returned: dict[str, Any]
) -> None:
    """What cannot be stored cannot be sent either: the author gets a TypeError that names it at the
    first call; the record is settled, and a repeat is told that the answer cannot be given.

    Red when the failure to encode releases the key, or leaves it open.
    """
    service.then = lambda _event, _op: returned

    with pytest.raises(TypeError, match=r"oncekey: .* answer"):
        service.send(POST)

    assert problem_of(service.send(POST)) == (500, "answer-unavailable", False)
    assert len(service.runs) == 1
    assert status_of(client) == Status.COMPLETED


def test_a_result_without_a_status_leaves_the_outcome_unknown(
    service: Protected, client: DynamoDBClient
) -> None:
    """What does not even say how it ended proves nothing."""
    service.then = lambda _event, _op: {"statusCode": 99}

    with pytest.raises(TypeError, match=r"statusCode from 100 to 599"):
        service.send(POST)

    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert status_of(client) == Status.UNKNOWN


@pytest.mark.requirement("E9")
def test_requests_of_a_first_call_and_of_a_replay(
    service: Protected, transport: LossyTransport | Wire, client: DynamoDBClient
) -> None:
    """A first call costs two requests, a replay and either refused duplicate (in flight, or with
    another body) one each: the reserve, which is one put on a condition on its primary key.

    Red when the reserve is preceded by a read, a refused one is followed by one, or the condition
    is left out.
    """
    recorder = recorded(transport, client)

    while_running(service, POST, lambda: service.send(POST))
    assert recorder.operations == ["PutItem", "PutItem", "UpdateItem"]
    assert headers_of(service.send(POST))["idempotent-replayed"] == "true"
    assert recorder.operations[3:] == ["PutItem"]
    assert problem_of(service.send(with_body(POST, "{}")))[1] == "key-reused"
    assert recorder.operations[4:] == ["PutItem"]

    reserves = [call for name, call in recorder.calls if name == "PutItem"]
    assert all("attribute_not_exists(#pk)" in call["ConditionExpression"] for call in reserves)


@pytest.mark.case(30)
def test_a_completion_keeps_every_other_attribute(
    service: Protected, client: DynamoDBClient
) -> None:
    """Completion names what it changes; fingerprint, key and identity stay.

    Red when a completion rewrites the item.
    """
    seen: list[dict[str, Any]] = []

    def handler(_event: object, _op: object) -> dict[str, Any]:
        seen.extend(items(client))
        return {"statusCode": 200, "body": ""}

    service.then = handler
    service.send(POST)
    (before,), (after,) = seen, items(client)
    changed = {"status", "rev", "response", "response_version", "completed_at", "expires_at"}
    dropped = {"lease_until", "due_at", "due_shard"}

    assert set(before) - set(after) == dropped
    assert {name for name in after if after[name] != before.get(name)} == changed
