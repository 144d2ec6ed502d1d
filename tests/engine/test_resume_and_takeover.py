"""How an attempt at a recorded operation is followed by the next, and what a late one may do."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted
from oncekey.record.record import Status
from tests.support.dynamodb import dynamodb_table
from tests.support.events import with_body
from tests.support.protected import Protected, is_replay, problem_of
from tests.support.steps import (
    CREATED,
    FAILED,
    LEASE_MS,
    POST,
    Action,
    Steps,
    TableSteps,
    caught,
    commit,
    dead,
    meanwhile,
    step,
    waits,
)

if TYPE_CHECKING:
    from oncekey import Operation

FAILURES: dict[str, dict[str, Any] | BaseException] = {
    "500": FAILED,
    "503": {"statusCode": 503, "body": "later"},
    "429": {"statusCode": 429, "body": "later"},
    "ValueError": ValueError("it failed"),
    "NotExecuted": NotExecuted("the next step was refused"),
    "SystemExit": SystemExit(1),
}


def fails(service: Steps, *actions: Action, ends: dict[str, Any] | BaseException) -> None:
    """A request whose handler does these, and then ends so, whatever comes of that."""
    with contextlib.suppress(ValueError, SystemExit):
        service.sends(*actions, ends=ends)


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("ends", FAILURES.values(), ids=FAILURES)
def test_work_that_is_half_done_is_resumed_at_once(ends: dict[str, Any] | BaseException) -> None:
    """An attempt that failed after a finished step is safe to run again, and the next request does:
    the second attempt of the same operation. Until then nothing lets the record be forgotten, and
    somebody is to look at it after the grace.

    Red when such a record expires, is unknown, or makes a retry wait for its lease.
    """
    service = Steps()

    fails(service, step("charge", "c-1"), ends=ends)

    record = service.record
    assert record.status is Status.FAILED_RETRYABLE
    assert (record.expires_at_s, record.lease_until_ms) == (None, None)
    assert record.due is not None
    assert record.due.at_ms == service.clock.now_ms() + 60_000
    assert not record.is_expired(service.clock.now_ms() + 10**12)
    service.clock.advance(30 * 24 * 3600 * 1000)
    assert service.sends(step("charge"), step("ship"))["statusCode"] == 201
    assert service.ran == ["charge", "ship"]
    assert service.given[-2] == "c-1"
    assert [(run.attempt, run.operation_id) for run in service.runs] == [
        (1, record.operation_id),
        (2, record.operation_id),
    ]
    assert service.record.due is None
    assert service.record.expires_at_s is not None


@pytest.mark.parametrize("ends", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize(
    "action",
    [
        caught(step("charge", raises=NotExecuted())),
        caught(step("charge", raises=OSError(), is_idempotent=True)),
    ],
    ids=["cleared", "idempotent"],
)
def test_work_without_a_finished_step_expires(
    action: Action, ends: dict[str, Any] | BaseException
) -> None:
    """There is no evidence to be kept: the record lives as long as any other, nobody need look at
    it, and after its expiry the key is a new operation.
    """
    service = Steps(retention=timedelta(hours=2))

    fails(service, action, ends=ends)

    record = service.record
    assert record.status is Status.FAILED_RETRYABLE
    assert record.expires_at_s == service.clock.now_ms() // 1000 + 2 * 3600
    assert record.due is None
    service.clock.advance(2 * 3600 * 1000)
    service.sends()
    assert service.runs[1].attempt == 1
    assert service.runs[1].operation_id != record.operation_id


def test_a_recovery_point_alone_is_half_done_work() -> None:
    """What was committed is evidence as well, and is not committed again."""
    service = Steps()

    fails(service, commit("ordered"), ends=FAILED)
    assert service.record.expires_at_s is None
    assert service.record.due is not None
    service.sends(commit("ordered"), commit("shipped"))

    assert [write.parameters["Item"]["id"]["S"] for write in service.store.writes] == [
        "ordered-0",
        "shipped-0",
    ]


def test_a_retry_with_another_body_does_not_resume() -> None:
    """A fingerprint that differs is refused before the state is looked at, and writes nothing."""
    service = Steps()
    fails(service, step("charge"), ends=FAILED)
    before = service.record

    assert problem_of(service.send(with_body(POST, "{}"))) == (422, "key-reused", False)
    assert service.record == before


HOLD = step("hold")
BEFORE: dict[str, tuple[list[Action], list[Action]]] = {
    "no step": ([], [HOLD]),
    "a step": ([HOLD], [HOLD]),
    "a commit": ([commit("hold")], [commit("hold")]),
    "an idempotent step": ([HOLD, step("charge", then=dead, is_idempotent=True)], [HOLD]),
    "a cleared step": ([HOLD, caught(step("charge", raises=NotExecuted()))], [HOLD]),
}


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("before", BEFORE)
def test_a_dead_attempt_with_no_step_in_doubt_is_taken_over(before: str) -> None:
    """After its lease, and not sooner, the next request takes over and resumes: no finished step
    and no commit is repeated.

    Red when the lease's end counts as a doubt, a takeover forgets what is on record, or does not
    wait for the lease.
    """
    actions, again = BEFORE[before]
    service = Steps()
    service.dies(*actions)

    service.clock.advance(LEASE_MS)
    assert problem_of(service.send(POST))[1] == "request-in-progress"
    service.clock.advance(1)
    answer = service.sends(*again, step("charge"))

    assert answer["statusCode"] == 201
    assert [run.attempt for run in service.runs] == [1, 2]
    assert len({run.operation_id for run in service.runs}) == 1
    assert service.ran.count("hold") + len(service.store.writes) == 1
    assert is_replay(service.send(POST))


@pytest.mark.requirement("E6")
def test_a_dead_attempt_with_a_step_in_doubt_is_not_taken_over() -> None:
    """Its process died in the step, which may have happened: after the lease the record is unknown,
    due after the grace, with its finished steps; nothing runs.

    Red when the record is taken over, or the step's mark is lost.
    """
    service = Steps()
    service.dies(step("hold"), step("charge", then=dead))
    died = service.record
    service.lets_the_lease_run_out()

    answers = [problem_of(service.sends(step("hold"), step("charge"))) for _ in range(3)]

    assert answers == [(409, "outcome-unknown", True)] * 3
    record = service.record
    assert (record.status, record.last_error) == (Status.UNKNOWN, "lease-expired")
    assert (record.steps, record.owner) == (died.steps, died.owner)
    assert record.steps.started is not None
    assert record.due is not None
    assert record.due.at_ms == (died.lease_until_ms or 0) + 60_000
    assert (service.ran, len(service.runs)) == (["hold", "charge"], 1)


SUCCESSORS: dict[str, tuple[list[Action], dict[str, Any] | BaseException]] = {
    "completed": ([], CREATED),
    "runs": ([dead], CREATED),
    "failed": ([], FAILED),
    "does not know": ([caught(step("charge", raises=OSError()))], CREATED),
}
LEFT = {
    "completed": (201, "made", "true"),
    "runs": (409, "request-in-progress"),
    "failed": (503, "attempt-unfinished"),
    "does not know": (409, "outcome-unknown"),
}
LATE: dict[str, list[Action]] = {
    "a step": [step("late")],
    "an idempotent step": [step("late", is_idempotent=True)],
    "a commit": [commit("late")],
    "a commit without writes": [commit("late", writes=0)],
    "its end": [lambda _service, op: op.transaction.put("rides", {"id": "late"})],
    "its end without writes": [],
}


@pytest.mark.requirement("E6")
@pytest.mark.parametrize("left", SUCCESSORS)
@pytest.mark.parametrize("late", LATE)
def test_a_stale_owner_begins_and_commits_nothing(late: str, left: str) -> None:
    """An attempt that was taken over, and does not know, is stopped at its next step, commit or
    end: its step is not marked and does not run (an idempotent one may, under the same downstream
    key, and is not recorded), nothing of it is committed, and its client is told what the record
    says by now.

    Red when a mark, a checkpoint or a transaction of a stale owner is applied.
    """
    service = Steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1)
    actions, ends = SUCCESSORS[left]
    taken_over: list[Any] = []

    def remember(_service: Steps, _op: Operation) -> None:
        service.store.is_dead = False
        taken_over.append((service.record, list(service.store.writes)))

    answer = service.sends(
        HOLD,
        caught(meanwhile(other, HOLD, *actions, ends=ends), BaseException),
        remember,
        *LATE[late],
        ends={"statusCode": 200, "body": "of the stale one"},
    )

    assert taken_over == [(service.record, service.store.writes)]
    assert service.ran == ["hold", *(["late"] if late == "an idempotent step" else [])]
    if left == "completed":
        assert (answer["statusCode"], answer["body"]) == (201, "made")
        assert is_replay(answer)
    else:
        assert problem_of(answer)[:2] == LEFT[left]


@pytest.mark.parametrize("is_half_done", [False, True])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_stale_owner_whose_operation_is_forgotten(is_half_done: bool, is_gone: bool) -> None:
    """If the record is another operation's by now, or gone, nothing of it is told: an attempt with
    finished steps does not know what came of them; one without has not happened.
    """
    service = Steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1)

    def forgotten(_service: Steps, _op: Operation) -> None:
        other.sends(*before)
        other.clock.advance(25 * 3600 * 1000)
        other.sends(ends={"statusCode": 201, "body": "another operation's"})
        if is_gone:
            service.store.records.clear()

    before = [HOLD] if is_half_done else []
    answer = service.sends(*before, forgotten, step("late"))

    code = (409, "outcome-unknown") if is_half_done else (503, "not-executed")
    assert problem_of(answer)[:2] == code
    assert "late" not in service.ran


@pytest.mark.parametrize("late", ["a step", "an idempotent step", "a commit"])
def test_without_time_left_nothing_begins(late: str) -> None:
    """Once its lease is over by its own clock, an attempt marks, runs and commits nothing more; it
    gives the key back, and the next request resumes.
    """
    service = Steps()

    answer = service.sends(HOLD, waits(LEASE_MS + 1), *LATE[late])

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert (service.ran, service.store.writes) == (["hold"], [])
    assert service.record.status is Status.FAILED_RETRYABLE
    assert service.sends(HOLD, *LATE[late])["statusCode"] == 201
    assert service.ran.count("hold") == 1


def test_without_time_left_and_taken_over_it_is_told_the_answer() -> None:
    """What gives the key back is refused by the successor's record, which has the answer."""
    service = Steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1)

    answer = service.sends(HOLD, waits(LEASE_MS + 1), meanwhile(other, HOLD), step("late"))

    assert (answer["statusCode"], is_replay(answer)) == (201, True)
    assert service.ran == ["hold"]


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_a_handler_of_other_effects_never_resumes_half_done_work(effects: str) -> None:
    """It would run the finished steps again, as it knows nothing of them: a release that takes the
    declaration back is answered `outcome-unknown`, and writes nothing.
    """
    service = Steps()
    service.sends(HOLD, ends=FAILED)
    before = service.record

    unaware = Protected(store=service.store, effects=effects)
    answer = unaware.send(POST)

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert unaware.runs == []
    assert service.record == before
    assert service.sends(HOLD)["statusCode"] == 201


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
def test_a_handler_of_recorded_effects_never_takes_over_from_others(effects: str) -> None:
    """What an attempt that died did outside any step is not on record, so its key is unknown."""
    service = Steps(effects=effects)
    service.dies()
    service.lets_the_lease_run_out()

    aware = service.another_sandbox()
    answer = aware.sends(HOLD)

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert (aware.ran, service.record.status) == ([], Status.UNKNOWN)


def test_a_record_of_other_effects_that_may_run_again_takes_steps() -> None:
    """A release that declares its effects recorded resumes keys that an earlier one has freed."""
    with dynamodb_table() as client:
        old = TableSteps(client, effects="unrecorded")
        assert problem_of(old.sends(ends=NotExecuted()))[1] == "not-executed"
        new = old.another_sandbox()

        answer = new.sends(HOLD, step("charge"))

        assert answer["statusCode"] == 201
        assert [each.name for each in old.record.steps.finished] == ["hold", "charge"]
    assert [run.attempt for run in new.runs] == [2]


def test_an_attempt_that_lost_its_record_denies_no_step_of_its_successor() -> None:
    """Its own step never began, but the operation has charged by then: the client is told that the
    attempt is unfinished, and not that nothing was done.

    Red when an attempt that ends looks at its own steps alone.
    """
    service = Steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1)

    answer = service.sends(meanwhile(other, step("charge"), ends=FAILED), step("charge"))

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert (service.ran, other.ran) == ([], ["charge"])
