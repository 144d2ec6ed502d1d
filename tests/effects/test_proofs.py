"""What proves that nothing happened: raised twice, in groups, by any type, and by whom."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    Final,
    NotExecuted,
    RunStopped,
    idempotent,
    idempotent_function,
    single_tenant,
)
from oncekey.record.record import Effects, Status
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support.function_calls import Calls
from tests.support.protected import Protected, fails, problem_of, records
from tests.support.steps import FAILED, POST, FaultyStore, Steps, caught, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation

REFUSED = NotExecuted("refused, as a constant")


class Suspended(BaseException):
    """What a runtime of durable functions leaves a handler by."""


def raises(error: BaseException) -> Callable[..., Any]:
    """What raises `error`."""

    def function(*_args: object) -> Any:
        raise error

    return function


@pytest.mark.fault("K6.4")
@pytest.mark.parametrize("effects", [effects.value for effects in Effects])
def test_a_constant_that_is_raised_again_is_a_proof_again(effects: str) -> None:
    """A handler and a function that raise one object at each of their calls free their keys each
    time, and nothing is written on the object.

    Red when what was raised once is remembered on the object.
    """
    service, calls = Protected(effects=effects), Calls(effects=effects)
    service.then = fails(REFUSED)
    calls.then = raises(REFUSED)
    before = dict(vars(REFUSED))

    for _ in range(3):
        assert problem_of(service.send(POST)) == (503, "not-executed", True)
        with pytest.raises(NotExecuted) as raised:
            calls.call({"id": "a"})
        assert raised.value is REFUSED
        assert calls.only().status is Status.FAILED_RETRYABLE
    assert vars(REFUSED) == before


@pytest.mark.fault("K6.4")
def test_a_constant_proves_at_each_of_several_steps() -> None:
    """Two steps of one run raise the same object, and so does the handler afterwards.

    Red when an object that has cleared one mark clears no other.
    """
    service = Steps()
    charge = caught(step("charge", raises=REFUSED))

    answer = service.sends(charge, charge, caught(step("ship", raises=REFUSED)), ends=REFUSED)

    assert problem_of(answer) == (503, "not-executed", True)
    assert service.record.steps.started is None


@pytest.mark.fault("K6.4")
def test_tasks_that_raise_one_constant_at_a_time_have_each_proven_it() -> None:
    """Calls under way together in one loop do not take each other's proof for a stranger's.

    Red when whatever leaves a function is a stranger's to every attempt under way.
    """
    store = MemoryStore()

    @idempotent_function(operation="work", key=str, tenant=single_tenant(), store=store)
    async def work(_number: int) -> None:
        await asyncio.sleep(0)
        raise REFUSED

    async def scenario() -> list[Any]:
        return await asyncio.gather(*map(work, range(5)), return_exceptions=True)

    assert asyncio.run(scenario()) == [REFUSED] * 5
    assert {record.status for record in store.records.values()} == {Status.FAILED_RETRYABLE}


def _here(function: Callable[[], Any]) -> Any:
    return function()


def _in_a_pool(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def _in_a_pool_with_its_context(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, function).result()


WAYS = {"here": _here, "in a pool": _in_a_pool, "in its context": _in_a_pool_with_its_context}


@pytest.mark.fault("K6.4")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["a constant", "its own", "a group"])
def test_the_proof_of_a_function_below_is_none_of_its_caller(kind: str, way: str) -> None:
    """A handler has charged, and then calls a function that proves it did nothing: in the same
    thread or another, at the first time or the second, the handler has proven nothing.

    Red when an attempt forgets what has come to it out of a function below.
    """
    error: Exception = NotExecuted("its own")
    if kind == "a constant":
        error = REFUSED
    elif kind == "a group":
        error = ExceptionGroup("both", [REFUSED, NotExecuted()])
    service, inner = Protected(), Calls()
    inner.then = raises(error)
    service.then = lambda _event, _op: WAYS[way](lambda: inner.call({"id": "a"}))

    with pytest.raises((NotExecuted, ExceptionGroup)):
        inner.call({"id": "a"})
    with pytest.raises((NotExecuted, ExceptionGroup)):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN
    assert inner.only().status is Status.FAILED_RETRYABLE


@pytest.mark.fault("K6.4")
def test_the_proof_of_a_function_below_does_not_clear_the_mark_of_its_step() -> None:
    """A step that is run in a thread of its author's calls a function that proves it did nothing:
    the step is in doubt.

    Red when the journal asks only what its own thread has heard.
    """
    service, inner = Steps(), Calls()
    inner.then = raises(REFUSED)

    def charging(_service: Steps, op: Operation) -> None:
        def run() -> None:
            with pytest.raises(NotExecuted):
                op.step("charge", lambda: inner.call({"id": "a"}))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join(timeout=30)

    answer = service.sends(charging)

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert service.record.step_in_doubt == "charge"


@pytest.mark.fault("K6.4")
def test_once_its_attempt_is_over_an_object_is_a_proof_again() -> None:
    """What came to one attempt out of a function below may be raised by the next one itself.

    Red when an object stays a stranger's for good.
    """
    service, inner = Protected(effects="repeatable"), Calls()
    inner.then = raises(REFUSED)
    service.then = lambda _event, _op: inner.call({"id": "a"})
    with pytest.raises(NotExecuted):
        service.send(POST)

    service.then = fails(REFUSED)

    assert problem_of(service.send(POST)) == (503, "not-executed", True)


def group(*errors: BaseException) -> BaseExceptionGroup[Any]:
    """As `asyncio.TaskGroup` raises them, in a group of its own."""
    return BaseExceptionGroup("outer", [BaseExceptionGroup("inner", list(errors))])


class Async:
    """A handler that is a coroutine, and raises what it is told, in a task of a group or so."""

    def __init__(self, error: BaseException, **options: Any) -> None:
        self.store, self.clock = FaultyStore(), ManualClock()
        self._error = error
        decorated = idempotent(
            operation="POST /payments",
            tenant=single_tenant(),
            store=self.store,
            clock=self.clock,
            **options,
        )
        self._handler: Any = decorated(self._handle)

    def send(self) -> Any:
        """One request."""
        return asyncio.run(self._handler(dict(POST), None))

    async def _handle(self, _event: Any, _context: Any) -> Any:
        async def fail() -> None:
            raise self._error

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())


@pytest.mark.fault("K6.5")
@pytest.mark.parametrize("effects", [effects.value for effects in Effects])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_answer_in_a_group_ends_the_operation(is_async: bool, effects: str) -> None:
    """`Final` raised in a task group is the answer, and is stored.

    Red when groups are not looked into.
    """
    final = Final(402, {"error": "declined"})
    if is_async:
        of_tasks = Async(final, effects=effects)
        answer, record = of_tasks.send(), next(iter(of_tasks.store.records.values()))
    else:
        service = Protected(effects=effects)
        service.then = fails(group(final, Final(402, {"error": "declined"})))
        answer, record = service.send(POST), records(service)[0]

    assert (answer["statusCode"], answer["body"]) == (402, '{"error": "declined"}')
    assert record.status is Status.COMPLETED


@pytest.mark.fault("K6.5")
@pytest.mark.parametrize("effects", [effects.value for effects in Effects])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_proof_in_a_group_frees_the_key(is_async: bool, effects: str) -> None:
    """`NotExecuted` raised in a task group proves it, if all of the group does.

    Red when groups are not looked into.
    """
    if is_async:
        answer: Any = Async(NotExecuted(), effects=effects).send()
    else:
        service = Protected(effects=effects, not_executed=ConnectionRefusedError)
        service.then = fails(group(NotExecuted(), ConnectionRefusedError()))
        answer = service.send(POST)

    assert problem_of(answer) == (503, "not-executed", True)


@pytest.mark.fault("K6.5")
def test_of_a_group_of_exits_the_one_that_ends_most_is_raised() -> None:
    """Lambda's runtime knows single exits alone: an exit of the process goes before that of a task.

    Red when the group is raised, or any of its members.
    """
    service = Protected()
    service.then = fails(group(ValueError(), asyncio.CancelledError(), SystemExit(3)))

    with pytest.raises(SystemExit):
        service.send(POST)


MIXED: dict[str, BaseExceptionGroup[Any]] = {
    "an answer and a failure": group(Final(402), OSError()),
    "two answers": group(Final(402), Final(201)),
    "an answer and a proof": group(Final(402), NotExecuted()),
    "a proof and a failure": group(NotExecuted(), OSError()),
    "a proof and an accepted failure, and another": group(
        NotExecuted(), ConnectionRefusedError(), TimeoutError()
    ),
}


@pytest.mark.fault("K6.5")
@pytest.mark.parametrize("rule", [ConnectionRefusedError, lambda e: "Refused" in repr(e)])
@pytest.mark.parametrize("mixed", MIXED)
def test_a_group_that_says_two_things_says_nothing(mixed: str, rule: Any) -> None:
    """Beside another failure neither an answer nor a proof counts: the outcome is unknown, and the
    group is raised to the caller, as an `Exception`.

    Red when the first member that is known decides for the whole group.
    """
    service = Protected(not_executed=rule)
    service.then = fails(MIXED[mixed])

    with pytest.raises(ExceptionGroup):
        service.send(POST)

    assert records(service)[0].status is Status.UNKNOWN


@pytest.mark.fault("K6.5")
@pytest.mark.parametrize("ends", ["alone", "beside an exception", "beside an exit"])
def test_a_stop_in_a_group_is_answered(ends: str) -> None:
    """`RunStopped` in a group stops the attempt as it does alone. What leaves the decorator is an
    answer, an exit that was there, or an `Exception`; never a group that no runtime answers for.

    Red when a group with a stop is raised to Lambda's runtime.
    """
    service = Steps()
    service.sends(step("charge"), ends=FAILED)
    beside: dict[str, list[BaseException]] = {
        "alone": [],
        "beside an exception": [ValueError("other")],
        "beside an exit": [ValueError("other"), SystemExit(3)],
    }

    def grouped(of: Steps, op: Operation) -> None:
        try:
            step("renamed")(of, op)
        except RunStopped as stop:
            raise group(stop, *beside[ends]) from None

    if ends == "beside an exit":
        with pytest.raises(SystemExit):
            service.sends(grouped)
    else:
        assert problem_of(service.sends(grouped)) == (409, "outcome-unknown", True)

    assert service.record.status is Status.UNKNOWN
    assert service.ran == ["charge"]


@pytest.mark.fault("K6.5")
def test_a_group_around_a_step_in_doubt_leaves_an_exception() -> None:
    """With a step in doubt, the other failures of a group with a stop are raised as an `Exception`.

    Red when the group that was caught is raised on with the stop in it.
    """
    service = Steps()

    def grouped(of: Steps, op: Operation) -> None:
        caught(step("charge", raises=TimeoutError()))(of, op)
        try:
            step("ship")(of, op)
        except RunStopped as stop:
            raise group(stop, ValueError("other")) from None

    with pytest.raises(ExceptionGroup) as raised:
        service.sends(grouped)

    assert raised.group_contains(ValueError)
    assert not raised.group_contains(RunStopped)
    assert service.record.step_in_doubt == "charge"


@pytest.mark.fault("K6.5")
@pytest.mark.parametrize("first", [Final(402, "declined"), NotExecuted()], ids=repr)
def test_a_group_raised_in_a_step_says_of_the_step_what_it_says(first: Exception) -> None:
    """A step that raises an answer in a group is finished with it; one that raises a proof did
    nothing.

    Red when a step does not look into groups.
    """
    service = Steps()

    answer = service.sends(step("charge", raises=group(first)))

    assert answer["statusCode"] == (402 if isinstance(first, Final) else 503)
    assert service.record.steps.started is None
    assert bool(service.record.steps.finished) is isinstance(first, Final)


@pytest.mark.fault("K11.7")
@pytest.mark.parametrize("rule", [Suspended, (OSError, Suspended), lambda e: True, BaseException])
@pytest.mark.parametrize("effects", [effects.value for effects in Effects])
def test_a_rule_may_name_what_is_no_exception(effects: str, rule: Any) -> None:
    """A type, or a predicate, that accepts a `BaseException` frees the key, and it is raised on as
    it came, to whoever waits for it; a handler, a function and a coroutine alike.

    Red when only an `Exception` is asked about, or what was accepted is answered.
    """
    error = Suspended("until tomorrow")
    service = Protected(effects=effects, not_executed=rule)
    calls = Calls(effects=effects, not_executed=rule)
    service.then, calls.then = fails(error), raises(error)

    for _ in range(2):
        with pytest.raises(Suspended) as by_handler:
            service.send(POST)
        with pytest.raises(Suspended) as by_function:
            calls.call({"id": "a"})
        assert by_handler.value is by_function.value is error
        assert records(service)[0].status is calls.only().status is Status.FAILED_RETRYABLE

    service.then = None
    assert service.send(POST)["statusCode"] == 201


@pytest.mark.fault("K11.7")
def test_a_rule_that_names_what_is_no_exception_clears_the_mark_of_a_step() -> None:
    """A step that suspends so did nothing, and runs when the operation goes on.

    Red when a step believes an `Exception` alone.
    """
    service = Steps(not_executed=Suspended)
    with pytest.raises(Suspended):
        service.sends(step("charge", raises=Suspended()))

    assert service.record.steps.started is None
    assert service.sends(step("charge"))["statusCode"] == 201


EXITS = [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), RunStopped()]


@pytest.mark.fault("K11.7")
@pytest.mark.parametrize("rule", [BaseException, lambda e: True])
@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_an_exit_proves_nothing_unless_it_is_named(error: BaseException, rule: Any) -> None:
    """A rule that accepts everything is not asked about exits and cancellations; one that names the
    type is.

    Red when a wide rule frees the key of a process that was told to end.
    """
    service = Protected(not_executed=rule)
    service.then = fails(error)
    with pytest.raises(type(error)):
        service.send(POST)
    assert records(service)[0].status is Status.UNKNOWN

    if isinstance(error, RunStopped):
        return
    named = Protected(not_executed=type(error))
    named.then = fails(error)
    with pytest.raises(type(error)):
        named.send(POST)
    assert records(named)[0].status is Status.FAILED_RETRYABLE
