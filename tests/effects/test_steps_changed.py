"""Steps whose names or order changed between releases: the run stops, and a person must look."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import pytest

from oncekey import Final, NotExecuted, RunStopped
from oncekey.record.record import Status
from tests.support.dynamodb import dynamodb_table
from tests.support.protected import problem_of
from tests.support.steps import (
    FAILED,
    POST,
    Action,
    Steps,
    TableSteps,
    caught,
    commit,
    step,
)


@dataclass(frozen=True)
class Change:
    """What the first release did, what the next one does, and what the record says of it."""

    before: list[Action]
    after: list[Action]
    why: str
    ran: tuple[str, ...] = ()


CHANGES = {
    "a step is renamed": Change(
        [step("charge")],
        [step("pay")],
        "the run came to 'pay' at place 0, where 'charge' is on record",
    ),
    "a step is renamed, after another": Change(
        [step("hold"), step("charge")],
        [step("hold"), step("pay")],
        "the run came to 'pay' at place 1, where 'charge' is on record",
    ),
    "two steps change places": Change(
        [step("hold"), step("charge")],
        [step("charge"), step("hold")],
        "the run came to 'charge' at place 0, and it is on record at place 1",
    ),
    "a step is put before": Change(
        [step("charge")],
        [step("hold"), step("charge")],
        "the run came to 'hold' at place 0, where 'charge' is on record",
    ),
    "an idempotent step is put before": Change(
        [step("charge")],
        [step("hold", is_idempotent=True), step("charge")],
        "the run came to 'hold' at place 0, where 'charge' is on record",
    ),
    "a step is removed": Change(
        [step("hold"), step("charge")],
        [step("charge")],
        "the run came to 'charge' at place 0, and it is on record at place 1",
    ),
    "the only step is removed": Change(
        [step("charge")],
        [],
        "the run ended without coming to 'charge', which is on record",
    ),
    "the last steps are removed": Change(
        [step("hold"), step("charge"), commit("ordered")],
        [step("hold")],
        "the run ended without coming to 'charge', 'ordered', which is on record",
    ),
    "a step becomes a commit": Change(
        [step("charge")],
        [commit("charge")],
        "'charge' is on record as a step",
    ),
    "a commit becomes a step": Change(
        [commit("ordered", writes=0)],
        [step("ordered")],
        "'ordered' is on record as a commit",
    ),
    "a commit is put before a step": Change(
        [step("charge")],
        [commit("ordered"), step("charge")],
        "the run came to 'ordered' at place 0, where 'charge' is on record",
    ),
    "a step is put where a commit was": Change(
        [commit("ordered", writes=0), step("charge")],
        [step("charge"), commit("ordered")],
        "the run came to 'charge' at place 0, and it is on record at place 1",
    ),
    "a step that was passed over is met again": Change(
        [caught(step("hold", raises=NotExecuted())), step("charge")],
        [step("hold"), step("charge")],
        "the run came to 'hold' at place 0, which an earlier attempt passed over",
    ),
    "a step is renamed, and moved to a place that was passed over": Change(
        [caught(step("hold", raises=TimeoutError(), is_idempotent=True)), step("charge")],
        [step("charge2")],
        "the run came to 'charge2' at place 0, which an earlier attempt passed over",
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.requirement("E1")
def test_a_changed_run_stops_and_is_escalated(change: Change) -> None:
    """An attempt that resumes and does not meet its finished steps by their names at their places
    stops there: nothing that is new runs, nothing is committed, and the record is unknown until a
    person has looked at it. It says what did not fit.

    Red when a result on record is given to another step, or a step on record is passed over.
    """
    service = Steps()
    service.sends(*change.before, ends=FAILED)
    ran, writes = list(service.ran), list(service.store.writes)

    answer = service.sends(*change.after)

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert (service.ran, service.store.writes) == ([*ran, *change.ran], writes)
    record = service.record
    assert record.status is Status.UNKNOWN
    assert record.escalated_at_ms == service.clock.now_ms()
    assert record.last_error is not None
    assert record.last_error.startswith(f"steps-changed: {change.why}")
    assert (record.expires_at_s, record.response) == (None, None)
    assert problem_of(service.send(POST))[1] == "outcome-unknown"
    assert len(service.runs) == 2


@pytest.mark.parametrize(
    "ends",
    [
        {"statusCode": 402, "body": "declined"},
        {"statusCode": 500, "body": "down"},
        Final(201, "made"),
        NotExecuted(),
        ValueError("other"),
    ],
    ids=["402", "500", "Final", "NotExecuted", "ValueError"],
)
def test_a_handler_that_catches_the_stop_does_not_complete(
    ends: dict[str, Any] | BaseException,
) -> None:
    """Whatever it does with `RunStopped`, the attempt is stopped; further steps and commits are
    too.
    """
    service = Steps()
    service.sends(step("charge"), ends=FAILED)

    answer = service.sends(
        caught(step("pay"), BaseException),
        caught(step("charge"), BaseException),
        caught(commit("ordered"), BaseException),
        ends=ends,
    )

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert [type(given) for given in service.given[1:]] == [RunStopped] * 3
    assert service.ran == ["charge"]
    assert service.record.status is Status.UNKNOWN
    assert service.record.escalated_at_ms is not None


def test_what_is_added_at_the_end_is_run() -> None:
    """A release may do more than the one before it."""
    service = Steps()
    service.sends(step("hold"), step("charge"), ends=FAILED)

    answer = service.sends(step("hold"), step("charge"), commit("ordered"), step("ship"))

    assert answer["statusCode"] == 201
    assert service.ran == ["hold", "charge", "ship"]


def test_a_step_that_has_not_finished_may_be_another_one() -> None:
    """What is not on record binds nobody: an interrupted idempotent step may be renamed."""
    service = Steps()
    with pytest.raises(TimeoutError):
        service.sends(step("hold"), step("c", raises=TimeoutError(), is_idempotent=True))

    answer = service.sends(step("hold"), step("charge"))

    assert answer["statusCode"] == 201
    assert service.ran == ["hold", "c", "charge"]


@pytest.mark.parametrize("ends", [FAILED, NotExecuted(), ValueError("again")], ids=repr)
def test_an_attempt_that_fails_before_its_steps_may_leave_them_out(
    ends: dict[str, Any] | BaseException,
) -> None:
    """An attempt that ended before it came to the finished steps gives no answer that could lack
    them: it is simply tried again, and the steps stay on record.
    """
    service = Steps()
    service.sends(step("charge"), ends=FAILED)
    try:
        service.sends(ends=ends)
    except ValueError:
        assert isinstance(ends, ValueError)

    record = service.record
    assert (record.status, record.expires_at_s) == (Status.FAILED_RETRYABLE, None)
    assert service.sends(step("charge"))["statusCode"] == 201
    assert service.ran == ["charge"]


def test_a_step_keeps_its_place_when_it_is_tried_again() -> None:
    """A first try that proved to have done nothing and a second one are one place in the order."""
    service = Steps()
    tried = [caught(step("hold", raises=NotExecuted())), step("hold"), step("charge")]
    service.sends(*tried, ends=FAILED)

    answer = service.sends(step("hold"), step("charge"), step("ship"))

    assert answer["statusCode"] == 201
    assert service.ran == ["hold", "hold", "charge", "ship"]


def test_dynamodb_keeps_names_and_places_of_any_kind() -> None:
    """Names that mean something in DynamoDB's expressions, and more steps than sort alike as text
    and as numbers.
    """
    names = ["a.b", "#step", ":one", "status", "a-b c", "ünïcödé", *map(str, range(12))]
    actions = [step(name, name, is_idempotent=True) for name in names]
    with dynamodb_table() as client:
        service = TableSteps(client)
        service.sends(*actions, ends=FAILED)
        service.given.clear()

        answer = service.sends(*actions, step("last"))

        assert [each.name for each in service.record.steps.finished] == [*names, "last"]
    assert answer["statusCode"] == 201
    assert service.ran == [*names, "last"]
    assert service.given[:-1] == names


def test_the_log_says_what_did_not_fit(caplog: pytest.LogCaptureFixture) -> None:
    """One line of level ERROR with the operation and what was met where."""
    service = Steps()
    service.sends(step("charge", "what-it-gave"), ends=FAILED)

    with caplog.at_level(logging.ERROR, logger="oncekey"):
        service.sends(step("pay"))

    (line,) = [
        found.getMessage()
        for found in caplog.records
        if getattr(found, "oncekey_event", "") == "run-stopped"
    ]
    assert "POST /payments" in line
    assert service.record.operation_id in line
    assert "the run came to 'pay' at place 0, where 'charge' is on record" in line
    assert "what-it-gave" not in line
