"""Pure verdicts over a history: each names a rule, and proves its breach by a story.

`tests/simulation/checkers_of_answers.py` has the rules about what callers are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.record import SETTLED, Record, Status
from oncekey.record.transitions import (
    Complete,
    ExpireLease,
    MarkUnknown,
    Release,
    Reserve,
    Settle,
    SettleStep,
    StepTransition,
    TakeOver,
)
from tests.simulation.history import (
    Asked,
    Began,
    Died,
    Held,
    Returned,
    Swept,
    Told,
    Wrote,
)
from tests.simulation.story import (
    IN_DOUBT,
    Violation,
    false_settlements,
    is_grant,
    is_half_done,
    unrecorded_operations,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.history import Event, History


def at_most_one_effect(history: History) -> Iterator[Violation]:
    """An operation of unrecorded handlers has one effect, unless a settlement denied it falsely."""
    once = unrecorded_operations(history)
    once -= {effect.operation_id for _, effect in false_settlements(history)}
    effects: dict[str, list[Event]] = {}
    for event in history.effects:
        if event.operation_id in once:
            effects.setdefault(event.operation_id, []).append(event)
    for found in effects.values():
        if len(found) > 1:
            yield Violation("an unrecorded operation had more than one effect", tuple(found))


def settlements_are_true(history: History) -> Iterator[Violation]:
    """After lease and grace, nothing that was denied happens, if clocks agree and owners die."""
    if history.circumstances.owners_die_in_time:
        for write, effect in false_settlements(history):
            yield Violation("what a settlement denied has happened", (write, effect))


def runs_do_not_overlap(history: History) -> Iterator[Violation]:
    """No attempt begins, and none is displaced, while another may still run.

    This holds where clocks agree and invocations are killed in time.
    """
    if not history.circumstances.owners_die_in_time:
        return
    alive: dict[str, Asked] = {}
    running: dict[str, Began] = {}
    owners: dict[str, str] = {}
    for event in history.events:
        if isinstance(event, Asked):
            alive[event.actor] = event
        elif isinstance(event, Told | Died | Returned):
            running.pop(event.actor, None)
            if not isinstance(event, Returned):
                alive.pop(event.actor, None)
        elif isinstance(event, Began):
            for other in running.values():
                if other.operation_id == event.operation_id:
                    yield Violation("two attempts run at once", (other, event))
            running[event.actor] = event
        elif isinstance(event, Wrote) and event.permitted:
            owner = owners.get(event.before.owner) if event.before is not None else None
            if isinstance(event.transition, TakeOver | ExpireLease) and owner in alive:
                yield Violation("a living owner was displaced", (alive[owner], event))
            if is_grant(event) and event.after is not None:
                owners[event.after.owner] = event.actor


def handlers_run_under_a_lease(history: History) -> Iterator[Violation]:
    """Whoever goes on to its handler holds, as stored, the open lease for its own request."""
    stored: Record | None = None
    granted_to = ""
    asked: dict[str, Asked] = {}
    for event in history.events:
        if isinstance(event, Asked):
            asked[event.actor] = event
        elif isinstance(event, Wrote):
            if event.permitted:
                stored = event.after
                granted_to = event.actor if is_grant(event) else granted_to
        elif isinstance(event, Held):
            request = asked[event.actor]
            if (
                stored is None
                or stored.status is not Status.IN_PROGRESS
                or stored.operation_id != event.operation_id
                or granted_to != event.actor
            ):
                yield Violation("a handler is to run without the lease", (request, event))
            elif stored.fingerprint != request.fingerprint:
                rule = "a handler is to run under another request's record"
                yield Violation(rule, (request, event))
            elif stored.is_lease_over(event.own_ms):
                yield Violation("a handler is to run after its lease", (request, event))


def only_its_owner_ends_an_attempt(history: History) -> Iterator[Violation]:
    """An attempt, or a step of it, is ended by the actor to whom it was granted, or a settler."""
    granted: Wrote | None = None
    for write in history.applied:
        if is_grant(write):
            granted = write
        elif isinstance(write.transition, Settle | SettleStep):
            granted = None
        elif isinstance(write.transition, Complete | Release | MarkUnknown | StepTransition):
            if granted is None:
                yield Violation("an attempt was ended after its settlement", (write,))
            elif granted.actor != write.actor:
                yield Violation("an attempt was ended by another actor", (granted, write))


def refused_writes_change_nothing(history: History) -> Iterator[Violation]:
    """A refused write leaves what is stored as it was."""
    for event in history.events:
        if isinstance(event, Wrote) and not event.permitted and event.before != event.after:
            yield Violation("a refused write changed the record", (event,))


def revisions_grow_by_one(history: History) -> Iterator[Violation]:
    """Each write to a record counts once; a new life of the record begins at one."""
    for write in history.applied:
        begins = isinstance(write.transition, Reserve) or write.before is None
        expected = 1 if begins or write.before is None else write.before.rev + 1
        if write.after is None or write.after.rev != expected:
            yield Violation("the revision did not grow by one", (write,))


def nothing_in_doubt_expires(history: History) -> Iterator[Violation]:
    """What is in doubt or half done has no expiry, and is never deleted or overwritten."""
    for event in history.events:
        if isinstance(event, Wrote) and event.permitted:
            after = event.after
            if after is not None and _must_stay(after) and after.expires_at_s is not None:
                yield Violation("a record in doubt carries an expiry", (event,))
            lost = event.before if isinstance(event.transition, Reserve) else None
            if lost is not None and _must_stay(lost):
                yield Violation("a record in doubt was overwritten", (event,))
        elif isinstance(event, Swept) and _must_stay(event.record):
            yield Violation("a record in doubt was deleted", (event,))


def _must_stay(record: Record) -> bool:
    return record.status not in SETTLED or is_half_done(record)


def everything_in_doubt_is_due(history: History) -> Iterator[Violation]:
    """What is in doubt says when somebody must look at it; what is settled does not.

    What may run again says so exactly if it has no expiry.
    """
    for write in history.applied:
        after = write.after
        if after is None:
            continue
        is_kept = after.status is Status.FAILED_RETRYABLE and after.expires_at_s is None
        if (after.due is not None) is not (after.status in IN_DOUBT or is_kept):
            yield Violation("a record is due when it should not be, or the reverse", (write,))


def stored_answers_stay(history: History) -> Iterator[Violation]:
    """A stored answer is never changed, but for a new life after its expiry."""
    for write in history.applied:
        before = write.before
        if before is None or before.status is not Status.COMPLETED:
            continue
        latest_ms = write.at_ms + history.circumstances.most_skew_ms
        if not isinstance(write.transition, Reserve) or not before.is_expired(latest_ms):
            yield Violation("a stored answer was changed", (write,))


def ids_are_reserved_once(history: History) -> Iterator[Violation]:
    """An operation's id is reserved again only after its record was deleted, by what outlived that.

    After an operator's deletion, that is any reservation that was under way. After the retention,
    it is what its dead caller had sent, or a caller that no platform kills in time.
    """
    forgotten: dict[str, Swept] = {}
    reserved: dict[str, Wrote] = {}
    for event in history.events:
        if isinstance(event, Swept):
            forgotten[event.record.operation_id] = event
        elif isinstance(event, Wrote) and event.permitted and isinstance(event.transition, Reserve):
            operation_id = event.transition.record.operation_id
            before = reserved.get(operation_id)
            reserved[operation_id] = event
            if before is None:
                continue
            deletion = forgotten.pop(operation_id, None)
            is_by_hand = deletion is not None and deletion.actor != ""
            if before.actor != event.actor:
                yield Violation("an id was reserved by another actor", (before, event))
            elif deletion is None and event.before is None:
                yield Violation("an id was reserved again without a deletion", (before, event))
            elif not (is_by_hand or event.late) and history.circumstances.killed_in_time:
                yield Violation("an id was reserved again", (before, event))


SAFETY = (
    at_most_one_effect,
    settlements_are_true,
    runs_do_not_overlap,
    handlers_run_under_a_lease,
    only_its_owner_ends_an_attempt,
    refused_writes_change_nothing,
    revisions_grow_by_one,
    nothing_in_doubt_expires,
    everything_in_doubt_is_due,
    stored_answers_stay,
    ids_are_reserved_once,
)
