"""The simulated world: it owns the time, the store, what is under way, and all that goes wrong.

Nothing here runs by itself. A schedule makes one move after the other; equal schedules make equal
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.commands import Answered, Invoke, Pause, Raised, Read, Write
from oncekey.errors import StoreError
from oncekey.store import Written
from oncekey.testing import ManualClock, MemoryStore
from tests.simulation.actors import AFFECTING, PK, Actor, ActorClock
from tests.simulation.history import (
    Affected,
    Asked,
    Began,
    Circumstances,
    Died,
    Event,
    Healed,
    Held,
    History,
    Returned,
    Swept,
    Told,
    Wrote,
)
from tests.simulation.moves import target_of
from tests.simulation.scenario import Caller, Kind, Move, Plan, Scenario, Until
from tests.simulation.settlers import Ask

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record import Record
    from oncekey.store import Refused
    from oncekey.transitions import Transition


@dataclass(frozen=True, slots=True)
class Sent:
    """A write, or an effect on the outside world, that is under way.

    `until_ms`: it arrives before then or never.
    """

    actor: str
    what: Transition | Affected
    until_ms: int


class World:
    """One run of a scenario.

    Args:
        scenario: who takes part, and what may go wrong.
        store: what holds the records, by default a faithful one.
        make_clock: makes an actor's clock from the true one, its name, number and offset.
    """

    def __init__(
        self,
        scenario: Scenario,
        store: MemoryStore | None = None,
        make_clock: Callable[[ManualClock, str, int, int], ActorClock] = ActorClock,
    ) -> None:
        self.scenario = scenario
        self.time = ManualClock()
        self.store = store if store is not None else MemoryStore()
        self.actors: dict[str, Actor] = {}
        self.under_way: list[Sent] = []
        self.events: list[Event] = []
        self.faults_left = scenario.most_faults
        self.passes_left = scenario.most_passes
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
        caller = who if isinstance(who, Caller) else None
        actor = Actor(name=name, clock=clock, caller=caller, settings=self.scenario.settings)
        self.actors[name] = actor
        return actor

    @property
    def record(self) -> Record | None:
        """What is stored now, expired or not."""
        return self.store.read(PK)

    @property
    def is_over(self) -> bool:
        """Whether every actor has come to its end."""
        return all(actor.is_over for actor in self.actors.values())

    def history(self) -> History:
        """All that has happened so far."""
        circumstances = Circumstances(
            killed_in_time=self.scenario.killed_in_time,
            clocks_agree=self.scenario.clocks_agree,
            most_skew_ms=self.scenario.most_skew_ms,
        )
        return History(events=tuple(self.events), circumstances=circumstances)

    def state(self) -> int:
        """A digest: from equal states, equal moves lead to equal histories.

        It holds the order of all that a checker puts in an order, and forgets the order of the
        rest.
        """
        traces = tuple(
            (actor.trace, actor.clock.skew_ms, actor.is_over) for actor in self.actors.values()
        )
        budgets = (self.faults_left, self.passes_left)
        under_way = tuple(sorted(map(hash, self.under_way)))
        return hash((self.time.now_ms(), traces, self._order, under_way, budgets))

    def take(self, move: Move) -> None:
        """Make one move."""
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
                self._say(Swept(at_ms=self._now, actor="", record=self.store.records.pop(PK)))
            case Kind.SKEW:
                self.faults_left -= 1
                self.actors[move.actor].clock.skew_ms = int(move.detail)
            case Kind.STEP:
                self._step(self.actors[move.actor])
            case _:
                self.faults_left -= 1
                self._fail(self.actors[move.actor], move.kind)

    def advance(self, duration_ms: int) -> None:
        """Let time pass for everybody. The platform kills what is past its deadline."""
        self.time.advance(duration_ms)
        self.under_way = [sent for sent in self.under_way if self._now < sent.until_ms]
        if self.scenario.killed_in_time:
            for actor in self.actors.values():
                if actor.until_ms is not None and actor.until_ms <= self._now:
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
        # What a write met follows from the writes before it.
        what = (event.transition, event.permitted) if isinstance(event, Wrote) else event
        self._order = hash((self._order, event.at_ms, event.actor, what))

    def _step(self, actor: Actor) -> None:
        command = actor.command
        if command is None:
            self.events.append(
                Asked(at_ms=self._now, actor=actor.name, fingerprint=actor.fingerprint)
            )
            actor.open()
            self._go_on(actor, None)
        elif isinstance(command, Write):
            self._go_on(actor, self._write(actor.name, command.transition))
        elif isinstance(command, Read):
            self._go_on(actor, self.store.read(command.pk))
        elif isinstance(command, Ask):
            self._go_on(actor, self._has_happened(command.operation_id))
        elif isinstance(command, Invoke):
            self._work(actor, command)

    def _work(self, actor: Actor, command: Invoke) -> None:
        # In two moves, so that a kill can fall between the effect and the handler's end.
        operation = command.operation
        if actor.result is not None:
            result, actor.result = actor.result, None
            self._say(Returned(at_ms=self._now, actor=actor.name))
            self._go_on(actor, result)
            return
        operation_id, number = operation.operation_id, operation.attempt
        self._say(
            Began(at_ms=self._now, actor=actor.name, operation_id=operation_id, attempt=number)
        )
        actor.result = actor.handle(operation)
        actor.trace = hash((actor.trace, "began", self._now))
        plan = actor.caller.plan if actor.caller is not None else Plan.SUCCEED
        if plan in AFFECTING:
            self._say(self._effect(actor, command))
        elif plan is Plan.TIME_OUT:
            self._send(actor, self._effect(actor, command))

    def _effect(self, actor: Actor, command: Invoke) -> Affected:
        return Affected(
            at_ms=self._now,
            actor=actor.name,
            operation_id=command.operation.operation_id,
            attempt=command.operation.attempt,
        )

    def _fail(self, actor: Actor, kind: Kind) -> None:
        command = actor.command
        if isinstance(command, Write):
            if kind is Kind.LOSE:
                self._write(actor.name, command.transition)
            elif kind in {Kind.DELAY, Kind.KILL}:
                self._send(actor, command.transition)
        elif isinstance(command, Invoke) and kind is Kind.KILL and actor.result is None:
            plan = actor.caller.plan if actor.caller is not None else Plan.SUCCEED
            if plan in AFFECTING or plan is Plan.TIME_OUT:
                self._send(actor, self._effect(actor, command))
        if kind is Kind.KILL:
            self._kill(actor)
        else:
            self._go_on(actor, StoreError(f"simulated: {kind}", transient=kind is not Kind.BREAK))

    def _send(self, actor: Actor, what: Transition | Affected) -> None:
        # The two assumptions about messages: an outside call arrives within the grace, a write
        # within the retention, or never.
        settings = self.scenario.settings
        is_effect = isinstance(what, Affected)
        longest_ms = settings.reconcile_grace_ms if is_effect else settings.retention_ms
        self.under_way.append(Sent(actor.name, what, self._now + longest_ms))

    def _land(self, sent: Sent) -> None:
        if isinstance(sent.what, Affected):
            what = sent.what
            self._say(
                Affected(
                    at_ms=self._now,
                    actor=sent.actor,
                    operation_id=what.operation_id,
                    attempt=what.attempt,
                )
            )
        else:
            self._write(sent.actor, sent.what, late=True)

    def _write(self, name: str, transition: Transition, *, late: bool = False) -> Written | Refused:
        before = self.store.read(transition.pk)
        reply = self.store.write(transition)
        self._say(
            Wrote(
                at_ms=self._now,
                actor=name,
                transition=transition,
                permitted=isinstance(reply, Written),
                before=before,
                after=self.store.read(transition.pk),
                late=late,
            )
        )
        return reply

    def _has_happened(self, operation_id: str) -> bool:
        return any(
            isinstance(event, Affected) and event.operation_id == operation_id
            for event in self.events
        )

    def _kill(self, actor: Actor) -> None:
        if not actor.is_over:
            actor.is_over = True
            self.events.append(Died(at_ms=self._now, actor=actor.name))

    def _go_on(self, actor: Actor, reply: object) -> None:
        """Give the flow its answer; pauses that it then asks for pass at once."""
        flow = actor.flow
        if flow is None:
            raise AssertionError(f"Bug: {actor.name} was answered before it began")
        actor.trace = hash((actor.trace, self._now, _digest(reply)))
        try:
            command = flow.throw(reply) if isinstance(reply, StoreError) else flow.send(reply)
            while isinstance(command, Pause):
                self.advance(command.duration_ms)
                if actor.is_over:
                    return
                command = flow.send(None)
        except StopIteration as end:
            actor.is_over = True
            self._end(actor, end.value)
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

    def _end(self, actor: Actor, outcome: object) -> None:
        if actor.caller is None:
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


def _digest(reply: object) -> int:
    # Exceptions are equal to themselves alone; how a handler ends follows from its plan.
    if isinstance(reply, StoreError | Answered | Raised):
        return hash((type(reply).__name__, str(reply) if isinstance(reply, StoreError) else ""))
    return hash(reply)
