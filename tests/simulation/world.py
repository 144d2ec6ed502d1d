"""The simulated world: it owns the time, the store, what is under way, and all that goes wrong.

Nothing here runs by itself. A schedule makes one move after the other; equal schedules make equal
runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.flow.commands import Fetch, Invoke, Pause, Read, ReadPauses, Transact, Write
from oncekey.outbox.relay_commands import ReadPage
from oncekey.reconciler.escalation import TellPerson
from oncekey.reconciler.writes import PutOff
from oncekey.settlement.asking import AskResolver
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.simulation.actors import AFFECTING, PK, Actor, ActorClock
from tests.simulation.calls import fail, reply_to
from tests.simulation.history import (
    Affected,
    Asked,
    Began,
    Died,
    Escalated,
    Event,
    Healed,
    Held,
    History,
    Returned,
    StepBegan,
    Swept,
    Told,
    Wrote,
)
from tests.simulation.moves import is_sweepable, moves, steps, target_of
from tests.simulation.provider import Call, Provider
from tests.simulation.recorded_handler import TAKEN, Ended, Entered
from tests.simulation.scenario import (
    CALL_TIMEOUT_MS,
    Caller,
    Kind,
    Move,
    Plan,
    Scenario,
    Until,
)
from tests.simulation.settlers import Hear, Operate
from tests.simulation.under_way import RELAY_CALLS, Sent, digest, effect_of, sent_by
from tests.simulation.watched_store import WatchedStore
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.business_write import BusinessWrite
    from oncekey.record.record import Record
    from tests.simulation.recorded_handler import Telling
    from tests.simulation.under_way import Sendable


# Most moves are steps, and most of their commands writes: they are looked for first.
_STEP = Kind.STEP
_WRITES = (Write, Transact)
_PASSING = (Pause, Entered, Ended)
_FAILURES = (StoreError, TimeoutError)


def holds(write: BusinessWrite) -> bool:
    """Whether the condition of a business write holds."""
    return write.table != TAKEN


class World:
    """One run of a scenario. `actor_type` is what its actors are.

    Args:
        scenario: who takes part, and what may go wrong.
        store: what holds the records, by default a faithful one.
        make_clock: makes an actor's clock from the true one, its name, number and offset.
        digests: whether `state` is asked for; what it needs takes a fifth of a run's time.
    """

    actor_type: type[Actor] = Actor

    def __init__(
        self,
        scenario: Scenario,
        store: MemoryStore | None = None,
        make_clock: Callable[[ManualClock, str, int, int], ActorClock] = ActorClock,
        *,
        digests: bool = True,
    ) -> None:
        self.scenario = scenario
        self.time = ManualClock()
        self.store = store if store is not None else MemoryStore(holds=holds)
        self.store.call_timeout_ms = CALL_TIMEOUT_MS
        self.provider = Provider()
        self.actors: dict[str, Actor] = {}
        self.under_way: list[Sent] = []
        self.events: list[Event] = []
        self.faults_left = scenario.most_faults
        self.passes_left = scenario.most_passes
        self.circumstances = scenario.circumstances
        self._digests = digests
        self._watched = WatchedStore(self.store)
        self._make_clock = make_clock
        self._skews = dict(scenario.skews)
        self._order = 0
        for caller in scenario.callers:
            self.add(caller)
        for settler in scenario.settlers:
            self.add(settler)

    def add(self, who: Caller | str) -> Actor:
        """One more caller, or a settler: `webhook`, or `webhook-2` where there are several."""
        name = who.name if isinstance(who, Caller) else who
        clock = self._make_clock(self.time, name, len(self.actors), self._skews.get(name, 0))
        actor = self.actor_type(
            name=name,
            clock=clock,
            caller=who if isinstance(who, Caller) else None,
            settings=self.scenario.settings,
            work=self.scenario.work,
        )
        self.actors[name] = actor
        return actor

    @property
    def record(self) -> Record | None:
        """What is stored now, expired or not."""
        return self.store.read(PK)

    @property
    def records(self) -> list[Record]:
        """Everything that is stored now, expired or not."""
        return list(self.store.records.values())

    @property
    def is_over(self) -> bool:
        """Whether every actor has come to its end."""
        return all(actor.is_over for actor in self.actors.values())

    def history(self) -> History:
        """All that has happened so far."""
        return History(events=tuple(self.events), circumstances=self.circumstances)

    def state(self) -> int:
        """A digest: from equal states, equal moves lead to equal histories.

        It holds the order of all that a checker puts in an order, and forgets the order of the
        rest.
        """
        traces = tuple(
            (actor.trace, actor.clock.skew_ms, actor.is_over, actor.is_frozen)
            for actor in self.actors.values()
        )
        budgets = (self.faults_left, self.passes_left)
        under_way = tuple(sorted(map(hash, self.under_way)))
        return hash((self.time.now_ms(), traces, self._order, under_way, budgets))

    def moves(self) -> list[Move]:
        """Every move that is possible now."""
        return moves(self)

    def steps(self) -> list[Move]:
        """Those of them that let an actor go on undisturbed."""
        return steps(self)

    def take(self, move: Move) -> None:
        """Make one move."""
        if move.kind is _STEP:
            self._step(self.actors[move.actor])
            return
        match move.kind:
            case Kind.LAND:
                self._land(self.under_way.pop(int(move.detail)))
            case Kind.ADVANCE:
                target_ms = target_of(self, Until(move.detail))
                if target_ms is None:
                    raise LookupError(f"{move}: nothing is stored that such a time belongs to")
                self.passes_left -= 1
                self.advance(target_ms - self.time.now_ms())
            case Kind.SWEEP:
                for record in [each for each in self.records if is_sweepable(each, self._now)]:
                    del self.store.records[record.pk]
                    self._say(Swept(at_ms=self._now, actor="", record=record))
            case Kind.SKEW:
                self.faults_left -= 1
                self.actors[move.actor].clock.skew_ms = int(move.detail)
            case Kind.THAW:
                self.actors[move.actor].is_frozen = False
            case Kind.FREEZE:
                self.faults_left -= 1
                self.actors[move.actor].is_frozen = True
            case _:
                self.faults_left -= 1
                fail(self, self.actors[move.actor], move.kind)

    def advance(self, duration_ms: int) -> None:
        """Let time pass for everybody. The platform kills what is past its deadline."""
        self.time.advance(duration_ms)
        self.under_way = [sent for sent in self.under_way if self._now < sent.until_ms]
        if self.scenario.killed_in_time:
            for actor in self.actors.values():
                is_late = actor.until_ms is not None and actor.until_ms <= self._now
                if is_late and not actor.is_frozen:
                    self._kill(actor)

    def heal(self) -> None:
        """Everybody's end has come; nothing is under way any more."""
        self.under_way = []
        for actor in self.actors.values():
            self._kill(actor)
        self.events.append(Healed(at_ms=self._now, actor=""))

    @property
    def _now(self) -> int:
        return self.time.now_ms()

    def _say(self, event: Event) -> None:
        self.events.append(event)
        if not self._digests:
            return
        if isinstance(event, Wrote):
            if not (event.permitted or event.writes) and event.after is event.before:
                # Nobody but its sender knows of it, whose trace holds what it met.
                return
            # What a write met follows from the writes before it.
            what: object = (event.transition, event.writes)
        else:
            what = event
        self._order = hash((self._order, event.at_ms, event.actor, what))

    def _step(self, actor: Actor) -> None:
        command = actor.command
        if isinstance(command, _WRITES):
            self._go_on(actor, self._carry_out(actor.name, sent_by(actor)))
            return
        match command:
            case None:
                actor.open(self.store)
                self.events.append(
                    Asked(at_ms=self._now, actor=actor.name, fingerprint=actor.fingerprint)
                )
                self._go_on(actor, None)
                actor.begun = actor.trace
            case Read() | Fetch() | ReadPauses():
                self._go_on(actor, reply_to(self, actor))
            case AskResolver(question=question):
                finding = self.provider.finding(question.operation_id, question.step)
                self._go_on(actor, finding)
            case Hear(pk=pk):
                record = self.store.read(pk)
                self._go_on(actor, None if record is None else self.provider.known_of(record))
            case PutOff() | Operate() | ReadPage() as call:
                self._order = hash((self._order, self._now, actor.name, call))
                self._go_on(actor, call.carry_out())
            case Invoke(_, None) as invoke:
                self._work(actor, invoke)
            case Invoke() as invoke:
                self._begin(actor, invoke)
                self._go_on(actor, None)
            case Call(effect, is_awaited=False):
                self._send(actor, effect)
                self._go_on(actor, None)
            case _:
                self._go_on(actor, self._carry_out(actor.name, sent_by(actor)))

    def _work(self, actor: Actor, invoke: Invoke) -> None:
        # In two moves, so that a kill can fall between the effect and the handler's end.
        if actor.result is not None:
            result, actor.result = actor.result, None
            self._say(Returned(at_ms=self._now, actor=actor.name))
            self._go_on(actor, result)
            return
        self._begin(actor, invoke)
        actor.result = actor.handle(invoke.operation)
        actor.trace = hash((actor.trace, "began", self._now))
        plan = actor.caller.plan if actor.caller is not None else Plan.SUCCEED
        if plan in AFFECTING:
            self._carry_out(actor.name, effect_of(actor, invoke))
        elif plan is Plan.TIME_OUT:
            self._send(actor, effect_of(actor, invoke))

    def _begin(self, actor: Actor, invoke: Invoke) -> None:
        operation = invoke.operation
        self._say(
            Began(
                at_ms=self._now,
                actor=actor.name,
                operation_id=operation.operation_id,
                attempt=operation.attempt,
            )
        )

    def _send(self, actor: Actor, what: Sendable) -> None:
        # The two assumptions about messages: an outside call arrives within the grace, a write
        # within the retention, or never.
        settings = self.scenario.settings
        is_effect = isinstance(what, Affected)
        longest_ms = settings.reconcile_grace_ms if is_effect else settings.retention_ms
        self.under_way.append(Sent(actor.name, what, self._now + longest_ms))

    def _land(self, sent: Sent) -> None:
        self._carry_out(sent.actor, sent.what, late=True)

    def _carry_out(self, name: str, what: Sendable | None, *, late: bool = False) -> object:
        if what is None:
            raise AssertionError(f"Bug: nobody knows how to carry out what {name} asks for")
        if isinstance(what, Affected):
            effect = replace(what, at_ms=self._now)
            self._say(self.provider.carry_out(effect))
            return self.provider.answer_to(effect)
        if isinstance(what, RELAY_CALLS):
            return what.carry_out()
        if isinstance(what, TellPerson):
            self._say(Escalated(at_ms=self._now, actor=name, body=what.body))
            return None
        reply, event = self._watched.carry_out(what, at_ms=self._now, actor=name, late=late)
        self._say(event)
        return reply

    def _kill(self, actor: Actor) -> None:
        if not actor.is_over:
            actor.is_over, actor.is_frozen = True, False
            self.events.append(Died(at_ms=self._now, actor=actor.name))

    def _go_on(self, actor: Actor, reply: object) -> None:
        """Give the flow its answer; pauses that it then asks for pass at once."""
        flow = actor.flow
        if flow is None:
            raise AssertionError(f"Bug: {actor.name} was answered before it began")
        if self._digests:
            actor.trace = hash((actor.trace, self._now, digest(reply)))
        try:
            command = flow.throw(reply) if isinstance(reply, _FAILURES) else flow.send(reply)
            while isinstance(command, _PASSING):
                if isinstance(command, Pause):
                    self.advance(command.duration_ms)
                else:
                    self._hear(actor, command)
                if actor.is_over:
                    return
                command = flow.send(None)
        except StopIteration as end:
            actor.is_over = True
            self._end(actor, end.value)
            return
        except StoreError as error:
            if not actor.may_fail:
                raise
            actor.is_over = True
            self._end(actor, error)
            return
        actor.command = command
        if isinstance(command, Invoke):
            self._say(
                Held(
                    at_ms=self._now,
                    actor=actor.name,
                    operation_id=command.operation.operation_id,
                    attempt=command.operation.attempt,
                    own_ms=actor.clock.now_ms(),
                )
            )

    def _hear(self, actor: Actor, telling: Telling) -> None:
        if isinstance(telling, Ended):
            self._say(Returned(at_ms=self._now, actor=actor.name))
            return
        self._say(
            StepBegan(
                at_ms=self._now,
                actor=actor.name,
                operation_id=telling.operation_id,
                attempt=telling.attempt,
                step=telling.step.name,
                is_idempotent=telling.step.is_idempotent,
            )
        )

    def _end(self, actor: Actor, outcome: object) -> None:
        if actor.caller is None:
            actor.outcome = outcome
            self.events.append(Died(at_ms=self._now, actor=actor.name))
            return
        told = Told(
            at_ms=self._now,
            actor=actor.name,
            fingerprint=actor.fingerprint,
            outcome=outcome,  # type: ignore[arg-type]  # what a caller's flow returns
        )
        self.events.append(told)
        self._order = hash((self._order, actor.name, type(outcome).__name__))
