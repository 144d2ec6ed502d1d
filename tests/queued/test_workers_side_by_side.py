"""Workers side by side, and messages that no longer speak for their operation."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from tests.support.async_world import (
    HOUR_MS,
    POST,
    Accepting,
    TableAccepting,
    TurnByTurn,
    accepted,
)
from tests.support.protected import fails, is_replay
from tests.support.recorded import recorded_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.protected import Answer

# A worker asks three times: read, begin, complete. All orders of two workers' calls are here.
SCHEDULES = [*itertools.product((0, 1), repeat=6)]
CREATED = {"statusCode": 201, "body": "made"}


def named(schedule: tuple[int, ...]) -> str:
    """Whose turn it is, one after the other."""
    return "".join(map(str, schedule))


@pytest.mark.requirement("B4")
@pytest.mark.parametrize("schedule", SCHEDULES, ids=named)
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_of_two_workers_one_claims_whatever_the_order_of_their_calls(
    effects: str, schedule: tuple[int, ...]
) -> None:
    """In every order of their calls the handler runs once, and the other worker is told that it is
    running or that it is done.

    Red when the claim is not conditional on the pending state that was seen.
    """
    store = TurnByTurn(schedule)
    service = Accepting(store=store, effects=effects)
    service.send(POST)

    store.run(service.work, service.work)

    assert len(service.runs) == 1
    assert "done" in service.heard
    assert set(service.heard) <= {"done", "InProgress"}
    assert (service.record.status, service.record.attempt) == (Status.COMPLETED, 1)
    assert service.send(POST)["body"] == '{"run": 1}'
    assert len(service.messages) == 1


@pytest.mark.requirement("B4")
def test_a_claim_is_one_conditional_write(make: Callable[..., Accepting]) -> None:
    """A second worker that read the pending record before the first one claimed it loses by the
    condition of its own write, and learns of the other from its refusal.

    Red when the claim is not conditional, or is preceded by anything but a read.
    """
    service = make()
    service.send(POST)
    lost: list[Any] = []
    claims: list[Any] = []
    original = service.store.write

    def write(transition: Any) -> Any:
        service.store.write = original
        claims.append(transition)
        service.then = handler
        service.perform()
        return original(transition)

    def handler(_event: object, _op: object) -> Answer:
        # The second worker's claim arrives while the first one is at work.
        lost.append(original(claims[0]))
        return dict(CREATED)

    service.store.write = write
    assert service.work() == "done"

    (refused,) = lost
    assert (refused.record.status, refused.record.attempt) == (Status.IN_PROGRESS, 1)
    assert len(service.runs) == 1
    assert service.record.status is Status.COMPLETED


@pytest.mark.requirement("B4")
def test_the_condition_names_the_state_and_the_owner_seen() -> None:
    """The claim is one UpdateItem on the pending status and the owner that the message names.

    Red when either is left out of the condition.
    """
    with recorded_world() as world:
        service = TableAccepting(world)
        service.send(POST)
        owner = world.record.owner
        message = service.message
        world.take_sent()
        service.perform(message)
        name, begin = world.recorder.calls[1]

    assert name == "UpdateItem"
    nothing_done = "(attribute_not_exists(#steps) OR size(#steps.#finished) = :none)"
    assert begin["ConditionExpression"] == (
        f"#status = :pending AND #owner = :seen_owner AND {nothing_done}"
    )
    assert begin["ExpressionAttributeValues"][":pending"] == {"S": "PENDING"}
    assert begin["ExpressionAttributeValues"][":seen_owner"] == {"S": owner}


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_of_two_re_enqueues_one_wins(make: Callable[..., Accepting], effects: str) -> None:
    """Two retries that met the failed record at once get the same 202: one transaction is applied,
    there is one message more, and one run more.
    """
    service = make(effects=effects)
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    service.then = None
    service.clock.advance(1)
    faster: list[Answer] = []
    original = service.store.commit

    def commit(whole: Any) -> Any:
        if type(whole.transition).__name__ == "Enqueue":
            service.store.commit = original
            faster.append(service.send(POST))
        return original(whole)

    service.store.commit = commit
    slower = service.send(POST)

    assert accepted(slower) == accepted(faster[0])
    assert service.record.attempt == 2
    first, second = service.messages
    assert (first.payload["owner"], second.payload["owner"]) == ("owner-1", service.record.owner)
    assert [service.work(second), service.work(first)] == ["done", "done"]
    assert [op.attempt for op in service.runs] == [1, 2]


def test_an_acceptance_anew_by_what_was_seen_before_another_attempt_loses(
    make: Callable[..., Accepting],
) -> None:
    """A retry whose record was accepted again and has failed again meanwhile writes nothing for
    what it saw, and accepts the attempt after that one: each attempt has its own message.
    """
    service = make(effects="repeatable")
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    original = service.store.commit

    def commit(whole: Any) -> Any:
        if type(whole.transition).__name__ == "Enqueue":
            service.store.commit = original
            service.clock.advance(1)
            accepted(service.send(POST))
            service.work()
            service.clock.advance(1)
        return original(whole)

    service.store.commit = commit
    assert accepted(service.send(POST))[0] == "pending"

    assert (service.record.attempt, len(service.runs)) == (3, 2)
    assert len({message.id for message in service.messages}) == 3
    service.then = None
    assert [service.work(message) for message in service.messages] == ["done"] * 3
    assert [op.attempt for op in service.runs] == [1, 2, 3]


@pytest.mark.parametrize("schedule", SCHEDULES[::2], ids=named)
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_a_redelivery_resumes_while_a_client_accepts_again(
    effects: str, schedule: tuple[int, ...]
) -> None:
    """In every order of their calls there is one attempt more, and the client is told of it or gets
    its answer; a second message, if one was written, is worked off without another run.
    """
    store = TurnByTurn(schedule)
    service = Accepting(store=store, effects=effects)
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    service.then = None
    got: list[Answer] = []

    store.run(service.work, lambda: got.append(service.send(POST)))
    while service.work() != "done":
        pass

    assert is_replay(got[0]) or accepted(got[0])[0] in {"pending", "in_progress"}
    assert [op.attempt for op in service.runs] == [1, 2]
    assert service.send(POST)["body"] == '{"run": 2}'
    assert len(service.messages) == 1 + (store.asked.count("Resume") == store.refusals("Resume"))


@pytest.mark.parametrize("call", range(3))
def test_a_worker_and_a_client_that_meet_a_late_one_end_it_once(call: int) -> None:
    """At whatever call of the worker's the client comes in, both find the one 408."""
    service = Accepting()
    service.send(POST)
    service.clock.advance(HOUR_MS)
    got: list[Answer] = []
    service.store.before_call(call, lambda: got.append(service.send(POST)))

    assert service.work() == "done"
    got.append(service.send(POST))

    assert {each["statusCode"] for each in got} == {408}
    assert len({each["body"] for each in got}) == 1
    assert service.runs == []


def test_a_worker_that_claims_at_the_last_moment_is_not_timed_out(
    make: Callable[..., Accepting],
) -> None:
    """A client whose clock is ahead gives the operation up; the worker that read it before loses,
    and its handler does not run.
    """
    service = make()
    service.send(POST)
    service.clock.advance(HOUR_MS - 1)
    got: list[Answer] = []
    original = service.store.write

    def write(transition: Any) -> Any:
        service.store.write = original
        service.clock.advance(1)
        got.append(service.send(POST))
        return original(transition)

    service.store.write = write

    assert service.work() == "done"
    assert (got[0]["statusCode"], service.runs) == (408, [])
