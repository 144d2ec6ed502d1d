"""The five states of an accepted operation, each with its answer, and those that begin too late."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import STRIPE, NotExecuted
from oncekey.record.record import Status
from tests.support.async_world import (
    HOUR_MS,
    POST,
    Accepting,
    accepted,
    shown,
)
from tests.support.events import load
from tests.support.protected import (
    SHAPES,
    answers,
    fails,
    headers_of,
    is_replay,
    problem_of,
    while_running,
)
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.protected import Answer


@pytest.mark.requirement("B2")
def test_each_of_the_five_states_has_its_answer(make: Callable[..., Accepting]) -> None:
    """Pending and processing are 202 with their names, complete is the stored answer, failed is
    accepted again, and expired is a new operation.

    Red when two states are answered alike, or the repeat of any runs something by itself.
    """
    service = make(retention=timedelta(hours=1))
    service.send(POST)
    assert accepted(service.send(POST))[0] == "pending"

    processing: list[Any] = []

    def handler(_event: object, _op: object) -> Answer:
        processing.append(accepted(service.send(POST))[0])
        raise NotExecuted

    service.then = handler
    service.work()
    assert processing == ["in_progress"]

    assert service.record.status is Status.FAILED_RETRYABLE
    service.clock.advance(1)
    status, _, operation_id = accepted(service.send(POST))
    assert (status, len(service.messages)) == ("pending", 2)

    service.then = None
    service.perform()
    complete = service.send(POST)
    assert (complete["statusCode"], complete["body"]) == (201, '{"run": 2}')
    assert is_replay(complete)

    service.clock.advance(HOUR_MS + 1_000)
    expired = accepted(service.send(POST))
    assert (expired[0], expired[2] != operation_id) == ("pending", True)
    assert (len(service.messages), len(service.runs)) == (3, 2)


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("policy", [None, "accepted", "wait"])
def test_pending_and_processing_are_202_by_policy(shape: str, policy: str | None) -> None:
    """With `mode="queued"` both are 202 with `Retry-After`, never longer than the lease lasts.

    Red when either is a 409, has no `Retry-After`, or sends the client away past the lease's end.
    """
    waiting = {"wait_up_to": timedelta(0)} if policy == "wait" else {}
    service = Accepting(in_progress=policy, timeout_ms=2_000, **waiting)
    service.send(load(shape))
    waits: list[tuple[str, int]] = [accepted(service.send(load(shape)))[:2]]

    def handler(_event: object, _op: object) -> Answer:
        waits.append(accepted(service.send(load(shape)))[:2])
        service.clock.advance(5_500)
        waits.append(accepted(service.send(load(shape)))[:2])
        return {"statusCode": 201, "body": ""}

    service.then = handler
    service.work()

    assert waits == [("pending", 5), ("in_progress", 5), ("in_progress", 2)]


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_sync_operation_is_202_where_its_location_answers(shape: str) -> None:
    """With `in_progress="accepted"` a repeat in flight is 202, and what it points at shows the
    operation; the pointer was written before the answer was given.

    Red when the pointer is not written, or only after the 202.
    """
    service = Accepting(mode="sync", in_progress="accepted")
    seen: list[Any] = []

    def repeat() -> Answer:
        answer = service.send(load(shape))
        seen.append(shown(service.ask(accepted(answer)[2])))
        return answer

    answer = while_running(service, load(shape), repeat)

    assert accepted(answer) == ("in_progress", 5, service.record.operation_id)
    assert (seen[0]["operation_id"], seen[0]["status"]) == (accepted(answer)[2], "in_progress")
    assert service.store.asked == [*("Reserve", "Reserve", "save"), *("fetch", "read"), "Complete"]
    assert shown(service.ask())["answer"] == {"status": 201}


@pytest.mark.requirement("B3")
@pytest.mark.parametrize("failure", ["refused", "denied"])
def test_a_sync_operation_that_could_not_be_found_is_409(failure: str) -> None:
    """When the pointer cannot be written the repeat is a 409 with `Retry-After`: a `Location` at
    which nothing is would be taken for a lost request.

    Red when the 202 is given all the same.
    """
    service = Accepting(mode="sync", in_progress="accepted")

    def repeat() -> Answer:
        if failure == "refused":
            service.store.refuse("save", 100)
        else:
            service.store.deny("save")
        return service.send(POST)

    answer = while_running(service, POST, repeat)

    assert problem_of(answer) == (409, "request-in-progress", True)
    assert headers_of(answer)["retry-after"] == "5"
    assert service.store.blobs == {}


def test_a_sync_operation_writes_no_pointer_unless_it_answers_202() -> None:
    """A first call, a replay and a 409 cost what they did."""
    service = Accepting(mode="sync")
    while_running(service, POST, lambda: service.send(POST))
    service.send(POST)

    assert service.store.asked == ["Reserve", "Reserve", "Complete", "Reserve"]
    assert service.store.blobs == {}


def too_late(make: Callable[..., Accepting], **options: Any) -> Accepting:
    """A service with a request that no worker has begun in time."""
    service = make(start_within=timedelta(minutes=5), **options)
    service.send(POST)
    service.clock.advance(5 * 60_000)
    return service


@pytest.mark.requirement("B10")
@pytest.mark.parametrize("who", ["worker", "client"])
def test_an_abandoned_request_ends_as_a_stored_408(
    make: Callable[..., Accepting], who: str
) -> None:
    """Whoever meets it after its time, the worker or the client, ends it as 408
    `not-started-in-time`, which every repeat gets; it never runs afterwards.

    Red when a late one runs, stays pending, or is answered afresh each time.
    """
    service = too_late(make)

    if who == "worker":
        assert service.work() == "done"
        assert service.record.status is Status.COMPLETED
    first = service.send(POST)
    assert service.work() == "done"
    second = service.send(POST)

    assert problem_of(first) == (408, "not-started-in-time", False)
    assert is_replay(first)
    assert first == second
    assert (service.record.status, service.record.due) == (Status.COMPLETED, None)
    assert (len(service.messages), service.runs) == (1, [])
    found = shown(service.ask())
    assert (found["status"], found["answer"]) == ("completed", {"status": 408})


@pytest.mark.requirement("B10")
def test_the_408_is_kept_and_forgotten_like_any_answer(make: Callable[..., Accepting]) -> None:
    """Its retention counts from the end of the waiting; then the key is free for a new operation.

    Red when the 408 never expires, or counts from the acceptance.
    """
    service = too_late(make, retention=timedelta(hours=1))
    service.perform()

    service.clock.advance(HOUR_MS - 1_000)
    assert service.send(POST)["statusCode"] == 408
    service.clock.advance(1_000)
    assert accepted(service.send(POST))[0] == "pending"


@pytest.mark.requirement("B10")
def test_until_its_time_is_over_a_request_is_begun(make: Callable[..., Accepting]) -> None:
    """One millisecond before the deadline a worker runs it and a client is told 202.

    Red when a request is given up before its time.
    """
    service = make(start_within=timedelta(minutes=5))
    service.send(POST)
    service.clock.advance(5 * 60_000 - 1)

    assert accepted(service.send(POST))[0] == "pending"
    assert service.work() == "done"

    assert service.send(POST)["body"] == '{"run": 1}'


@pytest.mark.requirement("B10")
def test_the_deadline_is_for_the_beginning_alone() -> None:
    """What was begun in time may end after it.

    Red when work in progress is ended as not started.
    """
    service = Accepting(start_within=timedelta(minutes=5))
    service.send(POST)
    service.clock.advance(5 * 60_000 - 1)

    def handler(_event: object, _op: object) -> Answer:
        service.clock.advance(5_000)
        assert accepted(service.send(POST))[0] == "in_progress"
        return {"statusCode": 201, "body": "made"}

    service.then = handler
    service.perform()

    assert service.send(POST)["statusCode"] == 201


@pytest.mark.requirement("B10")
def test_what_is_accepted_again_has_its_time_again(make: Callable[..., Accepting]) -> None:
    """The deadline of a second message counts from its own acceptance, and brings a third one.

    What was begun once is not answered 408.

    Red when the first deadline stays, or the second attempt has none.
    """
    service = make(start_within=timedelta(minutes=5))
    service.send(POST)
    service.then = fails(NotExecuted())
    service.work()
    service.then = None
    service.clock.advance(4 * 60_000)
    accepted(service.send(POST))
    service.clock.advance(4 * 60_000)

    assert accepted(service.send(POST))[0] == "pending"
    service.clock.advance(60_000)
    assert accepted(service.send(POST))[0] == "pending"
    assert [service.work(message) for message in service.messages] == ["done"] * 3
    assert len(service.runs) == 2


@pytest.mark.requirement("B10")
def test_half_done_work_is_never_timed_out(make: Callable[..., Accepting]) -> None:
    """A request with a finished step that waits past its deadline stays pending for the client,
    and a worker still resumes it: its answer must tell of what was done.

    Red when half-done work is answered 408.
    """
    service = make(effects="recorded", start_within=timedelta(minutes=5))
    ran: list[str] = []

    def handler(_event: object, op: Any) -> Answer:
        op.step("charge", lambda: ran.append("charge"))
        return {"statusCode": 503 if len(service.runs) == 1 else 201, "body": ""}

    service.then = handler
    service.send(POST)
    service.work()
    accepted(service.send(POST))
    service.clock.advance(HOUR_MS)

    assert accepted(service.send(POST))[0] == "pending"
    assert service.work() == "done"

    assert (ran, len(service.runs)) == (["charge"], 2)
    assert service.send(POST)["statusCode"] == 201


def test_overdue_is_exactly_waiting_past_its_deadline() -> None:
    """Only a pending record whose deadline has come is overdue; a second attempt was begun."""
    service = Accepting()
    service.send(POST)
    record = service.record
    assert record.due is not None
    at_ms = record.due.at_ms

    assert [record.is_overdue(now_ms) for now_ms in (at_ms - 1, at_ms)] == [False, True]
    assert [replace(record, attempt=attempt).was_begun for attempt in (1, 2)] == [False, True]
    assert not replace(record, due=None).is_overdue(at_ms)
    for status in set(Status) - {Status.PENDING}:
        assert not replace(record, status=status).is_overdue(at_ms)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_408_has_the_form_of_its_request(shape: str) -> None:
    """A worker that meets it ends it in the shape and the preset that the request came in."""
    service = Accepting(start_within=timedelta(minutes=5), preset=STRIPE)
    service.send(load(shape))
    service.clock.advance(HOUR_MS)
    service.perform()

    answer = service.send(load(shape))

    assert answer["statusCode"] == 408
    assert '"request_not_started_in_time"' in answer["body"]
    assert headers_of(answer)["stripe-should-retry"] == "false"


def test_a_final_answer_of_408_is_none() -> None:
    """A handler that answers 408 itself has not ended the operation."""
    service = Accepting(effects="repeatable")
    service.send(POST)
    service.then = answers(408)

    assert service.work() == "JobUnfinished"
    assert service.record.status is Status.FAILED_RETRYABLE
