"""A whole service in one simulated world: its clients, tables, queue, workers and operators.

It is `World` with several keys and tenants. A queue delivers at least once and in any order; the
outbox's stream delivers a batch again from its lowest failure on; a sandbox carries out one
invocation after the other and keeps what it remembers in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.engine.job import TOPIC
from oncekey.outbox.relay import OutboxRelay
from oncekey.record.commit import Commit
from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from oncekey.record.transitions import Begin, Enqueue, Reserve, Resume, TakeOver
from tests.simulation.checkers_of_services import ServiceHistory
from tests.simulation.history import Died, Swept
from tests.simulation.scenario import AFTER_LEASE_MS, Kind, Move, Scenario
from tests.simulation.story import IN_DOUBT
from tests.simulation.system_actors import (
    Client,
    Sandbox,
    ServiceActor,
    Worker,
    consumer_of,
)
from tests.simulation.world import World
from tests.support.memory_outbox import MemoryOutbox
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oncekey.clock import Clock
    from oncekey.record.message import Message
    from oncekey.record.record import Record
    from oncekey.store.sqs import Entry, Rejected
    from oncekey.testing.memory import ManualClock
    from tests.simulation.actors import Actor
    from tests.simulation.scenario import Caller
    from tests.simulation.under_way import Sendable

# A failed message comes again after it; the worker's shortest delay.
AGAIN_MS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceScenario(Scenario):
    """Who takes part in a service. With `caches` its sandboxes remember answers."""

    caches: bool = False


@dataclass(slots=True)
class InQueue:
    """A copy of a message in the queue, and until when it is hidden from others."""

    body: str
    hidden_until_ms: int = 0
    receives: int = 0


@dataclass(slots=True)
class Queue:
    """A standard queue: at least once, in any order.

    Even a message that was deleted may be delivered again: a server that was not reached still has
    its copy.
    """

    time: ManualClock
    hides_for_ms: int
    messages: list[InQueue] = field(default_factory=list)
    deleted: list[InQueue] = field(default_factory=list)
    is_fifo: bool = False

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """It takes everything."""
        self.messages += [InQueue(entry.body) for entry in entries]
        return []

    @property
    def visible(self) -> list[InQueue]:
        """What a worker may get now."""
        now_ms = self.time.now_ms()
        return [each for each in self.messages if each.hidden_until_ms <= now_ms]

    def receive(self, number: int) -> InQueue | None:
        """One of the visible messages, which is then hidden; None if there is none."""
        visible = self.visible
        if not visible:
            return None
        taken = visible[number % len(visible)]
        taken.receives += 1
        taken.hidden_until_ms = self.time.now_ms() + self.hides_for_ms
        return taken

    def delete(self, taken: InQueue) -> None:
        """The message is done."""
        self.messages = [each for each in self.messages if each is not taken]
        self.deleted.append(taken)

    @property
    def hidden(self) -> list[InQueue]:
        """What may be delivered though no worker should get it now: in hand, or deleted."""
        now_ms = self.time.now_ms()
        return [each for each in self.messages if each.hidden_until_ms > now_ms] + self.deleted

    def deliver_again(self, number: int) -> None:
        """Show one of the hidden messages to the workers."""
        again = self.hidden[number]
        again.hidden_until_ms = self.time.now_ms()
        if any(each is again for each in self.deleted):
            self.deleted = [each for each in self.deleted if each is not again]
            self.messages.append(again)


@dataclass(slots=True)
class Stream:
    """What the outbox's stream has not delivered yet, and what a relay has in its hands."""

    waiting: list[Message] = field(default_factory=list)
    in_hand: dict[str, list[Message]] = field(default_factory=dict)

    def take(self, name: str) -> list[Message]:
        """All that waits, for the relay of this name."""
        self.in_hand[name], self.waiting = self.waiting, []
        return self.in_hand[name]

    def done(self, name: str, failed: Sequence[Message]) -> None:
        """The relay has answered: what failed is delivered again, before all else."""
        self.in_hand.pop(name, None)
        self.waiting = [*failed, *self.waiting]

    def died(self, name: str) -> None:
        """The relay is dead: its batch is delivered again."""
        self.done(name, self.in_hand.get(name, []))


class Service(World):
    """One run of a service."""

    actor_type = ServiceActor

    def __init__(self, scenario: ServiceScenario) -> None:
        # Nobody explores all of a service: there is no digest of its queue and its sandboxes.
        super().__init__(scenario, digests=False)
        settings = scenario.settings
        hides_for_ms = max(each.remaining_ms for each in scenario.callers)
        self.queue = Queue(self.time, hides_for_ms + settings.lease_margin_ms + AFTER_LEASE_MS)
        self.outbox = MemoryOutbox()
        self.stream = Stream()
        self.caches = scenario.caches
        self.is_old = False
        self._sandboxes: dict[str, Sandbox] = {}
        self._sent = 0

    def add(self, who: Caller | str) -> Actor:
        """See `World.add`."""
        actor = super().add(who)
        assert isinstance(actor, ServiceActor)
        actor.service = self
        if isinstance(who, Client):
            actor.identity = who.identity
        return actor

    def sandbox(self, name: str) -> Sandbox:
        """The sandbox of this name, made when it is first used."""
        if name not in self._sandboxes:
            self._sandboxes[name] = Sandbox()
        return self._sandboxes[name]

    def relay(self, clock: Clock) -> OutboxRelay:
        """A relay in a sandbox of its own."""
        queue: Any = self.queue
        return OutboxRelay(table=self.outbox, queue=queue, clock=clock)

    def due(self, now_ms: int) -> list[str]:
        """What the index shows to a reconciler."""
        due = [each for each in self.records if each.due is not None and each.due.at_ms < now_ms]
        return [each.pk for each in sorted(due, key=lambda each: (each.due.at_ms, each.pk))]  # type: ignore[union-attr]

    def open_keys(self) -> list[str]:
        """The keys of what runs, waits or is unknown."""
        return [each.pk for each in self.records if each.status in IN_DOUBT]

    def client_of(self, pk: str) -> Client:
        """A client that uses this key."""
        return next(
            each
            for each in self.scenario.callers
            if isinstance(each, Client) and each.identity.pk == pk
        )

    def bust(self, record: Record) -> None:
        """Delete a settled record if nobody has written it since it was read."""
        if self.store.records.get(record.pk) == record:
            del self.store.records[record.pk]
            self._say(Swept(at_ms=self._now, actor="operator", record=record))

    def is_busy(self, actor: Actor) -> bool:
        """Whether the sandbox that this invocation is for still has another."""
        name = getattr(actor.caller, "sandbox", "")
        return bool(name) and any(
            other is not actor
            and not other.is_over
            and other.command is not None
            and getattr(other.caller, "sandbox", "") == name
            for other in self.actors.values()
        )

    def is_for_nothing(self, actor: Actor) -> bool:
        """Whether this invocation would find nothing to do: the platform does not begin it yet."""
        if isinstance(actor.caller, Worker):
            return not self.queue.visible
        return actor.name.startswith("relay") and not self.stream.waiting

    def steps(self) -> list[Move]:
        """See `World.steps`. An invocation waits for its sandbox, and for what it is there for."""
        found, waiting = [], []
        for move in super().steps():
            actor = self.actors[move.actor]
            if actor.command is not None:
                found.append(move)
            elif self.is_for_nothing(actor):
                waiting.append(move)
            elif not self.is_busy(actor):
                found.append(move)
        # Once nobody else goes on, nothing will come for those who wait.
        return found or waiting

    def moves(self) -> list[Move]:
        """See `World.moves`."""
        found = super().moves()
        if found and self.faults_left:
            faults = self.scenario.faults
            if Kind.ROLL in faults:
                found.append(Move(Kind.ROLL))
            if Kind.REDELIVER in faults:
                found += [
                    Move(Kind.REDELIVER, "", str(number))
                    for number in range(len(self.queue.hidden))
                ]
        return found

    def take(self, move: Move) -> None:
        """See `World.take`."""
        if move.kind is Kind.ROLL:
            self.faults_left -= 1
            self.is_old = not self.is_old
        elif move.kind is Kind.REDELIVER:
            self.faults_left -= 1
            self.queue.deliver_again(int(move.detail))
        else:
            super().take(move)

    def _carry_out(self, name: str, what: Sendable | None, *, late: bool = False) -> object:
        actor = self.actors[name]
        if isinstance(actor, ServiceActor) and actor.is_old:
            what = of_the_release_before(what)
        reply = super()._carry_out(name, what, late=late)
        new = self.store.messages[self._sent :]
        self._sent += len(new)
        self.outbox.messages.update({message.id: message for message in new})
        self.stream.waiting += new
        return reply

    def _kill(self, actor: Actor) -> None:
        super()._kill(actor)
        self.stream.died(actor.name)

    def _end(self, actor: Actor, outcome: object) -> None:
        assert isinstance(actor, ServiceActor)
        if isinstance(actor.caller, Worker) and actor.took is None:
            # It came for nothing.
            self.events.append(Died(at_ms=self._now, actor=actor.name))
        elif type(actor.caller) in {Client, Worker}:
            super()._end(actor, outcome)
        else:
            actor.outcome = outcome
            self.events.append(Died(at_ms=self._now, actor=actor.name))
            self.stream.died(actor.name)
        if actor.took is not None:
            if is_done(outcome):
                self.queue.delete(actor.took)
            else:
                actor.took.hidden_until_ms = self._now + AGAIN_MS

    def history(self) -> ServiceHistory:
        """See `World.history`."""
        actors = [each for each in self.actors.values() if isinstance(each, ServiceActor)]
        served = [each for each in actors if each.caller is not None]
        return ServiceHistory(
            events=tuple(self.events),
            circumstances=replace(self.circumstances, remembers=self.caches),
            keys={each.name: each.identity.pk for each in served},
            tenants={
                each.name: getattr(each.caller, "tenant", each.identity.tenant) for each in served
            },
            consumed={
                message.id: consumer_of(message).pk
                for message in self.store.messages
                if message.topic != TOPIC
            },
        )


def is_done(outcome: object) -> bool:
    """Whether a worker that came to this lets the queue forget its message."""
    match outcome:
        case Replayed() | Refusal(reason=Reason.SUPERSEDED):
            return True
        case Ran(expires_at_s=until_s, is_done=done):
            return until_s is not None or done
    return False


def of_the_release_before(what: Any) -> Any:
    """The same write by a release whose records had no policy and no trace."""
    if isinstance(what, Commit):
        return replace(
            what,
            transition=of_the_release_before(what.transition),
            messages=tuple(replace(each, traceparent="") for each in what.messages),
        )
    match what:
        case Reserve(record=record):
            return replace(what, record=replace(record, policy=None, traceparent=""))
        case Resume(lease=lease) | TakeOver(lease=lease) | Begin(lease=lease):
            return replace(what, lease=replace(lease, policy=None))
        case Enqueue(waiting=waiting):
            return replace(what, waiting=replace(waiting, policy=None))
    return what
