"""Reconcilers, a late owner, a webhook and a client race for one record, call by call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import delivered
from oncekey.queued.jobs import Jobs
from oncekey.record.record import Status
from oncekey.record.transitions import Settle
from tests.simulation.lock_step import SteppedStore, explore
from tests.simulation.race import LONG_MS, Race, paid
from tests.support.protected import Context, is_replay, problem_of
from tests.support.reconciled import knows
from tests.support.steps import finds

if TYPE_CHECKING:
    from oncekey import Operation
    from oncekey.record.transitions import Transition
    from tests.support.protected import Answer

pytestmark = pytest.mark.usefixtures("no_resolvers")


class OneOutcome(Race):
    """Two reconcilers, a late owner and a webhook, each with an answer of its own."""

    def __init__(self, store: type[SteppedStore] = SteppedStore) -> None:
        super().__init__(store=store)
        self.owner_that_is_late(lambda _op: paid("the owner"))
        self.reconcilers("one", "two")
        self.webhook(Completed(paid("webhook")))

    def check(self) -> None:
        """One answer is on record, written once; its writer says so, and everybody else not."""
        record, winners = self.record, self.settled_by()
        assert record.status is Status.COMPLETED
        assert self.applied("Complete", "Settle") == 1, self.store.applied
        assert len(winners) == 1, winners
        whose = {"owner": "the owner", "webhook": "webhook"}.get(winners[0], "resolver")
        assert self.steps.result("owner")["body"] == whose
        again = self.send()
        assert (again["body"], is_replay(again)) == (whose, True)
        assert self.escalations.bodies == []


class OneStep(Race):
    """The same for a step of recorded effects: it took effect, and its owner is late to say so."""

    def __init__(self) -> None:
        super().__init__(effects="recorded")
        self.owner_that_is_late(self.work, calls=2)
        assert self.charges == [1]
        self.reconcilers("one", "two")
        self.webhook(Completed("by the webhook"), step="charge")

    def work(self, op: Operation) -> Answer:
        """Pay in a step, and answer what it gave."""

        def charge() -> str:
            self.charges.append(op.attempt)
            return "by the owner"

        return paid(op.step("charge", charge))

    def check(self) -> None:
        """The step has one result, written once, and the next request goes on from there."""
        (finished,) = self.record.steps.finished
        winners = [name for name in self.settled_by() if name != "owner"]
        assert len(winners) == self.applied("SettleStep"), winners
        if self.applied("FinishStep"):
            assert finished.result == '"by the owner"'
        else:
            assert len(winners) == 1
            told = problem_of(self.steps.result("owner"))
            assert (told[0] in {409, 503}, told[2]) == (True, True), told
        answer = self.send()
        assert answer["statusCode"] == 201
        assert finished.result == f'"{answer["body"]}"'
        assert self.charges == [1]
        assert self.escalations.bodies == []


class RunAgain(Race):
    """Nothing has happened, and two say so; a client's retry then pays, and is interrupted."""

    def __init__(self, store: type[SteppedStore] = SteppedStore) -> None:
        super().__init__(store=store)
        self.then = self.is_interrupted
        with pytest.raises(TimeoutError):
            self.send()
        self.clock.advance(LONG_MS)
        self.then = self.pays_and_is_interrupted
        knows(lambda: self.ask())  # noqa: PLW0108 -- a function, which is what is called
        self.reconcilers("one")
        self.webhook(NotExecuted())
        self.steps.add("client", self.send)

    def ask(self) -> Completed | NotExecuted:
        """What the provider says."""
        return Completed(paid("provider")) if self.charges else NotExecuted()

    def is_interrupted(self, _op: Operation) -> Answer:
        """Nothing is paid, but who knows?"""
        raise TimeoutError

    def pays_and_is_interrupted(self, op: Operation) -> Answer:
        """It is paid."""
        self.pays(op)
        raise TimeoutError

    def check(self) -> None:
        """What has paid may not run again."""
        assert len(self.charges) <= 1
        may_run = self.record.status is Status.FAILED_RETRYABLE
        assert not (may_run and self.charges), self.store.applied
        assert self.applied("Settle") == 1, self.store.applied


class Told(Race):
    """Nobody can be asked: two reconcilers tell a person, while a webhook comes."""

    def __init__(self) -> None:
        super().__init__()
        self.owner_that_is_late(lambda _op: paid("the owner"))
        self.reconcilers("one", "two")
        self.webhook(Completed(paid("webhook")))

    def check(self) -> None:
        """One message for one mark, none without, and the outcome all the same."""
        is_marked = self.record.escalated_at_ms is not None
        assert len(self.escalations.bodies) == is_marked
        assert self.record.status is Status.COMPLETED
        assert self.applied("Complete", "Settle") == 1
        assert (self.send()["body"], self.record.due) == (self.steps.result("owner")["body"], None)


class HandedBack(Race):
    """Half-done work is due: two reconcilers hand it back, while its client comes back itself."""

    def __init__(self) -> None:
        super().__init__(effects="recorded", on_abandoned="complete")
        self.then = self.fails_after_a_step
        assert self.send()["statusCode"] == 500
        self.clock.advance(LONG_MS)
        self.then = self.goes_on
        self.reconcilers("one", "two")
        self.steps.add("client", self.send)

    def fails_after_a_step(self, op: Operation) -> Answer:
        """The first attempt."""
        op.step("hold", lambda: self.charges.append(op.attempt))
        return {"statusCode": 500}

    def goes_on(self, op: Operation) -> Answer:
        """Every other one."""
        op.step("hold", lambda: self.charges.append(op.attempt))
        op.step("charge", lambda: self.charges.append(op.attempt))
        return paid("somebody")

    def check(self) -> None:
        """It was handed back once at the most, and whoever does it, does it once."""
        assert len(self.store.messages) <= 1
        handed = sum(self.steps.result(name).handed_back for name in ("one", "two"))
        assert handed == len(self.store.messages)
        for message in self.store.messages:
            Jobs(self.handler).perform(
                delivered(sealed(message)), Context(self.clock, self.clock.now_ms() + 10_000)
            )
        assert len(self.charges) == 2
        assert self.send()["body"] == "somebody"


@pytest.mark.requirement("D6")
def test_one_outcome_is_recorded_once_whoever_comes_first() -> None:
    """Two reconcilers, a late owner and a webhook race for one operation: in every interleaving of
    their calls one outcome is recorded, once; its writer says so and the others that they came
    second; the late owner's caller and every retry get the stored answer.

    Red when a settlement overwrites another, or takes another's for its own.
    """
    knows(Completed(paid("resolver")))

    assert explore(OneOutcome) >= 50


def test_a_step_has_one_result_whoever_comes_first() -> None:
    """The same race for a step of recorded effects: it has one result, the late owner's caller is
    told to come again, and the next request resumes with that result; nothing is paid again.
    """
    finds(Completed("by the resolver"))

    assert explore(OneStep) >= 50


def test_what_was_settled_as_not_executed_is_not_settled_again_after_a_run() -> None:
    """A settlement that was decided before another run began does not speak of that run: what that
    one has paid never becomes free to run again.
    """
    assert explore(RunAgain) >= 10


def test_a_person_is_told_once_for_each_mark() -> None:
    """Of two reconcilers that meet the same record, one marks it and tells; nobody is told of what
    a webhook has settled before.
    """
    assert explore(Told) >= 50


@pytest.mark.requirement("E10")
def test_half_done_work_is_handed_back_once_and_done_once() -> None:
    """Two reconcilers and the client meet half-done work: one message at the most is written for
    it, and the steps that are left are done once, by the client or the worker.

    Red when the message is written without the turn, or the worker runs what a client has resumed.
    """
    assert explore(HandedBack) >= 20


class AnyOwner(SteppedStore):
    """A store whose `Settle` forgets to compare the owner that was seen."""

    def _write(self, transition: Transition) -> Any:
        met = self.records.get(transition.pk)
        if isinstance(transition, Settle) and met is not None:
            transition = replace(transition, seen_owner=met.owner)
        return super()._write(transition)


class OldOwner(SteppedStore):
    """A store whose `Settle` leaves the late owner's token on the record."""

    def _write(self, transition: Transition) -> Any:
        if isinstance(transition, Settle):
            transition = replace(transition, new_owner=transition.seen_owner)
        return super()._write(transition)


@pytest.mark.parametrize(
    ("race", "broken"),
    [(RunAgain, AnyOwner), (OneOutcome, OldOwner)],
    ids=lambda each: each.__name__,
)
def test_a_settlement_without_its_fences_is_found(
    race: type[RunAgain | OneOutcome], broken: type[SteppedStore]
) -> None:
    """Without the owner seen, or without a fresh owner written, some interleaving breaks a rule."""
    knows(Completed(paid("resolver")))

    with pytest.raises(AssertionError):
        explore(lambda: race(broken))
