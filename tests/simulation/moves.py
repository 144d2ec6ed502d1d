"""Which moves a schedule may make in a given state of the world."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from oncekey.flow.commands import Fetch, Read, ReadPauses, Save, Transact, Write
from oncekey.outbox.relay_commands import CountTry, Delete, MarkTold, PutAside, ReadPage, Send
from oncekey.reconciler.escalation import TellPerson
from oncekey.record.record import Status
from oncekey.settlement.asking import AskResolver
from tests.simulation.provider import Call
from tests.simulation.scenario import Kind, Move, Until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from tests.simulation.actors import Actor
    from tests.simulation.scenario import Scenario
    from tests.simulation.world import World


def moves(world: World) -> list[Move]:
    """Every move that is possible now; none once all actors have come to their ends."""
    if world.is_over:
        return []
    found = world.steps()
    found += [
        _move(Kind.LAND, sent.actor, str(number)) for number, sent in enumerate(world.under_way)
    ]
    for actor in world.actors.values():
        if actor.is_frozen:
            found.append(_move(Kind.THAW, actor.name))
        elif world.faults_left and actor.command is not None and not actor.is_over:
            found += _faults(world.scenario, actor)
    records, now_ms = world.records, world.time.now_ms()
    if world.passes_left and records:
        found += [
            _move(Kind.ADVANCE, "", until)
            for until in world.scenario.passes
            if (target_of(world, until) or 0) > now_ms
        ]
    if world.scenario.sweeps and any(is_sweepable(record, now_ms) for record in records):
        found.append(_move(Kind.SWEEP))
    return found


def steps(world: World) -> list[Move]:
    """The moves that are always possible: each actor's next command is carried out."""
    return [actor.step for actor in world.actors.values() if not (actor.is_over or actor.is_frozen)]


# Of all the moves of a run there are few, and making one takes longer than finding it.
_move = lru_cache(maxsize=10_000)(Move)


def _faults(scenario: Scenario, actor: Actor) -> Iterator[Move]:
    possible = _possible(actor.command)
    for kind in scenario.faults:
        if kind in possible:
            yield _move(kind, actor.name)
    for offset in scenario.skew_choices:
        if offset != actor.clock.skew_ms:
            yield _move(Kind.SKEW, actor.name, str(offset))


_ALWAYS = frozenset({Kind.KILL, Kind.FREEZE})
_READ = _ALWAYS | {Kind.FAIL, Kind.BREAK, Kind.THROTTLE, Kind.SLOW}
_SENT = _READ | {Kind.LOSE, Kind.DELAY, Kind.DUPLICATE}
# A handler that gets no answer knows nothing of the reason.
_CALL = _SENT - {Kind.BREAK, Kind.THROTTLE}
_POSSIBLE: dict[type, frozenset[Kind]] = {
    **dict.fromkeys((Write, Transact, Save), _SENT),
    # Whoever is asked and does not say does not know, whatever the reason.
    AskResolver: _ALWAYS | {Kind.FAIL},
    TellPerson: _SENT - {Kind.BREAK, Kind.THROTTLE},
    # A read that is late or lost is no more than one that failed.
    **dict.fromkeys((Read, ReadPauses, Fetch, ReadPage), _READ),
    **dict.fromkeys((Send, Delete, CountTry, PutAside, MarkTold), _SENT),
}


def _possible(command: Any) -> frozenset[Kind]:
    """What may go wrong with a command. All else is carried out, or its actor dies or freezes."""
    if isinstance(command, Call):
        if not command.is_awaited:
            return _ALWAYS
        # Only a provider that knows the key of a call can tell that it has come twice.
        return _CALL if command.effect.key else _CALL - {Kind.DUPLICATE}
    return _POSSIBLE.get(type(command), _ALWAYS)


def target_of(world: World, until: Until) -> int | None:
    """The true time that such a passing of time leads to; None where nothing stored has one.

    Of several records it is the next.
    """
    found = [
        target_ms
        for record in world.records
        if (target_ms := _target(world, record, until)) is not None
    ]
    now_ms = world.time.now_ms()
    return min((each for each in found if each > now_ms), default=max(found, default=None))


def _target(world: World, record: Record, until: Until) -> int | None:
    slack_ms = world.circumstances.most_skew_ms + 1
    match until:
        case Until.LEASE | Until.LEASE_EDGE:
            if record.lease_until_ms is None or record.status is not Status.IN_PROGRESS:
                return None
            is_edge = until is Until.LEASE_EDGE
            return record.lease_until_ms + (2 - slack_ms if is_edge else slack_ms)
        case Until.MARGIN:
            if record.lease_until_ms is None or record.status is not Status.IN_PROGRESS:
                return None
            return record.lease_until_ms - world.scenario.settings.lease_margin_ms + 2 - slack_ms
        case Until.DUE:
            return record.due.at_ms + slack_ms if record.due is not None else None
        case Until.RETENTION:
            expires_at_s = record.expires_at_s
            return expires_at_s * 1000 + slack_ms if expires_at_s is not None else None
        case Until.AGE:
            return record.created_at_ms + world.scenario.settings.retention_ms + slack_ms


def is_sweepable(record: Record, now_ms: int) -> bool:
    """Whether DynamoDB may delete it."""
    # The broom knows nothing of states: it goes by the attribute alone.
    return record.expires_at_s is not None and record.expires_at_s <= now_ms // 1000
