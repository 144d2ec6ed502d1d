"""Pure verdicts over histories of accepted requests: their messages, their runs and their time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.engine.job import TOPIC
from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.transitions import Begin, Release, TimeOut
from tests.simulation.history import Affected, Began, Event, Told, Wrote
from tests.simulation.story import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.record import Record
    from tests.simulation.history import History


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Took(Event):
    """A worker took the message of the acceptance by this owner."""

    owner: str


def unrecorded_handlers_run_once(history: History) -> Iterator[Violation]:
    """A handler of unrecorded effects never runs again, unless it proved that it did nothing."""
    ran: dict[str, Began] = {}
    unrecorded: set[str] = set()
    for event in history.events:
        if isinstance(event, Wrote) and event.permitted and event.after is not None:
            if event.after.effects is Effects.UNRECORDED:
                unrecorded.add(event.after.operation_id)
            if isinstance(event.transition, Release):
                ran.pop(event.after.operation_id, None)
        elif isinstance(event, Began) and event.operation_id in unrecorded:
            if event.operation_id in ran:
                yield Violation("an unrecorded handler ran twice", (ran[event.operation_id], event))
            ran[event.operation_id] = event


def what_is_too_late_never_ran(history: History) -> Iterator[Violation]:
    """Nothing that is answered with a 408 has had an effect, or has one afterwards."""
    late = {
        write.after.operation_id: write
        for write in history.applied
        if isinstance(write.transition, TimeOut) and write.after is not None
    }
    for event in history.events:
        if isinstance(event, Affected) and event.operation_id in late:
            proof = (event, late[event.operation_id])
            yield Violation("what was not started in time took effect", proof)


def every_acceptance_has_its_message(history: History) -> Iterator[Violation]:
    """Each acceptance writes one message of it, under an id of its own; no other write does."""
    ids: set[str] = set()
    for event in history.events:
        if not isinstance(event, Wrote):
            continue
        jobs = [message for message in event.messages if message.topic == TOPIC]
        is_acceptance = event.permitted and _is_new_acceptance(event.before, event.after)
        told = [json.loads(message.payload)["owner"] for message in jobs]
        expected = [event.after.owner] if is_acceptance and event.after is not None else []
        if told != expected:
            yield Violation("an acceptance and its message are not one", (event,))
        if ids & {message.id for message in jobs}:
            yield Violation("two messages have one id", (event,))
        ids |= {message.id for message in jobs}


def _is_new_acceptance(before: Record | None, after: Record | None) -> bool:
    if after is None or after.status is not Status.PENDING:
        return False
    return before is None or before.status is not Status.PENDING or before.owner != after.owner


def superseded_messages_begin_nothing(history: History) -> Iterator[Violation]:
    """Whoever begins an acceptance has taken the message that tells of it."""
    took: dict[str, Took] = {}
    for event in history.events:
        if isinstance(event, Took):
            took[event.actor] = event
        elif isinstance(event, Wrote) and event.permitted and isinstance(event.transition, Begin):
            begun = event.before.owner if event.before is not None else ""
            taken = took.get(event.actor)
            # A client begins what is overdue only to put it back and have it accepted again.
            if taken is not None and taken.owner != begun:
                yield Violation("a superseded message began another acceptance", (taken, event))


def no_message_is_lost(history: History) -> Iterator[Violation]:
    """A message is acknowledged only when its acceptance is answered, or another has followed."""
    took: dict[str, Took] = {}
    begun: dict[str, str] = {}
    stored: Record | None = None
    for event in history.events:
        if isinstance(event, Took):
            took[event.actor] = event
        elif isinstance(event, Wrote) and event.permitted:
            stored = event.after
            if isinstance(event.transition, Begin) and event.before is not None:
                begun[event.transition.lease.owner] = event.before.owner
        elif isinstance(event, Told) and event.actor in took and is_acknowledged(event):
            owner = "" if stored is None else begun.get(stored.owner, stored.owner)
            is_open = stored is not None and stored.status is not Status.COMPLETED
            if is_open and owner == took[event.actor].owner:
                yield Violation("the message of open work was acknowledged", (event,))


def is_acknowledged(told: Told) -> bool:
    """Whether a worker that came to this lets the queue forget its message."""
    match told.outcome:
        case Replayed() | Ran(expires_at_s=int()) | Refusal(reason=Reason.SUPERSEDED):
            return True
    return False


JOBS = (
    unrecorded_handlers_run_once,
    what_is_too_late_never_ran,
    every_acceptance_has_its_message,
    superseded_messages_begin_nothing,
    no_message_is_lost,
)
