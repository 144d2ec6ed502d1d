"""Steps: run once, recorded, marked before they run, and one outside effect each."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import ConfigurationError, EffectMisused
from oncekey.effects.operation import downstream_key
from oncekey.record.record import Status
from tests.support.dynamodb import Recorder, dynamodb_table
from tests.support.protected import Protected, is_replay, problem_of
from tests.support.steps import (
    FAILED,
    POST,
    Steps,
    TableSteps,
    caught,
    commit,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation


@pytest.mark.requirement("E1")
def test_a_retry_resumes_after_the_finished_steps() -> None:
    """Three attempts, each of which gets one step further: every function runs once, and the last
    attempt has the results of all of them.

    Red when a finished step is not recorded, or its function runs again.
    """
    service = Steps()

    service.sends(step("hold", "h-1"), ends=FAILED)
    service.sends(step("hold", "h-2"), step("charge", "c-2"), ends=FAILED)
    service.given.clear()
    answer = service.sends(step("hold", "h-3"), step("charge", "c-3"), step("ship", "s-3"))

    assert answer["statusCode"] == 201
    assert service.ran == ["hold", "charge", "ship"]
    assert service.given == ["h-1", "c-2", "s-3"]
    assert [run.attempt for run in service.runs] == [1, 2, 3]
    assert len({run.operation_id for run in service.runs}) == 1
    assert is_replay(service.send(POST))


@pytest.mark.requirement("E1")
def test_the_requests_that_steps_cost() -> None:
    """An idempotent step is one write, another one two, a resume one more; a finished step costs
    an attempt that resumes nothing.

    Red when a step is marked that need not be, or reads what the record has said already.
    """
    with dynamodb_table() as client:
        service, recorder = TableSteps(client), Recorder(client)

        service.sends(step("hold", is_idempotent=True), ends=FAILED)
        first, recorder.calls[:] = recorder.operations, []
        service.sends(step("hold", is_idempotent=True), step("charge"), ends=FAILED)
        second, recorder.calls[:] = recorder.operations, []
        service.sends(step("hold", is_idempotent=True), step("charge"))

    reserve, resume, end = "PutItem", ["PutItem", "UpdateItem"], "UpdateItem"
    assert first == [reserve, "UpdateItem", end]
    assert second == [*resume, "UpdateItem", "UpdateItem", end]
    assert recorder.operations == [*resume, end]


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_step_is_marked_before_it_runs_unless_it_is_idempotent(is_idempotent: bool) -> None:
    """While the function runs, the record already says that it is in doubt; afterwards that it is
    finished, and where it stood.
    """
    with dynamodb_table() as client:
        service = TableSteps(client)
        seen = []

        def look(_service: Steps) -> None:
            seen.append(service.record.steps)

        service.sends(step("hold"), step("charge", is_idempotent=is_idempotent, then=look))
        finished = service.record.steps

    (during,) = seen
    assert (during.started is None) is is_idempotent
    assert during.started is None or (during.started.name, during.started.position) == ("charge", 1)
    assert [each.name for each in during.finished] == ["hold"]
    assert finished.started is None
    assert [(each.name, each.position) for each in finished.finished] == [
        ("hold", 0),
        ("charge", 1),
    ]


@pytest.mark.case(11)
@pytest.mark.requirement("E2")
def test_a_provider_is_shown_one_key_over_every_attempt() -> None:
    """A call that takes effect and whose answer is lost, and the attempts that follow after a
    failure and after a takeover, show the provider the same key; another step shows another one.

    Red when the key is drawn anew, or derives from the attempt or its owner.
    """
    service = Steps()
    charge = step("charge", raises=TimeoutError(), is_idempotent=True)

    with pytest.raises(TimeoutError):
        service.sends(charge)
    service.dies(caught(charge))
    service.lets_the_lease_run_out()
    service.sends(step("charge", "c-1", is_idempotent=True), step("ship"))

    operation_id = service.record.operation_id
    assert service.ran == ["charge", "charge", "charge", "ship"]
    assert service.keys[:3] == [downstream_key(operation_id, "charge")] * 3
    assert service.keys[3] == downstream_key(operation_id, "ship")
    assert [run.attempt for run in service.runs] == [1, 2, 3]


@pytest.mark.requirement("E2")
def test_a_step_asks_for_the_downstream_key_of_its_own_name() -> None:
    """As often as it likes; that of another name in a step is refused, by a message that names
    both. Outside steps any name may be asked for.

    Red when a step may call two providers, or its resolver would look for another key.
    """
    service = Steps()

    def another(_service: Steps, op: Operation) -> Any:
        return op.step("charge", lambda: op.downstream_key("refund"))

    def own(_service: Steps, op: Operation) -> Any:
        return op.step("own", lambda: op.downstream_key("own") == op.downstream_key("own"))

    def outside(_service: Steps, op: Operation) -> Any:
        return len({op.downstream_key("charge"), op.downstream_key("refund")})

    service.sends(outside, own, outside, caught(another))

    assert service.given[:3] == [2, True, 2]
    assert isinstance(service.given[3], EffectMisused)
    assert "the step 'charge' asks for the downstream key of 'refund'" in str(service.given[3])


INSIDE: dict[str, Callable[[Operation], Any]] = {
    "op.step('inner')": lambda op: op.step("inner", list),
    "op.commit('inner')": lambda op: op.commit("inner"),
    "op.transaction.put": lambda op: op.transaction.put("rides", {"id": "1"}),
    "op.transaction.check": lambda op: op.transaction.check("rides", {"id": "1"}, "a = b"),
    "op.outbox.publish": lambda op: op.outbox.publish("ride.ordered", {}),
    "op.discard": lambda op: op.discard(),
}


@pytest.mark.parametrize("what", INSIDE)
@pytest.mark.requirement("E2")
def test_a_step_holds_one_effect_and_nothing_else(what: str) -> None:
    """A step, a commit, a business write and a message inside a step are refused, by a message that
    names both, and so is discarding them; nothing of that happens, and the outer step goes on.

    Red when one of them is carried out: an attempt that resumes would leave it out.
    """
    service = Steps()
    errors: list[Exception] = []

    def outer(_service: Steps, op: Operation) -> None:
        def function() -> None:
            try:
                INSIDE[what](op)
            except EffectMisused as error:
                errors.append(error)

        op.step("outer", function)

    answer = service.sends(outer)

    (error,) = errors
    assert f"{what} inside the step 'outer'" in str(error)
    assert answer["statusCode"] == 201
    assert [each.name for each in service.record.steps.finished] == ["outer"]
    assert (service.store.writes, service.store.messages) == ([], [])


@pytest.mark.parametrize("again", [step("charge"), commit("charge")], ids=["step", "commit"])
@pytest.mark.parametrize("first", [step("charge"), commit("charge")], ids=["step", "commit"])
def test_a_name_is_used_once_in_a_run(first: Any, again: Any) -> None:
    """A second step or commit of one name is refused; the first one counts, and stays done."""
    service = Steps()

    service.sends(first, caught(again))

    assert isinstance(service.given[1], EffectMisused)
    assert "'charge' is done twice in one run" in str(service.given[1])
    assert len(service.ran) <= 1
    assert [each.name for each in service.record.steps.finished] == ["charge"]
    assert service.record.status is Status.COMPLETED


@pytest.mark.parametrize("name", ["", "n" * 65])
def test_a_step_has_a_name_of_a_sensible_length(name: str) -> None:
    """None, or one of more than 64 characters, is refused before anything is written."""
    service = Steps()

    service.sends(caught(step(name)))

    assert isinstance(service.given[0], EffectMisused)
    assert service.ran == []
    assert service.store.asked == ["Reserve", "Complete"]


async def coroutine_function() -> str:
    """What a plain step cannot run."""
    raise AssertionError("nobody awaits it")


def generator() -> Any:
    """What a call only makes. Its code runs when somebody iterates."""
    yield coroutine_function()


class CallableObject:
    """One more of the kind."""

    async def __call__(self) -> str:
        """See above."""
        return await coroutine_function()


NO_FUNCTIONS: dict[str, tuple[Any, str]] = {
    "a coroutine function": (coroutine_function, "use `await op.step_async(...)`"),
    "a partial of one": (functools.partial(coroutine_function), "op.step_async"),
    "an object that is called so": (CallableObject(), "op.step_async"),
    "a generator": (generator, "was given a generator, which a call only makes"),
    "a result": ("charged", "was given str, which is no function: write `lambda: ...`"),
    "nothing": (None, "was given NoneType, which is no function"),
}


@pytest.mark.parametrize("kind", NO_FUNCTIONS)
def test_what_is_no_function_is_refused_before_anything_is_marked(kind: str) -> None:
    """The message says what to write; the record knows nothing of the step."""
    function, advice = NO_FUNCTIONS[kind]
    service = Steps()

    service.sends(caught(lambda _service, op: op.step("charge", function)))

    assert isinstance(service.given[0], EffectMisused)
    assert advice in str(service.given[0])
    assert service.store.asked == ["Reserve", "Complete"]


def test_a_function_that_returns_a_coroutine_is_told_so() -> None:
    """The coroutine is closed, and nobody complains that it was never awaited; what the function
    did before it returned one is not known, so the step is in doubt.
    """
    service = Steps()
    coroutines = []

    def function() -> Any:
        coroutines.append(coroutine_function())
        return coroutines[0]

    with pytest.raises(EffectMisused, match="returned an awaitable"):
        service.sends(lambda _service, op: op.step("charge", function))

    assert inspect.getcoroutinestate(coroutines[0]) == inspect.CORO_CLOSED
    assert service.record.status is Status.UNKNOWN
    assert problem_of(service.send(POST))[1] == "outcome-unknown"


@pytest.mark.parametrize("idempotent", ["no", "false", 1, None])
def test_whether_a_step_is_idempotent_is_true_or_false(idempotent: Any) -> None:
    """A text such as "no" counts as true, and would let a charge run again."""
    service = Steps()

    service.sends(caught(lambda _service, op: op.step("charge", list, idempotent=idempotent)))

    assert isinstance(service.given[0], EffectMisused)
    assert service.store.asked == ["Reserve", "Complete"]


def test_after_an_idempotent_step_that_returned_a_coroutine_a_handler_may_go_on() -> None:
    """It is as if the step had raised: it has no mark, so its handler may answer all the same."""
    service = Steps()

    def function() -> Any:
        return coroutine_function()

    def mistaken(_service: Steps, op: Operation) -> None:
        op.step("charge", function, idempotent=True)

    answer = service.sends(caught(mistaken, EffectMisused))

    assert answer["statusCode"] == 201
    assert isinstance(service.given[0], EffectMisused)


USES: dict[str, Callable[[Operation], Any]] = {
    "op.step": lambda op: op.step("charge", list),
    "op.commit": lambda op: op.commit("ordered"),
    "op.transaction": lambda op: op.transaction.put("rides", {"id": "1"}),
    "op.outbox": lambda op: op.outbox.publish("ride.ordered", {}),
    "op.discard": lambda op: op.discard(),
}


@pytest.mark.parametrize("effects", ["unrecorded", "repeatable"])
@pytest.mark.parametrize("what", USES)
def test_other_effects_have_no_steps(what: str, effects: str) -> None:
    """An operation that is not declared recorded says what to do, when it is asked for a step."""
    service = Protected(effects=effects)
    service.then = lambda _event, op: USES[what](op)

    with pytest.raises(ConfigurationError) as raised:
        service.send(POST)

    assert str(raised.value) == (
        f"{what} of 'POST /payments': declare the operation effects='recorded'"
    )
