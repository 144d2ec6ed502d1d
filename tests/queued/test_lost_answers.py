"""Answers of the store that are lost on their way: one message, one run, whatever was applied."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from tests.support.async_world import HOUR_MS, POST, Accepting, TableAccepting, accepted
from tests.support.protected import fails, is_replay, problem_of
from tests.support.recorded import WITHOUT_END, Wire, World

ACCEPT, WRITE, READ, KEEP = "TransactWriteItems", "UpdateItem", "GetItem", "PutObject"
EFFECTS = ["unrecorded", "repeatable", "recorded"]


def works_off(service: Accepting) -> None:
    """Every message is delivered twice, in the order in which they were written."""
    for message in service.messages * 2:
        assert service.work(message) == "done"


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("befalls", ["lose", "refuse"])
def test_an_acceptance_whose_answer_was_lost_is_sent_again(
    world: World, befalls: str, failures: int
) -> None:
    """Applied or not, it is sent again as the same bytes, and the client gets its 202: there is one
    message, under the owner that waits, and one run.
    """
    wire = Wire(world)
    service = TableAccepting(world)
    getattr(world.transport, befalls)(ACCEPT, failures)

    first = accepted(service.send(POST))

    assert world.take_sent() == [ACCEPT] * (failures + 1)
    assert first == ("pending", 5, service.record.operation_id)
    assert service.message.payload["owner"] == service.record.owner
    assert len(set(wire.bodies)) == 1
    works_off(service)
    assert len(service.runs) == 1
    assert is_replay(service.send(POST))


def test_an_acceptance_that_was_applied_and_given_up_is_found_by_the_retry(world: World) -> None:
    """The client gets 503; its retry finds the waiting record and its one message."""
    service = TableAccepting(world)
    world.transport.lose(ACCEPT, WITHOUT_END)
    assert problem_of(service.send(POST)) == (503, "store-unavailable", True)
    world.calm()

    assert accepted(service.send(POST))[2] == service.message.operation_id
    works_off(service)
    assert len(service.runs) == 1


def test_an_acceptance_that_never_arrived_leaves_nothing(world: World) -> None:
    """Neither record nor message nor pointer is there; the retry is accepted afresh."""
    service = TableAccepting(world)
    world.transport.refuse(ACCEPT, WITHOUT_END)
    assert problem_of(service.send(POST)) == (503, "store-unavailable", True)
    assert world.client.scan(TableName="idempotency-under-test")["Items"] == []
    assert world.messages == []
    world.calm()

    assert accepted(service.send(POST))[0] == "pending"
    works_off(service)
    assert len(service.runs) == 1


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("befalls", ["lose", "refuse"])
@pytest.mark.parametrize("effects", EFFECTS)
def test_a_claim_whose_answer_was_lost_is_the_workers_own(
    world: World, effects: str, befalls: str, failures: int
) -> None:
    """The worker sends it again, knows the lease for its own, and runs the handler once."""
    service = TableAccepting(world, effects=effects)
    service.send(POST)
    message = service.message
    world.take_sent()
    getattr(world.transport, befalls)(WRITE, failures)

    assert service.work(message) == "done"

    # The lost Begins and the last one; a recorded operation completes by a transaction or an
    # update, as it has something to commit or not.
    assert world.take_sent() == [READ, *[WRITE] * (failures + 2)]
    assert [op.attempt for op in service.runs] == [1]
    assert service.send(POST)["body"] == '{"run": 1}'


@pytest.mark.parametrize("effects", EFFECTS)
def test_a_claim_that_was_applied_and_given_up_is_met_like_a_dead_one(
    world: World, effects: str
) -> None:
    """The handler did not run under it: `perform` raises StoreUnavailable. While the lease is open
    redeliveries are InProgress; after it what is safe runs, and an unrecorded one is unknown, as
    nobody can tell it from one that ran and died.
    """
    service = TableAccepting(world, effects=effects)
    service.send(POST)
    world.transport.lose(WRITE, WITHOUT_END)
    assert service.work() == "StoreUnavailable"
    world.calm()
    assert service.runs == []

    assert service.work() == "InProgress"
    service.lets_the_lease_run_out()
    assert service.work() == ("OutcomeUnknown" if effects == "unrecorded" else "done")
    assert len(service.runs) == (effects != "unrecorded")


@pytest.mark.parametrize("befalls", ["lose", "refuse"])
@pytest.mark.parametrize("effects", EFFECTS)
def test_a_completion_whose_answer_was_lost_is_done(
    world: World, effects: str, befalls: str
) -> None:
    """The worker sends it again and acknowledges; nothing runs again."""
    service = TableAccepting(world, effects=effects)
    service.send(POST)

    def handler(_event: object, _op: object) -> dict[str, object]:
        getattr(world.transport, befalls)(WRITE, 1)
        return {"statusCode": 201, "body": "made"}

    service.then = handler

    works_off(service)
    assert len(service.runs) == 1
    assert service.record.status is Status.COMPLETED


@pytest.mark.parametrize("who", ["worker", "client"])
@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("befalls", ["lose", "refuse"])
def test_a_timing_out_whose_answer_was_lost_is_told_all_the_same(
    world: World, befalls: str, failures: int, who: str
) -> None:
    """Whoever ends a late one gets past the lost answer to the one 408, and nothing runs."""
    service = TableAccepting(world, start_within=timedelta(minutes=5))
    service.send(POST)
    service.clock.advance(HOUR_MS)
    getattr(world.transport, befalls)(WRITE, failures)

    if who == "worker":
        assert service.work() == "done"
    assert problem_of(service.send(POST))[:2] == (408, "not-started-in-time")

    works_off(service)
    assert (service.runs, len(service.messages)) == ([], 1)


@pytest.mark.parametrize("who", ["worker", "client"])
def test_a_timing_out_that_is_given_up_is_done_by_the_next(world: World, who: str) -> None:
    """While the store is away nobody is told of an end; whoever meets the operation then finds it
    ended, or ends it.
    """
    service = TableAccepting(world)
    service.send(POST)
    service.clock.advance(HOUR_MS)
    world.transport.lose(WRITE, WITHOUT_END)

    if who == "worker":
        assert service.work() == "StoreUnavailable"
    else:
        assert problem_of(service.send(POST))[:2] == (503, "store-unavailable")
    world.calm()

    works_off(service)
    assert service.send(POST)["statusCode"] == 408
    assert service.runs == []


def failed(world: World) -> TableAccepting:
    """A service whose first run did nothing."""
    service = TableAccepting(world)
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    service.then = None
    service.clock.advance(1)
    return service


def befalls_enqueue(world: World, befalls: str, failures: int) -> None:
    """Let this befall transactions, but not the first: that is a reserve, and finds the record."""
    calls = itertools.count()

    def before_call(**_: object) -> None:
        if next(calls) == 1:
            getattr(world.transport, befalls)(ACCEPT, failures)

    events: Any = world.client.meta.events
    events.register_first(f"before-call.dynamodb.{ACCEPT}", before_call)


@pytest.mark.parametrize("failures", [1, 2])
@pytest.mark.parametrize("befalls", ["lose", "refuse"])
def test_an_acceptance_anew_whose_answer_was_lost_is_sent_again(
    world: World, befalls: str, failures: int
) -> None:
    """The second message is written once, the attempt counted once, and run once."""
    service = failed(world)
    wire = Wire(world)
    befalls_enqueue(world, befalls, failures)

    assert accepted(service.send(POST))[0] == "pending"

    # A reserve, which meets the failed record; and the same bytes until their answer arrives.
    assert len(wire.bodies) == 2 + failures * (befalls == "lose")
    assert len(set(wire.bodies)) == 2
    assert (len(service.messages), service.record.attempt) == (2, 2)
    assert service.messages[1].payload["owner"] == service.record.owner
    works_off(service)
    assert [op.attempt for op in service.runs] == [1, 2]


def test_an_acceptance_anew_that_is_given_up_is_found_by_the_retry(world: World) -> None:
    """The client gets 503, applied though it was; its next retry writes no third message."""
    service = failed(world)
    befalls_enqueue(world, "lose", WITHOUT_END)
    assert problem_of(service.send(POST)) == (503, "store-unavailable", True)
    world.calm()

    assert accepted(service.send(POST))[0] == "pending"
    assert len(service.messages) == 2
    works_off(service)
    assert [op.attempt for op in service.runs] == [1, 2]


@pytest.mark.parametrize("befalls", ["lose", "refuse"])
def test_a_large_payload_whose_keeping_was_lost_is_kept_again(world: World, befalls: str) -> None:
    """The object is there before the message that points at it, whatever was lost."""
    service = TableAccepting(world)
    event = {**POST, "body": "x" * 300_000}
    getattr(world.transport, befalls)(KEEP, 1)

    assert accepted(service.send(event))[0] == "pending"

    assert world.take_sent() == [READ, KEEP, KEEP, ACCEPT]
    assert service.message.payload["event"]["body"] == event["body"]
    works_off(service)
    assert len(service.runs) == 1
