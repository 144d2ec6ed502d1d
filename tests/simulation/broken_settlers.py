"""Those who settle, each with one protection removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.reconciler.decisions import Visitor
from oncekey.reconciler.visits import Visits
from oncekey.reconciler.writes import Writes
from oncekey.record import rules as transition_rules
from oncekey.record.record import Record, Status
from oncekey.record.rules import applied
from oncekey.record.transitions import Settle
from oncekey.settlement.settlement import Settler
from tests.support.replacing import replace

if TYPE_CHECKING:
    import pytest

    from oncekey.reconciler.decisions import Visit
    from oncekey.record.transitions import ExpireLease, Reschedule, TimeOut, Transition


def margin_ignored(patch: pytest.MonkeyPatch) -> None:
    """The reconciler takes the deadline for the end of the lease."""
    original = Visits._visitor

    def visitor(self: Visits) -> Visitor:
        found = original(self)
        return replace(found, now_ms=found.now_ms + self.settings.lease_margin_ms)

    patch.setattr(Visits, "_visitor", visitor)


def asked_at_any_time(patch: pytest.MonkeyPatch) -> None:
    """The reconciler asks about what is in doubt, though it is not due by its clock."""
    original = Visitor.visit

    def visit(self: Visitor, record: Record) -> Visit:
        if record.status is Status.UNKNOWN and record.due is not None:
            return original(replace(self, now_ms=record.due.at_ms + 1), record)
        return original(self, record)

    patch.setattr(Visitor, "visit", visit)
    patch.setattr(Settler, "_is_too_early", lambda _self, _record, _at_ms: False)


def old_denial_believed(patch: pytest.MonkeyPatch) -> None:
    """What was found out before an attempt began is believed of this attempt."""
    original = Settler._is_too_early
    patch.setattr(
        Settler,
        "_is_too_early",
        lambda self, record, _at_ms: original(self, record, self.clock.now_ms()),
    )


def turn_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """Whoever is refused a turn goes on as if it had taken it."""
    original = Writes.take

    async def take(
        self: Writes, record: Record, transition: Reschedule | ExpireLease | TimeOut
    ) -> Record | None:
        await original(self, record, transition)
        return applied(transition, record)

    patch.setattr(Writes, "take", take)


def settled_for_anybody(transition: Transition, record: Record | None) -> bool:
    """Settle of an attempt that nobody has asked about."""
    if isinstance(transition, Settle) and record is not None:
        transition = replace(transition, seen_owner=record.owner)
    return transition_rules.permitted(transition, record)
