"""A step that was started and may have happened: what its handler can and cannot make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Final, NotExecuted, RunStopped, idempotent_function, single_tenant
from oncekey.errors import StoreError
from oncekey.record.record import Status
from oncekey.record.transitions import ClearStep
from oncekey.testing.memory import MemoryStore
from tests.support.protected import headers_of, is_replay, problem_of
from tests.support.steps import FAILED, POST, Action, FaultyStore, Steps, caught, commit, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation

CHARGE = step("charge", raises=TimeoutError())
CREATED = {"statusCode": 201, "body": "made"}
DECLINED = {"statusCode": 402, "body": "declined"}


def check_in_doubt(service: Steps) -> None:
    """The record says which step is in doubt, has neither answer nor expiry, and nothing runs."""
    record, runs = service.record, len(service.runs)
    assert (record.status, record.last_error) == (Status.UNKNOWN, "step-in-doubt: charge")
    assert record.steps.started is not None
    assert record.steps.started.name == "charge"
    assert (record.response, record.expires_at_s, record.escalated_at_ms) == (None, None, None)
    assert record.due is not None
    assert record.lease_until_ms is not None
    assert record.due.at_ms == record.lease_until_ms + 60_000
    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)
    assert len(service.runs) == runs


@pytest.mark.requirement("E6")
@pytest.mark.parametrize(
    "ends",
    [
        CREATED,
        DECLINED,
        Final(201, "made"),
        Final(402, "declined", commit=True),
        Final(500),
        NotExecuted("so it says"),
        RunStopped(),
    ],
    ids=["201", "402", "Final 201", "Final 402", "Final 500", "NotExecuted", "RunStopped"],
)
def test_whatever_the_handler_says_the_outcome_is_unknown(
    ends: dict[str, Any] | BaseException,
) -> None:
    """A handler that caught the time-out of its charge and has its own idea of how it ended is not
    believed: the client is told that the outcome is unknown, and nothing is written with it.

    Red when a final answer completes the record, or a proof of the handler's frees the key.
    """
    service = Steps()

    answer = service.sends(_writes, caught(CHARGE), ends=ends)

    assert problem_of(answer) == (409, "outcome-unknown", True)
    check_in_doubt(service)
    assert service.store.writes == []


def _writes(_service: Steps, op: Operation) -> None:
    op.transaction.put("rides", {"id": "1"})


@pytest.mark.parametrize("status", [500, 503, 408, 425, 429])
def test_an_answer_that_is_not_final_is_given_and_the_outcome_unknown(status: int) -> None:
    """A 5xx promises nothing, so its client gets it as it is, without an expiry."""
    service = Steps()

    answer = service.sends(caught(CHARGE), ends={"statusCode": status, "body": "later"})

    assert (answer["statusCode"], answer["body"]) == (status, "later")
    assert "idempotency-expires" not in headers_of(answer)
    check_in_doubt(service)


@pytest.mark.parametrize("error", [ValueError("other"), SystemExit(3), KeyboardInterrupt()])
def test_another_exception_passes_and_the_outcome_is_unknown(error: BaseException) -> None:
    """What the handler raises is its caller's; the record has been written first."""
    service = Steps()

    with pytest.raises(type(error)) as raised:
        service.sends(caught(CHARGE), ends=error)

    assert raised.value is error
    check_in_doubt(service)


@pytest.mark.parametrize("error", [TimeoutError("t"), SystemExit(3), KeyboardInterrupt()])
def test_what_a_step_raises_reaches_the_handler_and_its_caller(error: BaseException) -> None:
    """The exception is the step's own, whatever its kind."""
    service = Steps()

    with pytest.raises(type(error)) as raised:
        service.sends(step("charge", raises=error))

    assert raised.value is error
    check_in_doubt(service)


FURTHER: dict[str, Action] = {
    "a step": step("refund"),
    "an idempotent step": step("refund", is_idempotent=True),
    "the same step": CHARGE,
    "a finished step": step("hold"),
    "a commit": commit("ordered"),
}


@pytest.mark.parametrize("further", FURTHER)
@pytest.mark.requirement("E6")
def test_nothing_else_begins(further: str) -> None:
    """After a step in doubt neither a step nor a commit is carried out: `RunStopped` is raised,
    which `except Exception` does not catch.

    Red when the attempt goes on, or the stop is an `Exception`.
    """
    service = Steps()

    answer = service.sends(caught(CHARGE), caught(FURTHER[further]))

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert service.ran == ["charge"]
    assert service.store.writes == []
    assert len(service.given) == 1
    check_in_doubt(service)


def test_a_handler_that_catches_everything_does_not_complete_either() -> None:
    """`except BaseException` around every step, and 201 at the end."""
    service = Steps()

    answer = service.sends(
        caught(CHARGE, BaseException),
        caught(step("ship"), BaseException),
        caught(commit("ordered"), BaseException),
    )

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert [type(given) for given in service.given] == [TimeoutError, RunStopped, RunStopped]
    assert service.ran == ["charge"]
    check_in_doubt(service)


def test_the_finished_steps_before_it_stay_on_record() -> None:
    """What is known is kept beside what is not."""
    service = Steps()

    service.sends(step("hold", "h-1"), caught(CHARGE))

    check_in_doubt(service)
    assert [each.name for each in service.record.steps.finished] == ["hold"]


def test_an_idempotent_step_that_raises_is_its_handlers_business() -> None:
    """It is not in doubt: a handler that maps it to a final answer has judged it."""
    service = Steps()

    answer = service.sends(
        caught(step("charge", raises=ValueError("declined"), is_idempotent=True)),
        step("notify"),
        ends=DECLINED,
    )

    assert answer["statusCode"] == 402
    assert service.record.status is Status.COMPLETED
    assert is_replay(service.send(POST))


PROOFS: dict[str, tuple[dict[str, Any], BaseException]] = {
    "NotExecuted": ({}, NotExecuted("refused")),
    "a type": ({"not_executed": ConnectionRefusedError}, ConnectionRefusedError()),
    "a predicate": ({"not_executed": lambda error: "refused" in str(error)}, OSError("refused")),
}


@pytest.mark.parametrize("proof", PROOFS)
def test_a_proof_clears_the_mark_and_the_run_goes_on(proof: str) -> None:
    """A step that is proven not to have been executed is as if it had never begun: the handler may
    try it again, under its name, and complete.
    """
    options, error = PROOFS[proof]
    service = Steps(**options)

    answer = service.sends(
        caught(step("charge", raises=error)), step("charge", "c-1"), step("ship")
    )

    assert answer["statusCode"] == 201
    assert service.given[:2] == [error, "c-1"]
    assert service.store.asked == [
        "Reserve",
        *("StartStep", "ClearStep", "StartStep", "FinishStep"),
        *("StartStep", "FinishStep", "Complete"),
    ]
    assert [(each.name, each.position) for each in service.record.steps.finished] == [
        ("charge", 0),
        ("ship", 1),
    ]


class LateClear(FaultyStore):
    """A store that is reached by the first sending of a clear only when `arrives` is called."""

    def __init__(self) -> None:
        super().__init__()
        self._late: list[ClearStep] = []

    def write(self, transition: Any) -> Any:
        """Write, or lose the first clear on its way."""
        if isinstance(transition, ClearStep) and not self._late:
            self._late.append(transition)
            raise StoreError("no answer", transient=True)
        return super().write(transition)

    def arrives(self) -> None:
        """The first sending reaches the store."""
        (late,) = self._late
        super().write(late)


def test_a_late_clear_leaves_the_mark_of_the_next_call() -> None:
    """A step is proven not executed and is called again; then the first sending of its clear
    arrives. The second call is still marked, and in doubt should its process die.

    Red when all calls of one step have the same mark.
    """
    store = LateClear()
    service = Steps(store=store)
    marked: list[bool] = []

    def arrives(_service: Steps) -> None:
        store.arrives()
        marked.append(service.record.is_in_doubt)

    refused = caught(step("charge", raises=NotExecuted()))

    assert service.sends(refused, step("charge", then=arrives))["statusCode"] == 201
    assert (service.ran, marked) == (["charge", "charge"], [True])


@pytest.mark.parametrize("proof", PROOFS)
def test_a_proof_that_ends_the_attempt_frees_the_key(proof: str) -> None:
    """Nothing has happened: the record says so, expires like any other, and the key runs again."""
    options, error = PROOFS[proof]
    service = Steps(**options)

    answer = service.sends(step("charge", raises=error))

    assert problem_of(answer) == (503, "not-executed", True)
    record = service.record
    assert (record.status, record.steps.started) == (Status.FAILED_RETRYABLE, None)
    assert record.expires_at_s is not None
    assert record.due is None
    assert service.sends(step("charge", "c-1"))["statusCode"] == 201
    assert service.ran == ["charge", "charge"]


def _fails_to_judge(error: BaseException) -> bool:
    raise LookupError(str(error))


@pytest.mark.parametrize("rule", [_fails_to_judge, lambda _error: False])
def test_a_rule_that_knows_nothing_proves_nothing(rule: Callable[[BaseException], bool]) -> None:
    """A predicate that says no, or fails itself, leaves the step in doubt."""
    service = Steps(not_executed=rule)

    service.sends(caught(CHARGE))

    check_in_doubt(service)


def test_a_rule_is_not_asked_about_what_ends_the_process() -> None:
    """An exit in a step says nothing about the provider, whatever the rule would say."""
    service = Steps(not_executed=lambda _error: True)

    with pytest.raises(SystemExit):
        service.sends(step("charge", raises=SystemExit()))

    check_in_doubt(service)


def test_the_proof_of_an_inner_function_is_none_of_the_step() -> None:
    """An idempotent function called in the step raises `NotExecuted`, which speaks of that function
    alone: what the step did before the call is in doubt.

    An author who knows better raises one anew.
    """

    @idempotent_function(
        operation="inner", key=lambda: "the-only-key", tenant=single_tenant(), store=MemoryStore()
    )
    def inner() -> None:
        raise NotExecuted

    def anew() -> None:
        try:
            inner()
        except NotExecuted as error:
            raise NotExecuted from error

    service, other = Steps(), Steps()
    answer = service.sends(caught(lambda _service, op: op.step("charge", inner)))
    other.sends(caught(lambda _service, op: op.step("charge", anew)))

    assert problem_of(answer) == (409, "outcome-unknown", True)
    check_in_doubt(service)
    assert other.record.status is Status.COMPLETED


@pytest.mark.parametrize("commits", [False, True])
def test_an_answer_raised_in_a_step_is_its_result_and_replayed_on_resume(commits: bool) -> None:
    """`Final` ends the operation from within a step. The step is finished with it: an attempt that
    resumes, because the answer could not be recorded, ends the same way without running it; with
    `commit` what was collected is applied.
    """
    service = Steps()
    final = Final(402, {"error": "declined"}, {"X-Reason": "funds"}, commit=commits)
    service.store.refuse("Complete", 1000)
    service.store.refuse("commit Complete", 1000)

    first = service.sends(_writes, step("charge", raises=final))
    service.store.refuse("Complete", 0)
    service.store.refuse("commit Complete", 0)
    second = service.sends(_writes, step("charge", raises=AssertionError("it ran again")))

    assert problem_of(first) == (503, "store-unavailable", True)
    assert (second["statusCode"], second["body"]) == (402, '{"error": "declined"}')
    assert headers_of(second)["x-reason"] == "funds"
    assert not is_replay(second)
    assert service.ran == ["charge"]
    assert len(service.store.writes) == commits
    assert is_replay(service.send(POST))


def test_a_handler_may_make_something_else_of_an_answer_raised_in_a_step() -> None:
    """A handler that catches it goes on; an attempt that resumes gives it the same to catch."""
    service = Steps()
    charge = caught(step("charge", raises=Final(402, "declined")))

    service.sends(charge, ends=FAILED)
    answer = service.sends(charge, step("notify"))

    assert answer["statusCode"] == 201
    assert service.ran == ["charge", "notify"]
    given = service.given[1]
    assert isinstance(given, Final)
    assert (given.status, given.body, given.headers, given.commit) == (402, "declined", {}, False)
