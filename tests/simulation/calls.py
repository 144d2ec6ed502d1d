"""What becomes of an actor's calls: carried out, or lost, late, refused, slow or twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.flow.commands import Fetch, Read, ReadPauses
from oncekey.outbox.relay_commands import ReadPage
from oncekey.reconciler.escalation import NotSent, TellPerson
from oncekey.settlement.asking import AskResolver
from oncekey.settlement.resolvers import StillUnknown
from tests.simulation.history import Looked
from tests.simulation.provider import Call
from tests.simulation.scenario import SLOW_MS, Kind
from tests.simulation.under_way import sent_by

if TYPE_CHECKING:
    from tests.simulation.actors import Actor
    from tests.simulation.world import World


def reply_to(world: World, actor: Actor) -> object:
    """What a call of the store or the provider comes to when it is carried out now."""
    match actor.command:
        case Read(pk=pk):
            return world.store.read(pk)
        case ReadPauses():
            pauses = world.store.pauses()
            now_ms = world.time.now_ms()
            looked = Looked(at_ms=now_ms, actor=actor.name, is_paused=bool(pauses))
            # It is in no order with what others do: the actor's trace holds what it read.
            world.events.append(looked)
            return pauses
        case Fetch(at=at):
            return world.store.fetch(at)
        case ReadPage() as page:
            return page.carry_out()
    return world._carry_out(actor.name, sent_by(actor))


def fail(world: World, actor: Actor, kind: Kind) -> None:
    """A fault of this kind happens to what the actor is about to do."""
    what = sent_by(actor)
    if kind in {Kind.SLOW, Kind.DUPLICATE}:
        if kind is Kind.DUPLICATE and what is not None:
            world._send(actor, what)
        reply = reply_to(world, actor)
        if kind is Kind.SLOW:
            world.advance(SLOW_MS)
        if not actor.is_over:
            world._go_on(actor, reply)
        return
    if what is not None and kind is Kind.LOSE:
        world._carry_out(actor.name, what)
    elif what is not None and kind in {Kind.DELAY, Kind.KILL}:
        world._send(actor, what)
    if kind is Kind.KILL:
        world._kill(actor)
    elif isinstance(actor.command, AskResolver):
        world._go_on(actor, StillUnknown())
    elif isinstance(actor.command, TellPerson) and kind is Kind.FAIL:
        world._go_on(actor, NotSent("simulated: not sent", transient=True))
    elif isinstance(actor.command, Call):
        world._go_on(actor, TimeoutError(f"simulated: {kind}"))
    else:
        is_throttled = kind is Kind.THROTTLE
        error = StoreError(
            f"simulated: {kind}",
            transient=kind is not Kind.BREAK,
            contention="throttled" if is_throttled else None,
        )
        world._go_on(actor, error)
