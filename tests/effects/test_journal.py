"""The journal of one attempt, where a step is cut off or its record is gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Final, NotExecuted
from oncekey.effects.journal import Journal
from oncekey.effects.raised import passed_on
from oncekey.effects.stop import Stop, StopReason
from oncekey.errors import StoreError
from oncekey.flow.commands import Write
from oncekey.record.record import Effects, Status
from oncekey.testing.memory import ManualClock
from tests.support.protected import problem_of
from tests.support.records import record
from tests.support.steps import FaultyStore, Steps, caught, step

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from oncekey import Operation


def journal() -> Journal:
    """The journal of an attempt that has done nothing yet."""
    clock = ManualClock()
    running = record(effects=Effects.RECORDED, lease_until_ms=clock.now_ms() + 9_000)
    return Journal(
        record=running,
        clock=clock,
        until_ms=clock.now_ms() + 9_000,
        call_timeout_ms=1_000,
        has_bucket=False,
        is_not_executed=lambda _error: False,
    )


def ended(flow: Coroutine[Any, Any, Any]) -> Any:
    """What a flow returns that asks for nothing."""
    with pytest.raises(StopIteration) as stopped:
        flow.send(None)
    return stopped.value.value


def test_an_attempt_that_was_cancelled_while_it_marked_a_step_says_which() -> None:
    """The mark may be on record, whatever became of the step before it."""
    attempt = journal()
    attempt.use.open("charge", "op.step")
    assert ended(attempt.begin("charge", is_idempotent=True)) is None
    ended(attempt.fail("charge", ValueError("no card")))
    attempt.use.leave(None)

    attempt.use.open("ship", "op.step")
    marking = attempt.begin("ship", is_idempotent=False)
    assert isinstance(marking.send(None), Write)
    with pytest.raises(asyncio.CancelledError):
        marking.throw(asyncio.CancelledError())
    ended(attempt.take_back("ship"))
    attempt.use.leave(None)
    attempt.close()

    assert attempt.may_have_acted
    assert attempt.stopped == Stop(StopReason.INTERRUPTED, why="ship")


def test_a_stop_says_what_the_store_said() -> None:
    """The log's line names the last failure, if nothing else is known."""
    failed = StoreError("no route to the store", transient=True)

    assert str(Stop(StopReason.STORE, error=failed)) == "not-confirmed: no route to the store"
    assert str(Stop(StopReason.STORE, why="step 'charge'")) == "not-confirmed: step 'charge'"
    assert str(Stop(StopReason.NO_TIME)) == "no-time-left"


def test_an_idempotent_step_that_proves_to_have_done_nothing_leaves_its_key_free() -> None:
    """It has no mark that could be cleared, and the next attempt runs it again."""
    service = Steps()

    refused = service.sends(step("charge", raises=NotExecuted("no card"), is_idempotent=True))
    done = service.sends(step("charge", is_idempotent=True))

    assert problem_of(refused)[1:] == ("not-executed", True)
    assert done["statusCode"] == 201
    assert service.ran == ["charge", "charge"]


def test_a_step_whose_record_is_gone_does_not_run() -> None:
    """A mark that no record holds protects nobody, and nothing of this attempt has happened."""
    service = Steps(store=FaultyStore())

    def forgets(_service: Steps, _op: Operation) -> None:
        service.store.records.clear()

    answer = service.sends(forgets, step("charge"))

    assert problem_of(answer)[1:] == ("not-executed", True)
    assert service.ran == []


def test_a_group_of_one_answer_leaves_its_step_as_that_answer() -> None:
    """A handler catches `Final`, in the first attempt as in a resumed one."""
    service = Steps()
    both = ExceptionGroup("both", [Final(402, {"no": "card"}), Final(402, {"no": "card"})])

    service.sends(caught(step("charge", raises=both)))

    (given,) = service.given
    assert isinstance(given, Final)
    assert given.__cause__ is both
    assert service.record.status is Status.COMPLETED


def test_an_exception_and_a_group_of_exceptions_leave_a_handler_as_they_are() -> None:
    """Lambda's runtime takes both; only a group with an exit in it would end the sandbox."""
    plain = ValueError("no card")
    group = ExceptionGroup("both", [plain, ExceptionGroup("inner", [TypeError()])])
    exits = BaseExceptionGroup("one exits", [plain, SystemExit(1)])

    assert passed_on(plain) is plain
    assert passed_on(group) is group
    assert isinstance(passed_on(exits), SystemExit)
