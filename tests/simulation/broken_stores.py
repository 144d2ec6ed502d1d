"""Stores and clocks, each with one protection removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record import rules as transition_rules
from oncekey.record.record import Effects, Record, Status
from oncekey.record.transitions import (
    Complete,
    ExpireLease,
    MarkUnknown,
    Release,
    Reserve,
    Resume,
    Settle,
    TakeOver,
    Transition,
)
from oncekey.store.store import Refused, Written
from oncekey.testing.memory import MemoryStore
from tests.simulation.actors import ActorClock
from tests.simulation.broken_flows import is_old
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.commit import Commit

    Condition = Callable[[Transition, Record | None], bool]
    Update = Callable[[Transition, Record | None], Record]


class BrokenStore(MemoryStore):
    """A store with a condition, or with an update, that differs from the rules."""

    def __init__(
        self,
        permitted: Condition = transition_rules.permitted,
        applied: Update = transition_rules.applied,
    ) -> None:
        super().__init__()
        self._permitted = permitted
        self._applied = applied

    def write(self, transition: Transition) -> Written | Refused:
        """See `oncekey.store.store.Store.write`."""
        record = self.records.get(transition.pk)
        if not self._permitted(transition, record):
            return Refused(record)
        self.records[transition.pk] = self._applied(transition, record)
        return Written()

    def commit(self, commit: Commit) -> Written | Refused:
        """See `oncekey.store.store.Store.commit`; conditions of authors always hold."""
        assert commit.transition is not None
        reply = self.write(commit.transition)
        if isinstance(reply, Written):
            self.writes += commit.writes
            self.messages += commit.messages
        return reply


def owner_ignored(transition: Transition, record: Record | None) -> bool:
    """Complete, Release and MarkUnknown by whoever comes."""
    if isinstance(transition, Complete | Release | MarkUnknown) and record is not None:
        transition = replace(transition, owner=record.owner)
    return transition_rules.permitted(transition, record)


def state_ignored(transition: Transition, record: Record | None) -> bool:
    """Complete whatever the state, as long as the owner is right."""
    if isinstance(transition, Complete) and record is not None:
        return record.owner == transition.owner
    return transition_rules.permitted(transition, record)


def any_take_over(transition: Transition, record: Record | None) -> bool:
    """TakeOver without a lease that is over, and without owner and rev."""
    if isinstance(transition, TakeOver) and record is not None:
        return record.status is Status.IN_PROGRESS
    return transition_rules.permitted(transition, record)


def any_expire_lease(transition: Transition, record: Record | None) -> bool:
    """ExpireLease without a lease that is over, and without owner and rev."""
    if isinstance(transition, ExpireLease) and record is not None:
        return record.status is Status.IN_PROGRESS
    return transition_rules.permitted(transition, record)


def any_resume(transition: Transition, record: Record | None) -> bool:
    """Resume of whatever is there, running or not."""
    if isinstance(transition, Resume) and record is not None:
        return True
    return transition_rules.permitted(transition, record)


def resume_without_version(transition: Transition, record: Record | None) -> bool:
    """Resume of whatever failed, without owner and rev."""
    if isinstance(transition, Resume) and record is not None:
        return record.status is Status.FAILED_RETRYABLE
    return transition_rules.permitted(transition, record)


def unrecorded_taken_over(transition: Transition, record: Record | None) -> bool:
    """TakeOver whatever the effects."""
    if isinstance(transition, TakeOver) and record is not None:
        record = replace(record, effects=Effects.REPEATABLE)
    return transition_rules.permitted(transition, record)


def expiry_without_status(transition: Transition, record: Record | None) -> bool:
    """Reserve over anything old, settled or not."""
    if isinstance(transition, Reserve) and record is not None and is_old(record, transition.now_ms):
        return True
    return transition_rules.permitted(transition, record)


def reserve_unconditional(transition: Transition, record: Record | None) -> bool:
    """Reserve over what is there."""
    return isinstance(transition, Reserve) or transition_rules.permitted(transition, record)


def expiry_kept(transition: Transition, record: Record | None) -> Record:
    """Resume leaves the failure's expiry on what runs again."""
    after = transition_rules.applied(transition, record)
    if isinstance(transition, Resume) and record is not None:
        return replace(after, expires_at_s=record.expires_at_s)
    return after


def owner_kept_by_settlement(transition: Transition, record: Record | None) -> Record:
    """A settlement leaves the late owner's token on the record."""
    if isinstance(transition, Settle) and record is not None:
        transition = replace(transition, new_owner=record.owner)
    return transition_rules.applied(transition, record)


def revision_stays(transition: Transition, record: Record | None) -> Record:
    """Resume does not count."""
    after = transition_rules.applied(transition, record)
    return replace(after, rev=after.rev - 1) if isinstance(transition, Resume) else after


class ClearingStore(MemoryStore):
    """A refused duplicate clears up what it never held."""

    def write(self, transition: Transition) -> Written | Refused:
        """See `oncekey.store.store.Store.write`."""
        reply = super().write(transition)
        if isinstance(reply, Refused) and isinstance(transition, Reserve):
            self.records.pop(transition.pk, None)
        return reply


class OwnerFromRequest(ActorClock):
    """Equal requests have equal owners."""

    def new_owner(self) -> str:
        """The same for every attempt."""
        return "owner-of-the-request"


class OperationIdFromKey(ActorClock):
    """The operation id outlives the record."""

    def new_operation_id(self) -> str:
        """The same for every life of the record."""
        return "00000000-0000-4000-8000-000000000000"
