"""`not-executed` is said only of an attempt of which no step took effect, and 408 as it is."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import IETF, STRIPE, CallUnfinished, NotExecuted, idempotent_function, single_tenant
from oncekey.errors import JobUnfinished
from oncekey.record.record import Status
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.protected import Protected, answers, headers_of, is_replay, problem_of
from tests.support.steps import (
    CREATED,
    FAILED,
    LEASE_MS,
    POST,
    Action,
    FaultyStore,
    Steps,
    caught,
    commit,
    meanwhile,
    step,
    waits,
)

if TYPE_CHECKING:
    from oncekey import Operation

# What has been done by the time that an attempt comes to its end, and whether it took effect.
BEFORE: dict[str, tuple[list[Action], bool]] = {
    "nothing": ([], False),
    "a step that proved to do nothing": ([caught(step("hold", raises=NotExecuted()))], False),
    "an idempotent one that did": (
        [caught(step("hold", raises=NotExecuted(), is_idempotent=True))],
        False,
    ),
    "a step": ([step("hold")], True),
    "an idempotent step": ([step("hold", is_idempotent=True)], True),
    "an idempotent step that raised": (
        [caught(step("hold", raises=OSError(), is_idempotent=True))],
        True,
    ),
    "a commit": ([commit("ordered")], True),
    "a commit without writes": ([commit("ordered", writes=0)], True),
}


def _taken_over(service: Steps, _op: Operation) -> None:
    # The successor runs and fails before it does anything.
    service.another_sandbox(ahead_ms=LEASE_MS + 1).sends(ends=FAILED)


def _forgotten(service: Steps, _op: Operation) -> None:
    service.store.records.clear()


# How the attempt then ends without an answer of its own.
THEN: dict[str, tuple[list[Action], BaseException | None]] = {
    "it proves that nothing happened": ([], NotExecuted()),
    "its lease is over": ([waits(LEASE_MS + 1), step("late")], None),
    "its lease is over at an idempotent step": (
        [waits(LEASE_MS + 1), step("late", is_idempotent=True)],
        None,
    ),
    "its lease is over at a commit": ([waits(LEASE_MS + 1), commit("late")], None),
    "the clock jumps within a mark": ([], None),
    "it was taken over, and its successor failed": ([_taken_over, step("late")], None),
    "it was taken over, at its end": ([_taken_over], None),
    "its record is gone": ([_forgotten, step("late")], None),
    "the store is gone": ([lambda of, _op: of.store.refuse("StartStep", 99), step("late")], None),
    "its time is up": ([lambda of, _op: of.clock.advance(9_900), waits(LEASE_MS), step("x")], None),
}


class Jumping(FaultyStore):
    """A store in whose call for one mark the lease of the attempt goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.service: Steps | None = None

    def write(self, transition: Any) -> Any:
        """Write, and let the time pass where it is the mark of the late step."""
        reply = super().write(transition)
        name = getattr(getattr(transition, "step", None), "name", "")
        if self.service is not None and name == "late":
            self.service.clock.advance(LEASE_MS + 1)
        return reply


@pytest.mark.fault("K6.1")
@pytest.mark.parametrize(("before", "then"), [*itertools.product(BEFORE, THEN)])
def test_what_took_effect_is_never_said_not_to_be_executed(before: str, then: str) -> None:
    """Whatever an attempt has done, and however it comes to no answer: it is told `not-executed`
    only if nothing of it took effect, and then the same request runs again, or goes on.

    Red when a refusal is chosen by how the attempt ended, and not by what it had done.
    """
    actions, has_acted = BEFORE[before]
    more, error = THEN[then]
    store = Jumping()
    service = Steps(store=store)
    if then == "the clock jumps within a mark":
        store.service, more = service, [step("late")]

    answer = service.sends(*actions, *more, ends=error or CREATED)
    store.service = None

    told = problem_of(answer)[1]
    assert (told == "not-executed") <= (not has_acted)
    if told == "not-executed":
        assert "late" not in service.ran
    if has_acted and then == "it proves that nothing happened":
        assert problem_of(answer) == (503, "attempt-unfinished", True)
    if not has_acted and then == "it proves that nothing happened":
        assert problem_of(answer) == (503, "not-executed", True)


@pytest.mark.fault("K6.1")
def test_a_step_of_an_earlier_attempt_counts() -> None:
    """An attempt that resumes and proves that it did nothing is not said not to be executed: a step
    of the one before is on record.

    Red when only this attempt's own steps count.
    """
    service = Steps()
    service.sends(step("hold"), ends=FAILED)

    assert problem_of(service.sends(ends=NotExecuted())) == (503, "attempt-unfinished", True)
    assert service.record.expires_at_s is None
    assert service.sends(step("hold"))["statusCode"] == 201
    assert service.ran == ["hold"]


@pytest.mark.fault("K6.1")
def test_after_a_takeover_a_step_that_ran_is_not_denied() -> None:
    """A step runs while a successor takes over, which fails: its own client is not told that it was
    not carried out.

    Red when the owner of the record that is met decides what is said.
    """
    service = Steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1)

    def overtaken(_service: Steps) -> None:
        other.sends(ends=FAILED)

    answer = service.sends(step("charge", is_idempotent=True, then=overtaken))

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert service.ran == ["charge"]


@pytest.mark.fault("K6.1")
def test_what_a_successor_did_is_not_denied() -> None:
    """An attempt whose lease is over finds that its successor did a step and then failed: its
    client is not told that nothing was carried out.

    Red when a record that somebody else released counts as released by this attempt.
    """
    service = Steps()
    other = service.another_sandbox(ahead_ms=LEASE_MS + 1)

    answer = service.sends(
        meanwhile(other, step("hold"), ends=FAILED), waits(LEASE_MS + 1), step("late")
    )

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert (service.ran, other.ran) == ([], ["hold"])


@pytest.mark.fault("K6.1")
@pytest.mark.parametrize("preset", [IETF, STRIPE])
def test_both_presets_say_that_an_attempt_is_unfinished(preset: Any) -> None:
    """503 with Retry-After and the advice to send the same again, in the words of each preset.

    Red when a preset has no words for it.
    """
    service = Steps(preset=preset)

    answer = service.sends(step("hold"), ends=NotExecuted())

    body = json.loads(answer["body"])
    code = body["error"]["code"] if preset is STRIPE else body["type"].rpartition(":")[2]
    assert answer["statusCode"] == 503
    assert code.replace("_", "-") == "attempt-unfinished"
    assert headers_of(answer)["retry-after"] == "1"
    if preset is STRIPE:
        assert headers_of(answer)["stripe-should-retry"] == "true"


@pytest.mark.fault("K6.1")
@pytest.mark.parametrize("error", [NotExecuted("refused"), ValueError("refused")], ids=repr)
def test_a_function_is_not_said_to_be_unexecuted_after_a_step(error: Exception) -> None:
    """A function that proves it did nothing, and whose step is on record, raises to its caller that
    it is unfinished; an error that the author's rule accepts is raised as it is, and says nothing.

    Red when the proof of a function that has acted is raised on.
    """
    runs: list[int] = []

    @idempotent_function(
        operation="work",
        key=lambda: "the-only-key",
        tenant=single_tenant(),
        effects="recorded",
        not_executed=ValueError,
        store=FaultyStore(),
    )
    def work(*, op: Operation) -> str:
        runs.append(1)
        op.step("hold", lambda: "held")
        if len(runs) == 1:
            raise error
        return "done"

    expected: type[Exception] = CallUnfinished if isinstance(error, NotExecuted) else ValueError
    with pytest.raises(expected) as raised:
        work()  # type: ignore[call-arg]

    if isinstance(raised.value, CallUnfinished):
        assert raised.value.retryable
        assert raised.value.retry_after_s == 1
    assert work() == "done"  # type: ignore[call-arg]


@pytest.mark.fault("K6.1")
def test_a_job_is_not_said_to_be_unexecuted_after_a_step() -> None:
    """A worker is told that the work is unfinished, and delivers its message again.

    Red when `NotExecuted` is raised of a job whose step is on record.
    """
    service = Accepted(effects="recorded")
    service.sends(step("hold"), ends=NotExecuted())

    with pytest.raises(JobUnfinished):
        service.works()

    service.handles(step("hold"))
    service.works()
    assert service.record.status is Status.COMPLETED
    assert service.ran == ["hold"]


@pytest.mark.fault("K6.8")
@pytest.mark.parametrize("preset", [IETF, STRIPE])
def test_a_408_of_a_handler_is_as_final_as_its_preset_says(preset: Any) -> None:
    """Under IETF a handler's 408 is not stored, and the same key runs again; under STRIPE any
    answer is stored once the handler has begun.

    Red when a handler's 408 is final under the IETF preset.
    """
    service = Protected(preset=preset, effects="repeatable")
    service.then = answers(408)
    first, second = service.send(POST), service.send(POST)

    assert first["statusCode"] == second["statusCode"] == 408
    assert is_replay(second) is (preset is STRIPE)
    assert len(service.runs) == (1 if preset is STRIPE else 2)


@pytest.mark.fault("K6.8")
@pytest.mark.parametrize("preset", [IETF, STRIPE])
def test_the_408_of_a_request_that_nobody_began_is_final(preset: Any) -> None:
    """Oncekey's own 408 is stored and replayed under both presets, says that it is final, and its
    request never runs.

    Red when the rule for handlers decides whether our own 408 is stored.
    """
    service = Accepted(preset=preset)
    service.sends()
    service.clock.advance(START_WITHIN_MS + 1)

    first, second = service.send(POST), service.send(POST)
    service.works()

    assert first["statusCode"] == second["statusCode"] == 408
    assert "final" in first["body"]
    assert is_replay(second)
    assert (service.record.status, service.runs) == (Status.COMPLETED, [])
