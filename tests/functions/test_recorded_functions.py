"""Idempotent functions of recorded effects: what their callers get, and what resumes."""

from __future__ import annotations

import asyncio
import contextlib
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    ConditionFailed,
    EffectMisused,
    Final,
    InProgress,
    NotExecuted,
    OutcomeUnknown,
    ResultUnavailable,
    RunStopped,
    StoreUnavailable,
    current_operation,
    idempotent_function,
    single_tenant,
)
from oncekey.record.record import Status
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.events import load
from tests.support.protected import Protected, problem_of, while_running
from tests.support.recorded_functions import (
    CALL,
    LEASE_MS,
    Function,
    dies,
    fails,
    is_in_doubt,
    raising,
)
from tests.support.result_kinds import Point, same
from tests.support.steps import CREATED, Steps, caught

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation


@pytest.mark.requirement("E1")
def test_a_function_resumes_and_returns_its_result() -> None:
    """What raised after a finished step is raised to the caller, and the next call resumes; the
    result is committed with what was collected, once, and every further call gets it.

    Red when the steps of functions are not recorded, or their writes are made without a result.
    """
    function = Function()

    def body(op: Operation, *, is_failing: bool) -> Any:
        charge = function.step("charge", Point(1, Decimal("2.0")))
        op.transaction.put("orders", {"id": op.operation_id})
        op.outbox.publish("order.charged", {"at": 1})
        if is_failing:
            raise ValueError("the function's own")
        return charge, op.attempt

    with pytest.raises(ValueError, match="the function's own"):
        function.calls(lambda op: body(op, is_failing=True))
    assert (function.only().status, function.only().expires_at_s) == (Status.FAILED_RETRYABLE, None)
    first = function.calls(lambda op: body(op, is_failing=False))
    again = function.calls(lambda op: body(op, is_failing=True))

    assert same(first, (Point(1, Decimal("2.0")), 2))
    assert same(again, first)
    assert function.ran == ["charge"]
    assert (len(function.store.writes), len(function.store.messages)) == (1, 1)


@pytest.mark.requirement("E6")
def test_a_step_in_doubt_makes_the_outcome_unknown() -> None:
    """A function that caught the time-out of its step and returned has not completed: its caller,
    and every further one, gets `OutcomeUnknown`. What it raises itself is its caller's.

    Red when a result is stored over a step in doubt.
    """
    function, other = Function(), Function()

    def catches(_op: Operation) -> str:
        with pytest.raises(TimeoutError):
            function.step("charge", raises=TimeoutError())
        return "charged, it thinks"

    for _ in range(2):
        with pytest.raises(OutcomeUnknown) as raised:
            function.calls(catches)
        assert raised.value.retryable
    error = TimeoutError()
    with pytest.raises(TimeoutError) as passed:
        other.calls(lambda _op: other.step("charge", raises=error))

    assert passed.value is error
    assert (function.ran, len(function.runs)) == (["charge"], 1)
    assert function.only().status is other.only().status is Status.UNKNOWN


def test_a_changed_function_is_stopped_and_escalated() -> None:
    """A step that was renamed: `OutcomeUnknown`, and never `RunStopped`."""
    function = Function()
    with pytest.raises(ValueError, match="later"):
        function.calls(lambda _op: [function.step("charge"), raising(ValueError("later"))])

    with pytest.raises(OutcomeUnknown):
        function.calls(lambda _op: function.step("pay"))

    assert function.ran == ["charge"]
    assert function.only().escalated_at_ms is not None


@pytest.mark.parametrize("proof", [NotExecuted("refused"), ConnectionRefusedError("refused")])
def test_a_proof_is_raised_and_the_next_call_runs(proof: Exception) -> None:
    """What proves that a step did nothing is the caller's, and frees the key."""
    function = Function(not_executed=ConnectionRefusedError)

    with pytest.raises(type(proof)) as raised:
        function.calls(lambda _op: function.step("charge", raises=proof))

    assert raised.value is proof
    assert function.calls(lambda _op: function.step("charge", "c-2")) == "c-2"


@pytest.mark.parametrize(
    ("end", "expected"),
    [(dies, InProgress), (fails, NotExecuted), (is_in_doubt, OutcomeUnknown)],
)
def test_a_stale_call_is_told_what_became_of_the_record(
    end: Callable[[Function], Any], expected: type[Exception]
) -> None:
    """A call that was taken over is stopped at its next step, and ends as one that comes now; no
    `RunStopped` reaches its caller, nor does a proof: `NotExecuted` is spent.
    """
    function = Function()
    other = function.successor()

    def body(_op: Operation) -> Any:
        with contextlib.suppress(Exception, RunStopped):
            other.calls(lambda _op: end(other))
        function.store.is_dead = False
        return function.step("late")

    with pytest.raises(expected) as raised:
        function.calls(body)

    assert function.ran == []
    assert getattr(raised.value, "is_spent", True)


def test_a_stale_call_returns_what_its_successor_has_returned() -> None:
    """Its own result is not the operation's."""
    function = Function()
    other = function.successor()

    def body(op: Operation) -> str:
        other.calls(lambda _op: "of the successor")
        op.transaction.put("orders", {"id": "of the stale one"})
        return "of the stale one"

    assert function.calls(body) == "of the successor"
    assert function.store.writes == []


@pytest.mark.parametrize("call", ["StartStep", "Complete"])
def test_a_call_that_is_not_confirmed_may_be_made_again(call: str) -> None:
    """A mark or a completion that the store does not confirm: `StoreUnavailable`, and the same call
    later gets the result; the step runs once.
    """
    function = Function()
    function.store.refuse(call, 1000)

    with pytest.raises(StoreUnavailable) as raised:
        function.calls(lambda _op: function.step("charge", "c-1"))
    function.store.recovers()
    function.clock.advance(LEASE_MS + 1)

    assert raised.value.retryable
    assert function.calls(lambda _op: function.step("charge", "c-2")) in ("c-1", "c-2")
    assert function.ran == ["charge"]


def test_an_answer_raised_in_a_function_is_an_exception_like_any_other() -> None:
    """`Final` is a handler's word: outside a step it completes nothing; inside one it is the step's
    result, raised again by an attempt that resumes.
    """
    function = Function()

    for number in range(2):
        with pytest.raises(Final) as raised:
            function.calls(lambda _op: function.step("charge", raises=Final(402, "declined")))
        assert (raised.value.status, raised.value.body) == (402, "declined")
        assert function.only().attempt == number + 1
    assert function.ran == ["charge"]
    assert function.only().status is Status.FAILED_RETRYABLE


def test_a_result_that_cannot_be_stored_does_not_undo_the_work() -> None:
    """Its author gets a TypeError; what was collected is applied, and nothing runs again."""
    function = Function()

    def body(op: Operation) -> object:
        op.transaction.put("orders", {"id": "1"})
        return object()

    with pytest.raises(TypeError, match="result"):
        function.calls(body)
    with pytest.raises(ResultUnavailable):
        function.calls(body)

    assert (len(function.runs), len(function.store.writes)) == (1, 1)


def test_a_condition_that_fails_at_the_end_is_the_callers() -> None:
    """Nothing was applied, and the next call resumes after the finished steps."""
    function = Function()
    function.store._holds = lambda _write: len(function.runs) > 1

    def body(op: Operation) -> Any:
        op.transaction.put("orders", {"id": "1"}, condition="attribute_not_exists(id)")
        return function.step("charge", "c-1")

    with pytest.raises(ConditionFailed):
        function.calls(body)
    assert function.store.writes == []
    assert function.calls(body) == "c-1"

    assert function.ran == ["charge"]
    assert len(function.store.writes) == 1


def test_a_coroutine_function_resumes() -> None:
    """An `async def` function does its steps with `step_async`."""
    runs: list[str] = []

    @idempotent_function(
        operation="charge",
        key="id",
        tenant=single_tenant(),
        effects="recorded",
        store=MemoryStore(),
        clock=ManualClock(),
    )
    async def charge(record: dict[str, Any]) -> tuple[str, int]:
        async def call() -> str:
            runs.append("charge")
            return "c-1"

        charged = await current_operation().step_async("charge", call)
        if current_operation().attempt == 1:
            raise ValueError(record["id"])
        return charged, current_operation().attempt

    async def scenario() -> tuple[str, int]:
        with pytest.raises(ValueError, match="order-1"):
            await charge(CALL)
        return await charge(CALL)

    assert asyncio.run(scenario()) == ("c-1", 2)
    assert runs == ["charge"]


@pytest.mark.requirement("E2")
def test_a_function_called_in_a_step_has_steps_of_its_own() -> None:
    """Its operation is another one, with a record and an order of steps of its own. The step around
    it is one effect: steps of the outer operation are refused in there.

    Red when the inner function's steps are taken for the outer operation's.
    """
    inner, service = Function(), Steps()
    refused: list[Exception] = []

    def inner_body(outer: Operation) -> Any:
        try:
            outer.step("sneaked in", list)
        except EffectMisused as error:
            refused.append(error)
        return inner.step("charge", "c-1")

    def outer_step(_service: Steps, op: Operation) -> Any:
        result = op.step("charge", lambda: inner.calls(lambda _inner: inner_body(op)))
        assert current_operation() is op
        return result

    assert service.sends(outer_step)["statusCode"] == 201

    assert service.given == ["c-1"]
    assert (inner.ran, len(refused)) == (["charge"], 1)
    assert [each.name for each in service.record.steps.finished] == ["charge"]
    assert [each.name for each in inner.only().steps.finished] == ["charge"]


def test_an_inner_function_in_doubt_leaves_the_step_around_it_in_doubt() -> None:
    """Whatever the outer handler makes of `OutcomeUnknown`."""
    inner, service = Function(), Steps()

    def outer_step(_service: Steps, op: Operation) -> Any:
        return op.step("charge", lambda: inner.calls(lambda _op: is_in_doubt(inner)))

    answer = service.sends(caught(outer_step), ends=CREATED)

    assert problem_of(answer)[:2] == (409, "outcome-unknown")
    assert inner.only().status is service.record.status is Status.UNKNOWN


def test_switched_off_its_steps_run_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With ONCEKEY_DISABLED the function runs with each call, and its writes are dropped."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    function = Function()

    def body(op: Operation) -> Any:
        op.transaction.put("orders", {"id": op.operation_id})
        op.commit("ordered")
        op.transaction.put("orders", {"id": f"{op.operation_id}, charged"})
        return function.step("charge", "c-1")

    assert [function.calls(body), function.calls(body)] == ["c-1", "c-1"]
    assert function.ran == ["charge", "charge"]
    assert (function.store.writes, function.store.records) == ([], {})


def test_switched_off_in_lambda_only_a_result_applies_its_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another operation's refusal, or a coroutine that nobody awaits, is no end of the function.

    Red when a deployed function without protection has written what its caller is to try again.
    """
    inner, function = Protected(), Function()
    event = load("apigw_http_v2_post")
    refusal = while_running(inner, event, lambda: inner.send(event))

    async def work() -> None:
        raise AssertionError("nobody awaits this")

    def body(value: Callable[[], Any]) -> Callable[[Operation], Any]:
        def collecting(op: Operation) -> Any:
            op.transaction.put("orders", {"id": op.operation_id})
            return value()

        return collecting

    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")

    assert function.calls(body(lambda: refusal)) == refusal
    with pytest.raises(TypeError, match="awaitable, which nobody awaits"):
        function.calls(body(work))
    assert function.store.writes == []
    assert function.calls(body(lambda: "ordered")) == "ordered"
    assert len(function.store.writes) == 1


def test_a_failed_condition_that_proves_that_nothing_was_done_is_raised_as_it_is() -> None:
    """Its caller gets `ConditionFailed` with a rule of `not_executed` as without one.

    Red when the caller is told that no time was left to begin.
    """
    function = Function(not_executed=ConditionFailed)
    function.store._holds = lambda _write: False

    def body(op: Operation) -> str:
        op.transaction.put("orders", {"id": op.operation_id})
        return "ordered"

    with pytest.raises(ConditionFailed):
        function.calls(body)
    assert function.only().status is Status.FAILED_RETRYABLE
