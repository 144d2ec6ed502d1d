"""Which moves a schedule may make in a given state of the world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.flow.commands import Fetch, Read, ReadPauses, Save, Transact, Write
from oncekey.reconciler.escalation import TellPerson
from oncekey.record.record import Status
from oncekey.settlement.asking import AskResolver
from tests.simulation.provider import Call
from tests.simulation.scenario import Kind, Move, Until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from tests.simulation.actors import Actor
    from tests.simulation.world import World


def moves(world: World) -> list[Move]:
    """Every move that is possible now; none once all actors have come to their ends."""
    if world.is_over:
        return []
    found = [Move(Kind.STEP, name) for name, actor in world.actors.items() if not actor.is_over]
    found += [
        Move(Kind.LAND, sent.actor, str(number)) for number, sent in enumerate(world.under_way)
    ]
    if world.faults_left:
        found += _faults(world)
    if world.passes_left:
        found += [
            Move(Kind.ADVANCE, "", until)
            for until in world.scenario.passes
            if (target_ms := target_of(world, until)) and target_ms > world.time.now_ms()
        ]
    record = world.record
    if world.scenario.sweeps and record is not None and _is_sweepable(record, world.time.now_ms()):
        found.append(Move(Kind.SWEEP))
    return found


def _faults(world: World) -> Iterator[Move]:
    for name, actor in world.actors.items():
        if actor.is_over or actor.command is None:
            continue
        for kind in world.scenario.faults:
            if kind is Kind.KILL or _fails(actor, kind):
                yield Move(kind, name)
        for offset in world.scenario.skew_choices:
            if offset != actor.clock.skew_ms:
                yield Move(Kind.SKEW, name, str(offset))


def _fails(actor: Actor, kind: Kind) -> bool:
    match actor.command:
        case Write() | Transact() | Save():
            return True
        case AskResolver():
            # Whoever is asked and does not say does not know, whatever the reason.
            return kind is Kind.FAIL
        case TellPerson():
            return kind is not Kind.BREAK
        case Read() | ReadPauses() | Fetch():
            # A read that is late or lost is no more than one that failed.
            return kind in {Kind.FAIL, Kind.BREAK}
        case Call(is_awaited=True):
            # A handler that gets no answer knows nothing of the reason.
            return kind is not Kind.BREAK
        case _:
            return False


def target_of(world: World, until: Until) -> int | None:
    """The true time that such a passing of time leads to; None where nothing stored has one."""
    record = world.record
    if record is None:
        return None
    slack_ms = world.scenario.most_skew_ms + 1
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


def _is_sweepable(record: Record, now_ms: int) -> bool:
    # The broom knows nothing of states: it goes by the attribute alone.
    return record.expires_at_s is not None and record.expires_at_s <= now_ms // 1000
