"""Commits: built once, resent as they are, applied once, phase by phase; or unconfirmed."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from oncekey import RunStopped
from oncekey.record.record import Status
from oncekey.store.store import Refused
from tests.support.protected import is_replay, problem_of
from tests.support.recorded import (
    LEDGER,
    WITHOUT_END,
    Wire,
    World,
    point,
    put,
    recorded_world,
    transfer,
)
from tests.support.steps import FAILED, POST, Action, Steps, caught, step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Operation

COMMIT, RELEASE = "TransactWriteItems", "UpdateItem"


@pytest.fixture(params=[False, True], ids=["tokens ignored", "tokens honoured"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Tables of its own for each test, on an engine that ignores client tokens and on one that
    answers a repeated transaction without applying it.
    """
    with recorded_world(honours_tokens=request.param) as made:
        yield made


@pytest.fixture
def forgetful() -> Iterator[World]:
    """Tables on an engine that has forgotten every client token."""
    with recorded_world() as made:
        yield made


def counted(row_id: str) -> Action:
    """Collect one more for a counter of this name."""

    def action(_service: Steps, op: Operation) -> None:
        op.transaction.update(LEDGER, {"id": row_id}, "ADD amount :one", values={":one": 1})
        op.outbox.publish(row_id, {})

    return action


@pytest.mark.case(42)
@pytest.mark.requirement("C2")
@pytest.mark.parametrize(
    ("dropped", "failed", "lost"), [(2, 0, 0), (0, 2, 0), (0, 0, 1), (0, 0, 3), (1, 1, 1)]
)
@pytest.mark.parametrize("publishes", [True, False], ids=["with a message", "without"])
@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_a_commit_is_sent_again_as_the_same_bytes_and_applied_once(
    world: World, is_final: bool, publishes: bool, dropped: int, failed: int, lost: int
) -> None:
    """A commit that never arrived, was answered 500, or whose answer was lost, is sent again byte
    for byte; where its token is ignored, too, the counter and the outbox do not double.

    Red when a resent commit is built anew, or is applied without the record's own condition.
    """
    service, wire = world.service(), Wire(world)
    wire.befall(dropped=dropped, failed=failed)
    world.transport.lose(COMMIT, lost + (failed if lost else 0))

    collect = transfer(publishes=publishes)
    answer = service.sends(collect, *([] if is_final else [point("made")]))

    assert answer["statusCode"] == 201
    assert len(wire.bodies) == 1 + dropped + failed + lost
    assert len(set(wire.bodies)) == 1
    assert (world.balance, len(world.rows), len(world.messages)) == (5, 2, int(publishes))
    assert world.record.status is Status.COMPLETED
    assert (world.record.attempt, len(service.runs)) == (1, 1)
    assert is_replay(service.send(POST))


@pytest.mark.case(42)
@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_the_same_transaction_sent_directly_again_is_refused(
    forgetful: World, is_final: bool
) -> None:
    """The very bytes that were applied, sent once more to a DynamoDB that has forgotten their
    token, change nothing; the record that refuses them says that they have landed.

    Red when the condition of the record would hold a second time.
    """
    service = forgetful.service()
    built: list[Any] = []
    commit = service.store.commit

    def noting(whole: Any) -> Any:
        built.append(whole)
        return commit(whole)

    service.store.commit = noting
    service.sends(transfer(), *([] if is_final else [point("made")]))
    (parameters,) = forgetful.transactions()
    before = (forgetful.rows, forgetful.messages, forgetful.record)

    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        forgetful.client.transact_write_items(**parameters)
    reply = commit(built[0])

    assert isinstance(reply, Refused)
    assert reply.record == forgetful.record
    assert (forgetful.rows, forgetful.messages, forgetful.record) == before


def tokens(world: World) -> list[str]:
    """The client request tokens of the transactions sent so far."""
    return [each["ClientRequestToken"] for each in world.transactions()]


def test_a_token_is_of_one_commit_of_one_attempt_in_one_life_of_the_key(world: World) -> None:
    """It is a UUID of operation id, owner and the commit's number: sent again, it is the same; for
    another commit, another attempt and the next life of the same key it is another one.
    """
    service = world.service(retention=timedelta(days=1))
    world.transport.lose(COMMIT, 1)

    service.sends(put("a"), point("one"), put("b"), point("two"), ends=FAILED)
    first = world.record
    service.sends(put("a"), point("one"), put("b"), point("two"), put("c"))
    second = world.record
    service.clock.advance(25 * 3600 * 1000)
    service.sends(put("a"))
    third = world.record

    def token(record: Any, number: int) -> str:
        name = f"commit {record.owner} {number}"
        return str(uuid.uuid5(uuid.UUID(record.operation_id), name))

    expected = [token(first, 0), token(first, 0), token(first, 1), token(second, 0)]
    assert tokens(world) == [*expected, token(third, 0)]
    assert len(set(tokens(world))) == 4
    assert first.operation_id == second.operation_id != third.operation_id
    assert len({first.owner, second.owner, third.owner}) == 3


PHASES: list[Action] = [
    counted("one"),
    point("one"),
    counted("two"),
    point("two"),
    counted("three"),
]


@pytest.mark.requirement("E11")
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "answered 500"])
@pytest.mark.parametrize("length", range(6))
def test_phases_are_committed_once_each_wherever_the_first_attempt_ended(
    world: World, length: int, is_killed: bool
) -> None:
    """Each commit applies what was collected since the last one; the attempt that follows applies
    what is left, and nothing again.

    Red when a commit leaves no recovery point, or when a resumed attempt applies a phase that is on
    record.
    """
    service = world.service()

    if is_killed:
        world.dies(service, *PHASES[:length])
    else:
        service.sends(*PHASES[:length], ends=FAILED)
    done = sorted(step.name for step in world.record.steps.finished)
    assert done == ["one", "two"][: length // 2]
    assert sorted(world.rows) == done
    answer = service.sends(*PHASES)

    assert answer["statusCode"] == 201
    assert {row_id: row["amount"] for row_id, row in world.rows.items()} == {
        "one": 1,
        "two": 1,
        "three": 1,
    }
    assert sorted(message["topic"] for message in world.messages) == ["one", "three", "two"]
    assert [run.attempt for run in service.runs] == [1, 2]
    assert all(each.is_commit for each in world.record.steps.finished)


@pytest.mark.requirement("E11")
def test_a_commit_stays_whatever_the_answer_is(world: World) -> None:
    """What a phase has committed is not undone by an answer that is not final, and the retry goes
    on after it; steps and commits share one order.

    Red when a later failure takes back a phase, or the retry begins at its start.
    """
    service = world.service()
    story = [step("hold", "h-1"), counted("one"), point("one"), step("charge", "c-1")]

    service.sends(*story, counted("two"), ends=FAILED)
    assert list(world.rows) == ["one"]
    service.sends(*story, counted("two"))

    assert service.ran == ["hold", "charge"]
    assert {row_id: row["amount"] for row_id, row in world.rows.items()} == {"one": 1, "two": 1}
    places = [(each.name, each.position) for each in world.record.steps.finished]
    assert sorted(places, key=lambda each: each[1]) == [("hold", 0), ("one", 1), ("charge", 2)]


def catches_everything(action: Action) -> Action:
    """A handler that does not let a stop pass."""
    return caught(action, BaseException)


UNCONFIRMED = {
    "completion": [transfer()],
    "op.commit": [transfer(), point("made")],
    "op.commit, its stop caught": [transfer(), catches_everything(point("made"))],
}


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("is_applied", [True, False])
@pytest.mark.parametrize("actions", UNCONFIRMED.values(), ids=UNCONFIRMED)
def test_a_commit_that_stays_unconfirmed_is_not_answered_as_if_it_had_been(
    world: World, actions: list[Action], is_applied: bool
) -> None:
    """When no answer comes until the deadline, whether the commit was applied or not, the caller is
    told to come back with the same key; the retry gets the truth, and everything was applied once.

    Red when the handler's 201 is given without a confirmation, or the retry applies it twice.
    """
    service = world.service()
    befall = world.transport.lose if is_applied else world.transport.refuse
    befall(COMMIT, WITHOUT_END)
    world.transport.refuse(RELEASE, WITHOUT_END)

    answer = service.sends(*actions)

    assert problem_of(answer) == (503, "store-unavailable", True)
    assert answer["headers"]["Retry-After"] == "1"
    assert (world.balance, len(world.messages)) == ((5, 1) if is_applied else (0, 0))
    world.calm()
    service.lets_the_lease_run_out()
    retry = service.sends(*actions)
    assert retry["statusCode"] == 201
    is_done = is_applied and len(actions) == 1
    assert is_replay(retry) is is_done
    assert len(service.runs) == (1 if is_done else 2)
    assert (world.balance, len(world.messages)) == (5, 1)


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_release_tells_what_became_of_an_unconfirmed_completion(
    world: World, is_applied: bool
) -> None:
    """Where the record can still be written, an unconfirmed completion is asked about by releasing
    the key: if it was applied, the caller gets its answer; if not, the key is free at once, and the
    commit, arriving late, finds nothing to apply to.
    """
    service = world.service()
    befall = world.transport.lose if is_applied else world.transport.refuse
    befall(COMMIT, WITHOUT_END)

    answer = service.sends(transfer())
    late = world.transactions()[0]
    world.calm()

    if is_applied:
        assert answer["statusCode"] == 201
        assert [is_replay(answer), is_replay(service.send(POST))] == [False, True]
    else:
        assert problem_of(answer) == (503, "store-unavailable", True)
        assert world.record.status is Status.FAILED_RETRYABLE
        with pytest.raises(ClientError, match="ConditionalCheckFailed"):
            world.client.transact_write_items(**late)
        assert world.is_empty_of_effects()
        assert service.sends(transfer())["statusCode"] == 201
    assert (world.balance, len(world.messages)) == (5, 1)


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_release_frees_the_key_after_an_unconfirmed_phase(world: World, is_applied: bool) -> None:
    """A phase whose commit was not confirmed stops the attempt and frees the key; the next attempt
    finds on record whether it was applied. Until then the record does not expire: it may hold
    evidence.
    """
    service = world.service()
    befall = world.transport.lose if is_applied else world.transport.refuse
    befall(COMMIT, WITHOUT_END)

    answer = service.sends(transfer(), caught(point("made"), RunStopped), counted("late"))
    world.calm()

    assert problem_of(answer) == (503, "store-unavailable", True)
    assert world.record.status is Status.FAILED_RETRYABLE
    assert world.record.expires_at_s is None
    assert service.sends(transfer(), point("made"))["statusCode"] == 201
    assert (world.balance, len(world.messages)) == (5, 1)
    assert "late" not in world.rows


def test_an_owner_that_lost_its_record_during_a_commit_learns_what_is_on_record(
    world: World,
) -> None:
    """Taken over between two sendings of its commit, an attempt applies nothing, and answers what
    the other attempt has completed.
    """
    service = world.service()
    other = service.another_sandbox(ahead_ms=60_000)
    world.transport.refuse(COMMIT, 1)
    pause = service.clock.pause

    def pause_and_lose(duration_ms: int) -> None:
        service.clock.pause = pause  # type: ignore[method-assign]  # once
        other.sends(transfer(7), ends={"statusCode": 202, "body": "other"})
        pause(duration_ms)

    service.clock.pause = pause_and_lose  # type: ignore[method-assign]  # as above

    answer = service.sends(transfer(100))

    assert (answer["statusCode"], answer["body"]) == (202, "other")
    assert (world.balance, len(world.messages)) == (7, 1)
