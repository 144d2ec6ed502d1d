"""What actors send to the store and to the provider, and what they get to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.errors import NotExecuted, StoreError
from oncekey.flow.commands import Answered, Invoke, Raised, Save, Transact, Write
from oncekey.outbox.relay_commands import CountTry, Delete, MarkTold, PutAside, Send
from oncekey.reconciler.escalation import TellPerson
from oncekey.settlement.resolvers import Completed
from tests.simulation.actors import AFFECTING
from tests.simulation.history import Affected
from tests.simulation.provider import Call, Known
from tests.simulation.scenario import Plan

if TYPE_CHECKING:
    from tests.simulation.actors import Actor
    from tests.simulation.watched_store import Stored

    Sendable = Stored | Affected | TellPerson | Send | Delete | CountTry | PutAside | MarkTold


# A relay's calls that change something.
RELAY_CALLS = (Send, Delete, CountTry, PutAside, MarkTold)


@dataclass(frozen=True, slots=True)
class Sent:
    """A write, a message, or an effect on the outside world, that is under way.

    `until_ms`: it arrives before then or never.
    """

    actor: str
    what: Sendable
    until_ms: int


def sent_by(actor: Actor) -> Sendable | None:
    """What the actor is sending at the moment: to the store, the provider or a person."""
    match actor.command:
        case TellPerson() as message:
            return message
        case Send() | Delete() | CountTry() | PutAside() | MarkTold() as call:
            return call
        case Write(what) | Transact(what) | Save(what) | Call(what):
            return what
        case Invoke(_, None) as invoke if actor.result is None:
            plan = actor.caller.plan if actor.caller is not None else Plan.SUCCEED
            is_affecting = plan in AFFECTING or plan is Plan.TIME_OUT
            return effect_of(actor, invoke) if is_affecting else None
    return None


def effect_of(actor: Actor, invoke: Invoke) -> Affected:
    """What a handler does to the outside world on its own."""
    operation = invoke.operation
    return Affected(
        at_ms=0,
        actor=actor.name,
        operation_id=operation.operation_id,
        attempt=operation.attempt,
        result="done",
    )


def digest(reply: object) -> int:
    """What a reply is to the flow that gets it."""
    # Exceptions are equal to themselves alone; how a handler ends follows from its plan.
    if isinstance(reply, StoreError | TimeoutError):
        return hash((type(reply).__name__, str(reply)))
    if isinstance(reply, Answered | Raised):
        return hash(type(reply).__name__)
    if isinstance(reply, Completed | NotExecuted | Known | list | set):
        return hash(repr(reply))
    return hash(reply)
