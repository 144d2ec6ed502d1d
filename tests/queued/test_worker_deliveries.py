"""`mode="queued"` for its workers: who begins accepted work, once, and what a delivery means."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from oncekey import InProgress, KeyMissing, NotExecuted, OutcomeUnknown
from oncekey.effects.raised import RefusedBelow
from oncekey.errors import CallNotAnswered, EnvelopeUnreadable, JobUnfinished
from oncekey.queued.jobs import Jobs
from oncekey.record.outcome import Reason
from oncekey.record.record import Status
from tests.support.accepted import Accepted, Meanwhile
from tests.support.events import with_key
from tests.support.protected import Protected, problem_of
from tests.support.replacing import replace
from tests.support.steps import FAILED, POST, step

EFFECTS = pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])


def test_a_delivery_carries_the_request_out_and_a_second_one_finds_it_done() -> None:
    """The first delivery runs the handler, under the accepted attempt; the others run nothing."""
    service = Accepted()
    service.sends()

    for _ in range(3):
        service.works()

    (operation,) = service.runs
    assert (operation.attempt, operation.operation_id) == (1, service.record.operation_id)
    assert service.record.status is Status.COMPLETED


@pytest.mark.requirement("B4")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_of_two_workers_one_begins(at: int) -> None:
    """Two deliveries of one message, the second at each call of the first: the handler runs once.

    The one that loses is told `InProgress`, or finds it done.

    Red when `Begin` does not name the status and the waiting owner.
    """
    store = Meanwhile()
    first = Accepted(store=store)
    first.sends()
    second = first.another_sandbox()
    second.handles()
    told: list[str] = []

    def meanwhile() -> None:
        told.append(outcome_of(second))

    store.schedule(at, meanwhile)
    told.append(outcome_of(first))

    assert len(first.runs) + len(second.runs) == 1
    assert told in (["done", "done"], ["InProgress", "done"])
    assert first.send(POST)["statusCode"] == 201


@pytest.mark.requirement("B4")
def test_a_second_worker_loses_while_the_first_runs() -> None:
    """While the handler runs, another delivery of its message is told to come back.

    Red when a worker takes what another one's open lease holds.
    """
    service = Accepted()
    service.sends()
    told: list[Any] = []

    def again(*_: object) -> None:
        with pytest.raises(InProgress) as refused:
            service.works()
        told.append(refused.value.retry_after_s)

    service.handles(again)
    service.works()

    assert told == [5]
    assert len(service.runs) == 1


def outcome_of(service: Accepted) -> str:
    """What a delivery of the last message comes to."""
    try:
        service.works()
    except CallNotAnswered as refused:
        return type(refused).__name__
    return "done"


@EFFECTS
def test_not_executed_is_delivered_again_and_then_runs(effects: str) -> None:
    """A handler that says that nothing happened runs again at the next delivery."""
    service = Accepted(effects=effects)
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()

    service.handles()
    service.works()

    assert [operation.attempt for operation in service.runs] == [1, 2]
    assert service.send(POST)["statusCode"] == 201


@pytest.mark.parametrize("reason", [Reason.KEY_MISSING, Reason.KEY_REUSED])
def test_accepted_work_that_is_refused_below_is_not_dropped(reason: Reason) -> None:
    """Each delivery fails, so its message becomes a dead letter, and its record is still there."""
    service = Accepted()
    service.sends(ends=RefusedBelow(reason))

    for _ in range(2):
        with pytest.raises((KeyMissing, ValueError)):
            service.works()

    assert [operation.attempt for operation in service.runs] == [1, 2]
    assert service.record.status is Status.FAILED_RETRYABLE
    assert not service.record.is_expired(service.clock.now_ms())


@EFFECTS
@pytest.mark.parametrize("ends", [ValueError("broken"), FAILED], ids=["raises", "answers 500"])
def test_what_did_not_end_is_delivered_again(effects: str, ends: Any) -> None:
    """An exception and a 5xx are not acknowledged; the next delivery runs again where it may."""
    service = Accepted(effects=effects)
    service.sends(ends=ends)
    expected = JobUnfinished if isinstance(ends, dict) else ValueError

    with pytest.raises(expected):
        service.works()
    service.handles()

    if effects == "unrecorded":
        with pytest.raises(OutcomeUnknown):
            service.works()
        assert problem_of(service.send(POST))[:2] == (409, "outcome-unknown")
        assert len(service.runs) == 1
    else:
        service.works()
        assert service.send(POST)["statusCode"] == 201


@EFFECTS
def test_a_dead_worker_is_followed_by_the_next_delivery(effects: str) -> None:
    """A redelivery before the lease's end waits; after it, it goes on, or the outcome is unknown.

    What a finished step did is not done again.
    """
    service = Accepted(effects=effects)
    service.sends(*([step("charge")] if effects == "recorded" else []))
    with pytest.raises(KeyboardInterrupt):
        died(service)

    with pytest.raises(InProgress):
        service.works()
    service.lets_the_lease_run_out()
    if effects == "unrecorded":
        with pytest.raises(OutcomeUnknown):
            service.works()
    else:
        service.works()
        assert service.send(POST)["statusCode"] == 201
    assert len(service.ran) == (effects == "recorded")


def died(service: Accepted) -> None:
    """A delivery whose process dies in its handler."""
    handler = service.then

    def dying(event: Any, op: Any) -> Any:
        assert handler is not None
        handler(event, op)
        service.store.is_dead = True
        raise KeyboardInterrupt

    service.then = dying
    try:
        service.works()
    finally:
        service.then, service.store.is_dead = handler, False


def test_a_retry_sends_a_dead_attempt_off_anew_and_the_old_message_is_void() -> None:
    """After the lease a client's retry publishes a new message; the old one begins nothing."""
    service = Accepted()
    service.sends(step("charge"))
    with pytest.raises(KeyboardInterrupt):
        died(service)
    service.lets_the_lease_run_out()

    assert service.send(POST)["statusCode"] == 202
    old, new = service.messages
    service.works(old)
    assert service.record.status is Status.PENDING
    service.works(new)

    assert old.id != new.id
    assert service.ran == ["charge"]
    assert service.send(POST)["statusCode"] == 201


@pytest.mark.parametrize("at", range(4))
def test_a_retry_and_a_redelivery_at_once_run_it_once(at: int) -> None:
    """Where an attempt has failed, a client's retry at each call of a redelivery: one run more.

    Whichever comes first, one of the two messages does the work, and the other is void.
    """
    store = Meanwhile()
    service = Accepted(store=store)
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    service.handles()
    retrying = service.another_sandbox()
    store.schedule(at, lambda: retrying.send(POST))

    outcome_of_old = outcome_of(service)
    for message in service.messages:
        service.works(message)

    assert outcome_of_old == "done"
    assert len(service.runs) + len(retrying.runs) == 2
    assert service.send(POST)["statusCode"] == 201


def test_of_two_retries_at_once_one_publishes() -> None:
    """Two retries of a failed attempt, one during the other's write, leave one new message."""
    store = Meanwhile()
    service = Accepted(store=store)
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    other = service.another_sandbox()
    answers: list[Any] = []
    store.schedule(1, lambda: answers.append(other.send(POST)["statusCode"]))

    answers.append(service.send(POST)["statusCode"])

    assert answers == [202, 202]
    assert len(service.messages) == 2


def test_the_message_of_an_expired_operation_begins_nothing() -> None:
    """A dead letter redriven after its key's expiry speaks of an operation that is gone."""
    service = Accepted()
    service.sends()
    old = service.messages[0]
    service.works()
    service.clock.advance(25 * 3_600_000)
    service.sends()

    service.works(old)

    assert len(service.runs) == 1
    assert service.record.status is Status.PENDING


def test_an_older_message_does_not_run_a_later_operation() -> None:
    """An operation that has begun under the key since is not resumed by a message of the last."""
    service = Accepted()
    service.sends()
    old = service.messages[0]
    service.works()
    service.clock.advance(25 * 3_600_000)
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    service.handles()

    service.works(old)

    assert len(service.runs) == 2
    assert service.record.status is Status.FAILED_RETRYABLE


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_half_done_work_is_not_begun_by_a_handler_without_steps(effects: str) -> None:
    """A release that has given up recording its effects leaves half-done work alone."""
    service = Accepted()
    service.sends(step("charge"), ends=FAILED)
    with pytest.raises(JobUnfinished):
        service.works()
    service.send(POST)
    later = service.another_sandbox(effects=effects)

    with pytest.raises(OutcomeUnknown):
        later.works()

    assert later.runs == []
    service.handles(step("charge"))
    service.works()
    assert service.ran == ["charge"]


@pytest.mark.parametrize("payload", [None, [], {"record": 1}, {"record": "x", "owner": "y"}])
def test_a_payload_that_tells_of_nothing_fails(payload: Any) -> None:
    """A message of the topic without a request in it is a dead letter in the end."""
    service = Accepted()
    service.sends()

    with pytest.raises(EnvelopeUnreadable):
        service.works(replace(service.messages[0], payload=payload))


def test_a_message_of_another_handler_is_not_taken() -> None:
    """A worker takes its own operations, and says so of others."""
    service = Accepted()
    service.sends()
    other = Jobs(Accepted(operation="POST /others").handler)

    assert service.jobs.takes(service.messages[0])
    assert not other.takes(service.messages[0])
    with pytest.raises(ValueError, match="no handler takes"):
        other.perform(service.messages[0], None)


def test_a_request_that_no_longer_fits_is_not_begun() -> None:
    """Where this release finds another caller in it, the delivery fails, and nothing runs."""
    service = Accepted()
    service.sends()
    other = service.another_sandbox(tenant=lambda _context: "globex")

    with pytest.raises(ValueError, match="does not fit this release"):
        other.works()
    assert (service.record.status, other.runs) == (Status.PENDING, [])


def test_a_handler_that_answers_at_once_meets_a_waiting_request_as_running() -> None:
    """A release that has turned `mode="queued"` off tells the client to wait for the worker."""
    service = Accepted(effects="unrecorded")
    service.sends()
    at_once = Protected(store=service.store, operation="POST /reports")

    assert problem_of(at_once.send(POST))[:2] == (409, "request-in-progress")
    assert at_once.runs == []


def test_every_acceptance_has_a_message_of_its_own() -> None:
    """No two operations or attempts share a message id."""
    service = Accepted()
    keys = [f"key-number-{number}-of-some" for number in range(3)]
    for key in keys:
        service.handles(ends=NotExecuted("not now"))
        service.send(with_key(POST, key))
        with pytest.raises(NotExecuted):
            service.works()
        service.send(with_key(POST, key))

    ids = [message.id for message in service.messages]
    assert len(ids) == 6
    assert all(one != other for one, other in itertools.combinations(ids, 2))
