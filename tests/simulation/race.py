"""One record, a handler, and actors that settle what it left, for the tests in lock-step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey import Completed, NotExecuted, Settlement, idempotent, settle, single_tenant
from oncekey.reconciler.report import Report
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.reconciler.timed_out import TimedOut
from oncekey.reconciler.visits import Visits
from oncekey.settings import Settings
from tests.simulation.lock_step import Scene, SteppedStore
from tests.support.protected import Context, is_replay
from tests.support.reconciled import Escalations
from tests.support.steps import POST

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from oncekey import Operation
    from oncekey.record.record import Record
    from tests.support.protected import Answer

LONG_MS = 600_000


def paid(by: str) -> Answer:
    """An answer that says whose it is."""
    return {"statusCode": 201, "body": by}


class Race(Scene):
    """One record, a handler, and those who want to settle what it left.

    `charges` are the attempts that have paid, as their provider knows.
    """

    def __init__(self, *, store: type[SteppedStore] = SteppedStore, **options: Any) -> None:
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
            store=self.store,
            clock=self.clock,
            **options,
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
                visits.look(pk)
                visits.work(self.clock.now_ms() + LONG_MS, lambda: True)
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
