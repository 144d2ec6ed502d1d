"""How a worker's run ends, for each kind of effects: the record, the queue and the client."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Final, NotExecuted
from oncekey.errors import CallNotAnswered, JobUnfinished, OutcomeUnknown
from oncekey.record.record import Status
from tests.support.async_world import (
    AGAIN,
    POST,
    Accepting,
    accepted,
)
from tests.support.protected import answers, fails, is_replay, problem_of

if TYPE_CHECKING:
    from collections.abc import Callable

EFFECTS = ["unrecorded", "repeatable", "recorded"]
FAILURES: dict[str, tuple[Callable[..., Any], str]] = {
    "NotExecuted": (fails(NotExecuted()), "NotExecuted"),
    "an exception": (fails(ValueError("it failed")), "ValueError"),
    "an exit": (fails(SystemExit(1)), "SystemExit"),
    "a 500": (answers(500), "JobUnfinished"),
    "a 503": (answers(503), "JobUnfinished"),
    "a 429": (answers(429), "JobUnfinished"),
    "a 408": (answers(408), "JobUnfinished"),
    "no answer": (lambda _event, _op: {"statusCode": 99}, "TypeError"),
}


# On moto one failure of each kind is enough: what follows from the others is decided before.
EACH = pytest.mark.parametrize(
    ("make", "effects", "failure"),
    [
        *itertools.product(["memory"], EFFECTS, FAILURES),
        *itertools.product(["moto"], EFFECTS, ["NotExecuted", "a 500"]),
    ],
    indirect=["make"],
)


def failed(make: Callable[..., Accepting], effects: str, failure: str) -> tuple[Accepting, str]:
    """A service whose first run has ended so, and what `perform` raised."""
    service = make(effects=effects)
    service.send(POST)
    service.then = FAILURES[failure][0]
    raised = service.work()
    service.then = None
    return service, raised


def is_safe_to_repeat(effects: str, failure: str) -> bool:
    """Whether a run that ended so may be followed by another."""
    return effects != "unrecorded" or failure == "NotExecuted"


@EACH
def test_the_record_says_whether_another_run_is_safe(
    make: Callable[..., Accepting], effects: str, failure: str
) -> None:
    """`perform` raises whenever no final answer is on record, so that the queue delivers again, and
    the record is FAILED_RETRYABLE or UNKNOWN by what the author declared.
    """
    service, raised = failed(make, effects, failure)

    assert raised == FAILURES[failure][1]
    safe = is_safe_to_repeat(effects, failure)
    assert service.record.status is (Status.FAILED_RETRYABLE if safe else Status.UNKNOWN)
    assert (service.record.expires_at_s is not None) == safe
    assert (len(service.runs), len(service.messages)) == (1, 1)


@EACH
def test_a_redelivery_resumes_what_is_safe_and_nothing_else(
    make: Callable[..., Accepting], effects: str, failure: str
) -> None:
    """The same message runs a second attempt of the same operation, or raises OutcomeUnknown."""
    service, _ = failed(make, effects, failure)

    again = service.work()

    if is_safe_to_repeat(effects, failure):
        assert again == "done"
        assert service.record.status is Status.COMPLETED
        assert [op.attempt for op in service.runs] == [1, 2]
        assert len({op.operation_id for op in service.runs}) == 1
        assert (service.send(POST)["body"], len(service.messages)) == ('{"run": 2}', 1)
    else:
        assert again == "OutcomeUnknown"
        assert (service.record.status, len(service.runs)) == (Status.UNKNOWN, 1)


@EACH
def test_a_clients_retry_accepts_again_what_is_safe_and_nothing_else(
    make: Callable[..., Accepting], effects: str, failure: str
) -> None:
    """It is 202 with the same id and a second message, which speaks of the second attempt, or 409
    `outcome-unknown` and no message.
    """
    service, _ = failed(make, effects, failure)
    (first,) = service.messages
    service.clock.advance(1)

    answer = service.send(POST)

    if not is_safe_to_repeat(effects, failure):
        assert problem_of(answer) == (409, "outcome-unknown", True)
        assert (service.messages, len(service.runs)) == ([first], 1)
        return
    assert accepted(answer) == ("pending", 5, service.record.operation_id)
    assert service.record.expires_at_s is None
    kept, second = service.messages
    assert (kept, kept.id != second.id) == (first, True)
    assert second.payload["owner"] == service.record.owner != first.payload["owner"]
    assert [service.work(first), service.work(second)] == ["done", "done"]
    assert [op.attempt for op in service.runs] == [1, 2]
    assert is_replay(service.send(POST))


def test_a_raised_final_is_the_stored_answer(make: Callable[..., Accepting]) -> None:
    """`Final` ends the operation in the worker as it does in a request: nothing is delivered again,
    and its answer is replayed, a 500 too.
    """
    service = make()
    service.send(POST)
    service.then = fails(Final(500, {"why": "so"}))

    assert service.work() == "done"

    replay = service.send(POST)
    assert (replay["statusCode"], json.loads(replay["body"])) == (500, {"why": "so"})
    assert is_replay(replay)


def test_what_the_authors_rule_accepts_is_no_execution() -> None:
    """An error that `not_executed=` accepts releases it, and `perform` raises NotExecuted."""
    service = Accepting(not_executed=ConnectionRefusedError)
    service.send(POST)
    service.then = fails(ConnectionRefusedError("refused"))

    with pytest.raises(NotExecuted, match="this attempt did nothing"):
        service.perform()

    assert service.record.status is Status.FAILED_RETRYABLE


def test_what_perform_raises_says_when_to_come_back() -> None:
    """An unfinished run and an unknown outcome are both worth another delivery, and name the
    operation without its payload.
    """
    service = Accepting()
    service.send(POST)
    service.then = answers(503, "the secret of the customer")

    with pytest.raises(JobUnfinished) as unfinished:
        service.perform()
    with pytest.raises(OutcomeUnknown) as unknown:
        service.perform()

    for error in (unfinished.value, unknown.value):
        assert isinstance(error, CallNotAnswered)
        assert (error.retryable, error.operation) == (True, "POST /payments")
        assert error.operation_id == service.record.operation_id
        assert "secret" not in str(error)
    assert (unfinished.value.retry_after_s, unknown.value.retry_after_s) == (1, 60)


@pytest.mark.parametrize("effects", ["repeatable", "recorded"])
def test_a_dead_workers_message_takes_over_after_its_lease(
    make: Callable[..., Accepting], effects: str
) -> None:
    """While the lease is open a redelivery raises InProgress; afterwards it runs again."""
    service = make(effects=effects)
    service.send(POST)
    service.dies(meanwhile=service.work)
    service.lets_the_lease_run_out()

    assert service.work() == "done"
    assert service.heard == ["InProgress", "done"]
    assert [op.attempt for op in service.runs] == [1, 2]
    assert service.record.status is Status.COMPLETED


def test_a_dead_workers_unrecorded_run_is_unknown(make: Callable[..., Accepting]) -> None:
    """A redelivery after the lease marks it so and runs nothing; a client's retry says so too."""
    service = make()
    service.send(POST)
    service.dies()
    service.lets_the_lease_run_out()

    assert service.work() == "OutcomeUnknown"
    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)
    assert (service.record.status, len(service.runs)) == (Status.UNKNOWN, 1)


@pytest.mark.parametrize("effects", ["repeatable", "recorded"])
def test_a_clients_retry_ends_a_dead_attempt_and_accepts_it_again(
    make: Callable[..., Accepting], effects: str
) -> None:
    """It is 202 with a second message; the first one is void, and the second runs."""
    service = make(effects=effects)
    service.send(POST)
    service.dies()
    service.lets_the_lease_run_out()

    assert accepted(service.send(POST))[0] == "pending"

    first, second = service.messages
    assert [service.work(first), service.work(second)] == ["done", "done"]
    assert [op.attempt for op in service.runs] == [1, 2]
    assert is_replay(service.send(POST))


def test_half_done_work_never_expires_though_its_client_dies() -> None:
    """Between the end of a dead attempt and the acceptance anew the record has no expiry, and a
    time to look at it; a redelivery resumes after its finished step.
    """
    service = Accepting(effects="recorded")
    ran: list[str] = []

    def charge() -> None:
        service.runs[-1].step("charge", lambda: ran.append("charge"))

    def resumed(_event: object, _op: object) -> Any:
        charge()
        return {"statusCode": 201, "body": "made"}

    service.send(POST)
    service.dies(meanwhile=charge)
    service.lets_the_lease_run_out()
    service.store.refuse(AGAIN, 100)
    assert problem_of(service.send(POST))[1] == "store-unavailable"

    assert (service.record.status, service.record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    assert service.record.due is not None
    service.then = resumed
    assert service.work() == "done"
    assert (ran, len(service.runs)) == (["charge"], 2)


def test_a_store_that_is_down_leaves_the_message_in_the_queue() -> None:
    """Before the run `perform` raises StoreUnavailable and nothing ran; when the end cannot be
    written it raises JobUnfinished, and the redelivery after the lease says what is known.
    """
    service = Accepting()
    service.send(POST)
    service.store.refuse("read", 10)
    assert service.work() == "StoreUnavailable"
    assert service.runs == []

    service.store.recovers()
    service.store.refuse("Complete", 1000)
    assert service.work() == "JobUnfinished"
    assert len(service.runs) == 1
    service.store.recovers()
    service.lets_the_lease_run_out()
    assert service.work() == "OutcomeUnknown"
    assert len(service.runs) == 1


def test_no_time_is_left_to_begin() -> None:
    """A worker whose time is over raises NotExecuted, asks nothing of the store, and leaves all as
    it was.
    """
    service = Accepting()
    service.send(POST)
    before, asked = service.record, list(service.store.asked)
    service._timeout_ms = 0

    assert service.work() == "NotExecuted"
    assert (service.record, service.store.asked, service.runs) == (before, asked, [])


def test_recorded_effects_are_committed_with_the_answer() -> None:
    """A recorded handler's writes and messages are in the transaction that completes its record,
    once, whichever delivery ran it.
    """
    service = Accepting(
        effects="recorded",
    )
    service.send(POST)

    def handler(_event: object, op: Any) -> Any:
        op.transaction.put("reports", {"id": op.operation_id})
        op.outbox.publish("report.made", {"attempt": op.attempt})
        return {"statusCode": 201, "body": "made"}

    service.then = answers(503)
    service.work()
    service.then = handler
    service.perform(service.messages[0])
    service.perform(service.messages[0])

    assert service.store.asked[-3:] == ["Resume", "commit Complete", "read"]
    assert [write.table for write in service.store.writes] == ["reports"]
    assert [message.topic for message in service.store.messages] == ["oncekey.job", "report.made"]
