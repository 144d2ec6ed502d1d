"""A bucket that is away, slow or out of time: the work is done, and its record says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from oncekey import ResponseBucket, StoreError
from oncekey.record.record import Status
from tests.support.dynamodb import (
    BUCKET,
    LossyTransport,
    Recorder,
    dynamodb_table,
    make_response_bucket,
)
from tests.support.large_answers import (
    LARGE,
    POST,
    TOO_LARGE_FOR_AN_ITEM,
    World,
    world_on,
)
from tests.support.protected import Context, headers_of, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def world() -> Iterator[World]:
    """An empty table and an empty bucket."""
    with dynamodb_table() as table:
        yield world_on(table, make_response_bucket())


@pytest.mark.parametrize("timeout_ms", [10_000, 900_000])
def test_a_bucket_that_is_down_costs_neither_time_nor_record(world: World, timeout_ms: int) -> None:
    """The bucket is away and the table is not: after three tries the true answer, and the record
    says that the work is done.

    Red when the caller waits for the deadline, or the key is left in doubt.
    """
    transport = LossyTransport(world.table, world.bucket)
    sent = Recorder(world.table, world.bucket)
    transport.refuse("PutObject", 1_000_000)
    world.answers(TOO_LARGE_FOR_AN_ITEM)
    began_ms = world.service.clock.now_ms()
    context = Context(world.service.clock, began_ms + timeout_ms)

    first = world.service.handler(dict(POST), context)

    assert first["body"] == TOO_LARGE_FOR_AN_ITEM
    assert "idempotency-expires" not in headers_of(first)
    assert sent.operations.count("PutObject") == 3
    assert world.service.clock.now_ms() - began_ms < 1_000
    assert problem_of(world.service.send(POST)) == (500, "answer-unavailable", False)
    assert world.record()["status"]["S"] == Status.COMPLETED


def test_without_time_for_an_object_the_record_still_says_that_it_is_done(world: World) -> None:
    """A function with 3 s, the default, cannot wait for a bucket: it answers and records."""
    world.answers(TOO_LARGE_FOR_AN_ITEM)
    context = Context(world.service.clock, world.service.clock.now_ms() + 3_000)

    assert world.service.handler(dict(POST), context)["body"] == TOO_LARGE_FOR_AN_ITEM
    assert world.record()["status"]["S"] == Status.COMPLETED


def test_a_users_slow_client_keeps_answers_all_the_same(world: World) -> None:
    """The first try of a call is made however long the client says that it may take."""
    world.service.store._call_timeout_ms = 360_000
    world.answers(LARGE)
    world.service.send(POST)

    assert world.service.send(POST)["body"] == LARGE


def test_a_failure_of_the_bucket_is_no_outage_of_the_store(world: World) -> None:
    """It is worth another try, but says nothing of the table: no breaker opens for it."""
    transport = LossyTransport(world.bucket)
    transport.refuse("PutObject", 1)
    transport.refuse("GetObject", 1)
    bucket = ResponseBucket(BUCKET, client=world.bucket)

    calls: tuple[Callable[[], object], ...] = (
        lambda: bucket.put("answers/a", b"1"),
        lambda: bucket.get("answers/a"),
    )
    for call in calls:
        with pytest.raises(StoreError) as failed:
            call()
        assert (failed.value.transient, failed.value.is_outage) == (True, False)
