"""Reconcilers, a late owner, a webhook and a client race for one record, call by call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, Settlement, idempotent, settle, single_tenant
from oncekey.reconciler_report import Report
from oncekey.reconciler_settings import ReconcilerSettings
from oncekey.reconciler_visits import Visits
from oncekey.record import Status
from oncekey.settings import Settings
from oncekey.timed_out import TimedOut
from oncekey.transitions import Settle
from tests.simulation.lock_step import Scene, SteppedStore, explore
from tests.support.protected import Context, is_replay, problem_of
from tests.support.reconciled import Escalations, knows
from tests.support.steps import POST, finds

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from oncekey import Operation
    from oncekey.record import Record
    from oncekey.transitions import Transition
    from tests.support.protected import Answer

LONG_MS = 600_000


@pytest.fixture(autouse=True)
def no_resolvers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test's resolvers, and none of this one's left behind."""
    monkeypatch.setattr("oncekey.resolvers._resolvers", {})
    monkeypatch.setattr("oncekey.resolvers._rules", {})


def paid(by: str) -> Answer:
    """An answer that says whose it is."""
    return {"statusCode": 201, "body": by}


class Race(Scene):
    """One record, a handler, and those who want to settle what it left.

    `charges` are the attempts that have paid, as their provider knows.
    """

    def __init__(self, *, effects: str = "unrecorded", store: type[SteppedStore] = SteppedStore):
        super().__init__()
        self.store = store(self.steps)
        self.charges: list[int] = []
        self.escalations = Escalations()
        self.escalations.happens = self.steps.stop
        self.reference = ""
        self.then: Callable[[Operation], Answer] = lambda _op: paid("the owner")

        @idempotent(
            operation="POST /payments",
            tenant=single_tenant(),
            effects=effects,
            store=self.store,
            clock=self.clock,
        )
        def handler(_event: dict[str, Any], _context: object, op: Operation) -> Answer:
            self.reference = op.reference
            return self.then(op)

        self.handler = handler

    def send(self) -> Answer:
        """One request."""
        answer: Answer = self.handler(dict(POST), Context(self.clock, self.clock.now_ms() + 10_000))
        return answer

    @property
    def record(self) -> Record:
        """The only one."""
        (record,) = self.store.records.values()
        return record

    def state(self) -> Hashable:
        """Also what has happened outside."""
        return (super().state(), tuple(self.charges), len(self.escalations.bodies))

    def owner_that_is_late(self, work: Callable[[Operation], Answer], calls: int = 1) -> None:
        """An actor that has made so many calls, and goes on long after its lease and the grace."""
        self.then = work
        self.steps.add("owner", self.send)
        for _ in range(calls):
            self.steps.step("owner")
        self.clock.advance(LONG_MS)

    def pays(self, op: Operation) -> None:
        """The provider is paid, in a moment of its own."""
        self.steps.stop()
        self.charges.append(op.attempt)

    def reconcilers(self, *names: str) -> None:
        """Actors that visit the record as a run of the reconciler does."""
        pk = self.record.pk
        for name in names:
            visits = Visits(
                store=self.store,
                clock=self.clock,
                settings=Settings(),
                turns=ReconcilerSettings(),
                escalations=self.escalations,
                timed_out=TimedOut(()).ending,
                report=Report(),
            )

            def visit(visits: Visits = visits) -> Report:
                visits.visit(pk, self.clock.now_ms() + LONG_MS)
                return visits.report

            self.steps.add(name, visit)

    def webhook(self, finding: Completed | NotExecuted, step: str = "") -> None:
        """An actor that knows."""
        reference = self.reference

        def know() -> Settlement:
            return settle(reference, finding, step=step, store=self.store, clock=self.clock)

        self.steps.add("webhook", know)

    def settled_by(self) -> list[str]:
        """Who says that the outcome is theirs; nobody failed."""
        winners: list[str] = []
        for name in self.steps.names:
            match result := self.steps.result(name):
                case Report():
                    assert result.failed == 0
                    assert not (result.settled and result.overtaken)
                    winners += [name] * result.settled
                case Settlement():
                    winners += [name] if result is Settlement.SETTLED else []
                case dict():
                    winners += [] if is_replay(result) else [name]
                case _:
                    raise AssertionError(f"{name} ended with {result!r}")
        return winners

    def applied(self, *names: str) -> int:
        """How many writes of these kinds the store has applied."""
        return sum(name in names for name in self.store.applied)


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
