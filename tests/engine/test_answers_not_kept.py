"""Answers that are lost, damaged, or cannot be kept: never a reason to run again."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import StoreError
from oncekey.record.record import Status
from oncekey.record.transitions import Complete
from oncekey.testing.memory import MemoryStore
from tests.support.dynamodb import (
    BUCKET,
    TABLE,
    LossyTransport,
    Recorder,
    deny,
    dynamodb_table,
    make_response_bucket,
    write_units,
)
from tests.support.large_answers import (
    LARGE,
    POST,
    TOO_LARGE_FOR_AN_ITEM,
    World,
    world_on,
)
from tests.support.protected import Answer, Protected, answers, headers_of, problem_of
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written


@pytest.fixture
def world() -> Iterator[World]:
    """An empty table and an empty bucket."""
    with dynamodb_table() as table:
        yield world_on(table, make_response_bucket())


def _lose_item(world: World) -> None:
    world.table.delete_item(TableName=TABLE, Key={"pk": world.companion()["pk"]})


def _damage_item(world: World) -> None:
    item = world.companion()
    data = bytes(item["data"]["B"])
    world.table.put_item(
        TableName=TABLE, Item=item | {"data": {"B": data[:-9] + b"\0" + data[-8:]}}
    )


def _swap_item(world: World) -> None:
    data = zlib.compress(b'{"statusCode":201,"body":"the answer to somebody else"}')
    world.table.put_item(TableName=TABLE, Item=world.companion() | {"data": {"B": data}})


def _cut_item(world: World) -> None:
    item = world.companion()
    world.table.put_item(
        TableName=TABLE, Item=item | {"data": {"B": bytes(item["data"]["B"])[:-1]}}
    )


def _empty_item(world: World) -> None:
    item = world.companion()
    del item["data"]
    world.table.put_item(TableName=TABLE, Item=item)


def _retype_item(world: World) -> None:
    world.table.put_item(TableName=TABLE, Item=world.companion() | {"data": {"S": "text"}})


def _lose_object(world: World) -> None:
    (name,) = world.objects()
    world.bucket.delete_object(Bucket=BUCKET, Key=name)


def _damage_object(world: World) -> None:
    (name,) = world.objects()
    data = world.bucket.get_object(Bucket=BUCKET, Key=name)["Body"].read()
    world.bucket.put_object(Bucket=BUCKET, Key=name, Body=b"\0" + data[1:])


def _cut_object(world: World) -> None:
    (name,) = world.objects()
    data = world.bucket.get_object(Bucket=BUCKET, Key=name)["Body"].read()
    world.bucket.put_object(Bucket=BUCKET, Key=name, Body=data[:-1])


@pytest.mark.case(25)
@pytest.mark.case(26)
@pytest.mark.parametrize(
    ("body", "harm"),
    [
        (LARGE, _lose_item),
        (LARGE, _damage_item),
        (LARGE, _swap_item),
        (LARGE, _cut_item),
        pytest.param(LARGE, _empty_item),
        pytest.param(LARGE, _retype_item),
        (TOO_LARGE_FOR_AN_ITEM, _lose_object),
        (TOO_LARGE_FOR_AN_ITEM, _damage_object),
        (TOO_LARGE_FOR_AN_ITEM, _cut_object),
    ],
)
def test_an_answer_that_is_lost_or_damaged_is_refused_and_nothing_runs_again(
    world: World, body: str, harm: Any
) -> None:
    """A stored answer that is missing, cut or altered: 500 `answer-unavailable`, whoever asks.

    Red when it makes the handler run again, changes the record, or a damaged answer is given.
    """
    world.answers(body)
    world.service.send(POST)
    before = world.record()
    harm(world)

    assert problem_of(world.service.send(POST)) == (500, "answer-unavailable", False)
    assert len(world.service.runs) == 1
    assert world.record() == before


def _without_a_bucket(world: World) -> World:
    return world_on(world.table, world.bucket, has_bucket=False)


def _with_a_missing_bucket(world: World) -> World:
    world.bucket.delete_bucket(Bucket=BUCKET)
    return world


def _with_a_denied_bucket(world: World) -> World:
    deny(world.bucket, "PutObject")
    return world


@pytest.mark.case(25)
@pytest.mark.parametrize(
    "prepare", [_without_a_bucket, _with_a_missing_bucket, _with_a_denied_bucket]
)
def test_an_answer_that_cannot_be_kept_is_given_and_settles_its_key(
    world: World, prepare: Any
) -> None:
    """No bucket, a missing one or a denied one: the caller gets the true answer without an expiry,
    the key is settled, and a repeat is told that the answer is not available.

    Red when the work counts as failed, the key is released, or a replay is promised.
    """
    world = prepare(world)
    answer = world.answers(TOO_LARGE_FOR_AN_ITEM)

    first = world.service.send(POST)
    again = world.service.send(POST)

    assert first["body"] == answer["body"]
    assert "idempotency-expires" not in headers_of(first)
    assert world.record()["status"]["S"] == Status.COMPLETED
    assert write_units(world.record()) == 1
    assert problem_of(again) == (500, "answer-unavailable", False)
    assert len(world.service.runs) == 1


@pytest.mark.parametrize(
    ("body", "operation", "refused", "lost"),
    [(LARGE, "PutItem", 4, 3), (TOO_LARGE_FOR_AN_ITEM, "PutObject", 1, 1)],
)
def test_keeping_an_answer_is_tried_until_it_succeeds(
    world: World, body: str, operation: str, refused: int, lost: int
) -> None:
    """A store that fails for a while, also after it has applied the write, costs nothing but time.

    Red when keeping is tried once only.
    """
    transport = LossyTransport(world.table, world.bucket)

    def work(_event: object, _op: object) -> Answer:
        transport.refuse(operation, refused)
        transport.lose(operation, lost)
        return {"statusCode": 201, "body": body}

    world.service.then = work
    first = world.service.send(POST)
    replay = world.service.send(POST)

    assert first["body"] == replay["body"] == body
    assert "idempotency-expires" in headers_of(first)
    assert len(world.service.runs) == 1


@pytest.mark.parametrize(("body", "operation"), [(LARGE, "PutItem")])
def test_an_answer_that_is_not_kept_by_the_deadline_is_given_and_its_record_left_in_doubt(
    world: World, body: str, operation: str
) -> None:
    """The store is away until the deadline: the true answer without an expiry; the key stays taken.

    Red when the tries end early, the record is settled without its answer, or it is released.
    """
    transport = LossyTransport(world.table, world.bucket)
    sent = Recorder(world.table, world.bucket)

    def work(_event: object, _op: object) -> Answer:
        transport.refuse(operation, 1_000_000)
        return {"statusCode": 201, "body": body}

    world.service.then = work
    began_ms = world.service.clock.now_ms()
    first = world.service.send(POST)
    transport.refuse(operation, 0)
    again = world.service.send(POST)

    assert first["body"] == body
    assert "idempotency-expires" not in headers_of(first)
    assert sent.operations.count(operation) > 10
    # Nobody waits here: the time is that of the pauses between the tries.
    assert world.service.clock.now_ms() - began_ms > 8_000
    assert world.record()["status"]["S"] == Status.IN_PROGRESS
    assert problem_of(again)[:2] == (409, "request-in-progress")
    world.service.clock.advance(60_000)
    assert problem_of(world.service.send(POST))[:2] == (409, "outcome-unknown")
    assert len(world.service.runs) == 1


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("body", [LARGE, TOO_LARGE_FOR_AN_ITEM], ids=["item", "object"])
def test_a_crash_after_the_answer_was_kept_leaves_the_outcome_unknown(
    world: World, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """The process dies between keeping the answer and completing the record: unknown, no run.

    Red when what is kept beside a record is taken for its completion, or for permission to run.
    """
    store = world.service.store
    write = store.write

    def dying(transition: Transition) -> Written | Refused:
        if isinstance(transition, Complete):
            raise Killed
        answer: Written | Refused = write(transition)
        return answer

    world.answers(body)
    monkeypatch.setattr(store, "write", dying)
    with pytest.raises(Killed):
        world.service.send(POST)
    monkeypatch.undo()
    kept = world.companion() if body is LARGE else world.objects()
    world.service.clock.advance(60_000)

    assert kept
    assert problem_of(world.service.send(POST))[:2] == (409, "outcome-unknown")
    assert len(world.service.runs) == 1


@pytest.mark.parametrize(
    ("body", "operation"), [(LARGE, "GetItem"), (TOO_LARGE_FOR_AN_ITEM, "GetObject")]
)
def test_an_answer_that_cannot_be_fetched_now_is_no_answer_that_is_lost(
    world: World, body: str, operation: str
) -> None:
    """The store fails while an answer is fetched: it is tried again, then 503, come back.

    Red when a failing store is taken for a missing answer, which clients must not retry.
    """
    world.answers(body)
    world.service.send(POST)
    transport = LossyTransport(world.table, world.bucket)

    transport.refuse(operation, 2)
    assert world.service.send(POST)["body"] == body
    transport.refuse(operation, 1_000_000)
    answer = world.service.send(POST)
    assert problem_of(answer) == (503, "store-unavailable", True)
    assert headers_of(answer)["retry-after"] == "1"
    transport.refuse(operation, 0)
    assert world.service.send(POST)["body"] == body
    assert len(world.service.runs) == 1


def test_an_answer_whose_table_is_gone_is_not_to_be_asked_for_again() -> None:
    """Only a deployment brings it back, so that the client is not told to wait for it."""

    class Gone(MemoryStore):
        """A store whose table is deleted before the answer is read."""

        def fetch(self, at: object) -> bytes | None:
            """As DynamoDB answers then."""
            gone = StoreError("ResourceNotFoundException", transient=False)
            gone.said = "Requested resource not found"
            raise gone

    service = Protected(store=Gone())
    service.then = answers(201, LARGE)
    service.send(POST)

    answer = service.send(POST)

    assert problem_of(answer) == (503, "store-unavailable", False)
    assert "retry-after" not in headers_of(answer)
    assert len(service.runs) == 1


def test_an_answer_that_is_not_kept_is_not_promised_where_its_completion_was_lost() -> None:
    """The store carried the completion out and lost its answer: the caller gets the true answer,
    without an expiry.
    """
    store = FaultyStore()
    store.has_bucket = False
    service = Protected(store=store)
    service.then = answers(201, TOO_LARGE_FOR_AN_ITEM)
    store.lose("Complete")

    first, again = service.send(POST), service.send(POST)

    assert first["body"] == TOO_LARGE_FOR_AN_ITEM
    assert "idempotency-expires" not in headers_of(first)
    assert problem_of(again) == (500, "answer-unavailable", False)


def test_a_stored_answer_of_a_newer_release_runs_nothing(world: World) -> None:
    """A record whose answer is in a form that this release does not know is refused: 503.

    Red when what cannot be read counts as absent.
    """
    world.answers(json.dumps({"ok": True}))
    world.service.send(POST)
    record = world.record()
    world.table.put_item(
        TableName=TABLE, Item=record | {"response": {"M": {"place": {"S": "tape"}}}}
    )

    assert problem_of(world.service.send(POST))[:2] == (503, "store-unavailable")
    assert len(world.service.runs) == 1


def test_a_store_without_its_bucket_refuses_what_is_in_it(world: World) -> None:
    """A release that lost its bucket setting does not mistake a kept answer for a lost one."""
    world.answers(TOO_LARGE_FOR_AN_ITEM)
    world.service.send(POST)
    without = world_on(world.table, world.bucket, has_bucket=False)

    with pytest.raises(StoreError, match="no response bucket"):
        without.service.store.fetch(world.service.store.read(world.record()["pk"]["S"]).response)
