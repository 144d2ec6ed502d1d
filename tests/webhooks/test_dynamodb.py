"""Webhooks on DynamoDB: one transaction a delivery, and what becomes of it on the way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from oncekey import ConfigurationError
from oncekey.record.record import Status
from oncekey.record.transitions import Reserve
from tests.support.dynamodb import TABLE
from tests.support.hooks import TOPIC, Hook, status_of
from tests.support.protected import problem_of
from tests.support.recorded import World, recorded_world
from tests.support.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def world() -> Iterator[World]:
    """Empty tables."""
    with recorded_world() as world:
        yield world


@pytest.fixture
def hook(world: World) -> Hook:
    """A webhook on them."""
    return Hook(store=world.store())


@pytest.mark.requirement("A10")
def test_an_event_is_one_transaction_of_two_items(hook: Hook, world: World) -> None:
    """A first delivery and a repeat are one request each: the record, completed and with its
    expiry, and the message, both on condition.

    Red when the record is written before or after the message, or a repeat asks twice.
    """
    assert status_of(hook.send("evt_1")) == "accepted"
    assert status_of(hook.send("evt_1")) == "repeat"

    assert world.take_sent() == ["TransactWriteItems"] * 2
    stored = world.record
    (message,) = world.messages
    assert (stored.status, stored.rev, stored.attempt) == (Status.COMPLETED, 1, 1)
    assert stored.expires_at_s == -(-hook.clock.now_ms() // 1000) + 31 * 24 * 3600
    assert stored.due is None
    assert stored.lease_until_ms is None
    assert (message["topic"], message["operation_id"]) == (TOPIC, stored.operation_id)
    assert json.loads(message["payload"])["id"] == "evt_1"


@pytest.mark.requirement("A10")
def test_a_transaction_whose_answer_is_lost_counts_once(hook: Hook, world: World) -> None:
    """Sent again after a lost answer it meets its own record: a 200 that is no repeat.

    Red when the record under our own owner is taken for another delivery's.
    """
    world.transport.lose("TransactWriteItems", 2)

    assert status_of(hook.send("evt_1")) == "accepted"
    assert len(world.messages) == 1
    assert status_of(hook.send("evt_1")) == "repeat"


def test_a_table_that_is_away_is_a_503_and_nothing_is_written(hook: Hook, world: World) -> None:
    """Refused requests leave neither record nor message, and the next delivery leaves both."""
    world.transport.refuse("TransactWriteItems", 100)
    assert problem_of(hook.send("evt_1")) == (503, "store-unavailable", True)
    assert world.messages == []

    world.calm()
    assert status_of(hook.send("evt_1")) == "accepted"
    assert len(world.messages) == 1


def test_an_expired_id_is_a_new_event(hook: Hook, world: World) -> None:
    """A record whose time is over and that DynamoDB has not removed yet counts as absent."""
    hook.send("evt_1")
    before = world.record.operation_id
    hook.clock.advance(32 * 24 * 3_600_000)

    assert status_of(hook.send("evt_1")) == "accepted"
    assert world.record.operation_id != before
    assert len(world.messages) == 2


def test_an_event_too_large_for_a_message_goes_to_the_bucket(hook: Hook, world: World) -> None:
    """A large payload is kept before its message points at it; without a bucket the event is a 400,
    and stays with its sender.
    """
    large = json.dumps({"id": "evt_1", "text": "x" * 250_000}).encode()

    small = Hook(store=world.store(has_bucket=False))
    assert problem_of(small.send(body=large)) == (400, "event-invalid", False)
    assert status_of(hook.send(body=large)) == "accepted"
    (message,) = world.messages
    assert "payload" not in message


def test_a_webhook_without_an_outbox_is_told_so(world: World) -> None:
    """Without a table for its messages the first event raises, and nothing is written."""
    hook = Hook(store=world.store(outbox=""))

    with pytest.raises(ConfigurationError, match="ONCEKEY_OUTBOX_TABLE"):
        hook.send("evt_1")
    assert world.take_sent() == []


def test_a_record_that_no_webhook_wrote_is_not_taken_for_a_repeat(hook: Hook, world: World) -> None:
    """Where another kind of operation has the same name and key, the event is a 503: a 200 would
    lose it.
    """
    hook.send("evt_1")
    foreign = record(pk=world.record.pk, status=Status.IN_PROGRESS, created_at_ms=1)
    world.client.delete_item(TableName=TABLE, Key={"pk": {"S": foreign.pk}})
    world.store().write(Reserve(record=foreign, now_ms=1))

    assert problem_of(hook.send("evt_1")) == (503, "store-unavailable", True)
