"""Verdicts over a whole service's run: each key by its own rules, and what holds between keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.outcome import Ran, Refusal, Replayed
from oncekey.record.record import Effects
from tests.simulation.checkers import SAFETY
from tests.simulation.checkers_of_answers import ANSWERS
from tests.simulation.checkers_of_effects import RECORDED
from tests.simulation.checkers_of_order import a_key_is_linearizable
from tests.simulation.checkers_of_statements import STATEMENTS, pauses_are_true
from tests.simulation.history import Affected, Began, Event, History, Swept, Told, Wrote
from tests.simulation.story import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, kw_only=True)
class ServiceHistory(History):
    """The events of a service's run. `keys` and `tenants` are whose key each actor used, by name.

    `consumed` has the key of the record under which each message is consumed, by its id.
    """

    keys: Mapping[str, str]
    tenants: Mapping[str, str]
    consumed: Mapping[str, str]

    def by_key(self) -> dict[str, History]:
        """The history of each key, as if there were no other."""
        found: dict[str, list[Event]] = {}
        for event in self.events:
            match event:
                case Wrote(transition=transition):
                    pk = transition.pk
                case Swept(record=record):
                    pk = record.pk
                case _:
                    pk = self.keys.get(event.actor, "")
            found.setdefault(pk, []).append(event)
        found.pop("", None)
        return {
            pk: History(events=tuple(events), circumstances=self.circumstances)
            for pk, events in found.items()
        }


def each_key_keeps_its_rules(history: ServiceHistory) -> Iterator[Violation]:
    """No rule of one key is broken."""
    for one in history.by_key().values():
        kinds = {write.after.effects for write in one.applied if write.after is not None}
        # A webhook's record is complete from the start, with its message.
        ran = any(isinstance(event, Began) for event in one.events)
        recorded = RECORDED if kinds == {Effects.RECORDED} and ran else ()
        for checker in (*SAFETY, *ANSWERS, *recorded, *STATEMENTS, a_key_is_linearizable):
            yield from checker(one)


def no_tenant_sees_anothers(history: ServiceHistory) -> Iterator[Violation]:
    """What a tenant's caller is told, and what is done for it, is of a record of that tenant."""
    owners: dict[str, str] = {}
    for write in history.applied:
        if write.after is not None:
            owners.setdefault(write.after.operation_id, write.after.tenant)
    for event in history.events:
        tenant = history.tenants.get(event.actor)
        for operation_id in _operations_of(event):
            if tenant is not None and owners.get(operation_id, tenant) != tenant:
                yield Violation("a tenant was shown another's operation", (event,))


def _operations_of(event: Event) -> list[str]:
    match event:
        case Told(outcome=Replayed(record=record) | Ran(record=record)):
            return [record.operation_id]
        case Told(outcome=Refusal(record=record)) if record is not None:
            return [record.operation_id]
        case Affected(operation_id=operation_id):
            return [operation_id]
    return []


def every_message_has_its_effect(history: ServiceHistory) -> Iterator[Violation]:
    """Each message of an applied commit is consumed. The rules of its key hold the rest."""
    done: dict[str, list[Affected]] = {}
    for effect in history.effects:
        done.setdefault(history.keys.get(effect.actor, ""), []).append(effect)
    for write in history.applied:
        for message in write.messages:
            pk = history.consumed.get(message.id)
            if pk is not None and not done.get(pk):
                yield Violation("a message was never consumed", (write,))


SERVICE = (
    each_key_keeps_its_rules,
    pauses_are_true,
    no_tenant_sees_anothers,
    every_message_has_its_effect,
)
