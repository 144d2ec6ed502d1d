"""Exceptions at any point of a step: what was charged is charged once, and never denied."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.record import Status
from tests.support.interrupted_charges import ENDINGS, Charges, Signalled
from tests.support.interrupting import Interrupting
from tests.support.protected import problem_of
from tests.support.steps import POST, FaultyStore, Steps, caught, step

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation

# An exception between making a flow and driving it leaves a coroutine that nobody awaits.
pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.usefixtures("garbage_collected"),
]


@pytest.mark.fault("K2.1")
@pytest.mark.fault("K2.2")
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("kind", "every", "is_idempotent"),
    [
        (Signalled, 3, False),
        # The handlers of the others are the same but for what they catch and mark.
        pytest.param(KeyboardInterrupt, 1, False, marks=pytest.mark.proof),
        pytest.param(KeyboardInterrupt, 1, True, marks=pytest.mark.proof),
        pytest.param(Signalled, 1, False, marks=pytest.mark.proof),
        pytest.param(Signalled, 1, True, marks=pytest.mark.proof),
    ],
)
def test_an_exception_at_any_point_of_a_step_charges_once_and_denies_nothing(
    kind: type[BaseException], every: int, is_idempotent: bool, ending: str
) -> None:
    """At whatever line of ours a signal's exception comes, and whatever the handler makes of it:
    the provider is charged once at most, and no final answer denies a charge.

    Red when the journal has to be told of an interruption in order to doubt, when another step or
    commit may follow a step that was left, or when its mark may be cleared by another name.
    """
    whole = Interrupting()
    Charges(ending, whole, is_idempotent=is_idempotent).send()
    found: dict[str, list[str]] = {}

    for at in range(0, whole.points, every):
        interrupting = Interrupting(at=at, error=kind("a signal"))
        charges = Charges(ending, interrupting, is_idempotent=is_idempotent).comes_back()
        if charges.faults():
            found[f"{at} {interrupting.where}"] = [*charges.faults(), *map(str, charges.answers)]

    assert whole.points > 100
    assert found == {}


@pytest.mark.fault("K2.2")
@pytest.mark.parametrize("is_carried_out", [True, False])
@pytest.mark.parametrize("call", ["StartStep", "FinishStep", "ClearStep"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_exit_inside_a_call_of_the_store_charges_once(
    ending: str, call: str, is_carried_out: bool
) -> None:
    """A `KeyboardInterrupt` while the store is called, which has written or has not: a client that
    comes back does not charge a second time.

    Red when a step whose end was not confirmed is not in doubt, or a proof is forgotten.
    """

    class Interrupted(FaultyStore):
        def _asked(self, name: str, function: Callable[[Any], Any], argument: Any) -> Any:
            if name != call or name in self.asked:
                return super()._asked(name, function, argument)
            self.asked.append(name)
            if is_carried_out:
                function(argument)
            raise KeyboardInterrupt

    charges = Charges(ending)
    charges.service = Steps(store=Interrupted())
    charges.service.then = charges._handler

    charges.comes_back()

    assert charges.faults() == []


class Unstorable:
    """A value whose class raises where it is looked at."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise self._error


UNSTORABLE: dict[str, Callable[[], Any]] = {
    "an object": object,
    "a class that raises KeyError": lambda: Unstorable(KeyError("local")),
    "a class that raises RecursionError": lambda: Unstorable(RecursionError()),
    "a list nested too deep": lambda: _nested(5_000),
}


def _nested(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


@pytest.mark.parametrize("comes_from", ["its class", "a signal handler"])
def test_after_a_result_that_raised_where_it_was_looked_at_no_answer_is_accepted(
    comes_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler cannot tell whether the exception came from its step, so it may deny the step. It
    can read what was raised.
    """
    service = Steps()
    error = KeyError("local")
    result: object = Unstorable(error)
    if comes_from == "a signal handler":

        def interrupted(_text: str) -> None:
            raise error

        result = "ch_1"
        monkeypatch.setattr("oncekey.effects.recorded_work.decode", interrupted)

    answer = service.sends(caught(step("charge", result), TypeError))

    assert problem_of(answer)[0] == 503
    (told,) = service.given
    assert told.__cause__ is error
    assert service.record.response is None
    assert [each.name for each in service.record.steps.finished] == ["charge"]


@pytest.mark.fault("K2.2")
@pytest.mark.parametrize("is_idempotent", [False, True], ids=["marked", "idempotent"])
@pytest.mark.parametrize("result", UNSTORABLE)
@pytest.mark.parametrize("ending", ["it passes", "402", "it commits that it failed"])
def test_a_result_that_cannot_be_stored_is_a_step_that_was_done(
    ending: str, result: str, is_idempotent: bool
) -> None:
    """Whatever exception the encoding of a result raises, the step is on record as done and is not
    run again, and an answer that denies it is not stored.

    Red when another exception than TypeError leaves the step, or when a refusal completes the
    operation of a step whose result was lost.
    """
    charges = Charges(ending, is_idempotent=is_idempotent, result=UNSTORABLE[result]).comes_back()

    assert len(charges.charged) == 1
    assert "denied though charged" not in charges.faults() or (
        # The author is told by a TypeError, and may go on: this answer is a word of their own.
        ending == "it commits that it failed"
    )
    assert [each.name for each in charges.service.record.steps.finished][:1] == ["charge"]
    if ending == "it passes":
        assert issubclass(charges.answers[0], TypeError)


@pytest.mark.fault("K2.2")
@pytest.mark.parametrize("passes", [True, False])
def test_an_exception_at_any_point_of_a_commit_applies_it_once(passes: bool) -> None:
    """At whatever line of ours an exception comes in a commit, whether its handler catches it or
    not: what was collected has been applied once when the client has its answer.

    Red when an interrupted commit lets the attempt go on, or complete.
    """
    whole = Interrupting()
    found: dict[str, Any] = {}

    def sent(interrupting: Interrupting) -> Steps:
        service, first = Steps(), [interrupting]

        def handler(_event: object, op: Operation) -> Any:
            op.transaction.put("rides", {"id": "1"})
            try:
                with first.pop() if first else Interrupting():
                    op.commit("ordered")
            except Signalled:
                if passes:
                    raise
            return {"statusCode": 201, "body": "ordered"}

        service.then = handler
        for _ in range(3):
            with contextlib.suppress(Signalled):
                service.send(POST)
        return service

    sent(whole)
    for at in range(whole.points):
        interrupting = Interrupting(at=at, error=Signalled())
        service = sent(interrupting)
        if (service.record.status, len(service.store.writes)) != (Status.COMPLETED, 1):
            found[f"{at} {interrupting.where}"] = service.record

    assert whole.points > 50
    assert found == {}
