"""What holds recorded effects together, each with one protection removed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from oncekey.effects import disposition, journal
from oncekey.engine import engine
from oncekey.engine.recorded_interruption import Interruption
from oncekey.engine.recorded_recorder import RecordedRecorder
from oncekey.flow import retry
from oncekey.record import rules as transition_rules
from oncekey.record.outcome import Ran
from oncekey.record.rules import applied
from oncekey.record.transitions import (
    ClearStep,
    Complete,
    Ending,
    ExpireLease,
    Release,
    Settle,
    SettleStep,
    StartStep,
    TakeOver,
    seen,
)
from oncekey.settlement.resolvers import Completed
from oncekey.settlement.writes import Settled, Settling
from oncekey.testing.memory import MemoryStore
from tests.simulation.broken_flows import judge_with, over_means_take_over
from tests.support.replacing import replace

if TYPE_CHECKING:
    import pytest

    from oncekey.effects.journal import Journal
    from oncekey.effects.operation import Operation
    from oncekey.errors import NotExecuted, StoreError
    from oncekey.flow.commands import Answered, Flow, Result, Unserialisable
    from oncekey.record.commit import Commit, ConditionsFailed
    from oncekey.record.outcome import Outcome
    from oncekey.record.record import Record
    from oncekey.record.steps import FinishedStep
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written


def take_over_without_rev(transition: Transition, record: Record | None) -> bool:
    """TakeOver of whatever its owner has done meanwhile."""
    if isinstance(transition, TakeOver) and record is not None:
        transition = replace(transition, seen=replace(transition.seen, rev=record.rev))
    return transition_rules.permitted(transition, record)


def take_over_in_doubt(transition: Transition, record: Record | None) -> bool:
    """TakeOver with a step in doubt."""
    is_met = isinstance(transition, TakeOver) and record is not None
    return transition_rules.permitted(transition, _without_doubt(record) if is_met else record)


def released_by_what_was_read(transition: Transition, record: Record | None) -> bool:
    """ExpireLease whatever its owner has done meanwhile, with a step in doubt, too."""
    if isinstance(transition, ExpireLease) and record is not None:
        transition = replace(transition, seen=seen(record))
        record = _without_doubt(record)
    return transition_rules.permitted(transition, record)


def complete_in_doubt(transition: Transition, record: Record | None) -> bool:
    """Complete with a step in doubt."""
    is_met = isinstance(transition, Complete) and record is not None
    return transition_rules.permitted(transition, _without_doubt(record) if is_met else record)


def release_in_doubt(transition: Transition, record: Record | None) -> bool:
    """Release with a step in doubt."""
    is_met = isinstance(transition, Release) and record is not None
    return transition_rules.permitted(transition, _without_doubt(record) if is_met else record)


def finished_step_started(transition: Transition, record: Record | None) -> bool:
    """StartStep of a step that has finished."""
    if isinstance(transition, StartStep) and record is not None:
        record = replace(record, steps=replace(record.steps, finished=()))
    return transition_rules.permitted(transition, record)


def any_mark_cleared(transition: Transition, record: Record | None) -> bool:
    """ClearStep of another mark than its own."""
    if isinstance(transition, ClearStep) and record is not None and record.is_in_doubt:
        assert record.steps.started is not None
        transition = replace(transition, step=record.steps.started)
    return transition_rules.permitted(transition, record)


def step_settled_for_anybody(transition: Transition, record: Record | None) -> bool:
    """SettleStep of an attempt that nobody has asked about."""
    if isinstance(transition, SettleStep) and record is not None:
        transition = replace(transition, seen_owner=record.owner)
    return transition_rules.permitted(transition, record)


def recorded_settled(transition: Transition, record: Record | None) -> bool:
    """Settle, whatever the effects."""
    if isinstance(transition, Settle) and record is not None:
        return record.status == "UNKNOWN" and record.owner == transition.seen_owner
    return transition_rules.permitted(transition, record)


def owner_kept_by_step_settlement(transition: Transition, record: Record | None) -> Record:
    """SettleStep leaves the late owner's token on the record."""
    if isinstance(transition, SettleStep) and record is not None:
        transition = replace(transition, new_owner=record.owner)
    return transition_rules.applied(transition, record)


def _without_doubt(record: Record | None) -> Record | None:
    return None if record is None else replace(record, steps=record.steps.cleared())


class UnfencedStore(MemoryStore):
    """Business writes are applied whether the record permits them or not."""

    def commit(self, commit: Commit) -> Written | Refused | ConditionsFailed:
        """See `oncekey.store.store.Store.commit`."""
        reply = self.write(commit.transition) if commit.transition is not None else None
        assert reply is not None
        self.writes += commit.writes
        self.messages += commit.messages
        return reply


def doubt_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A handler that caught the error of a step has the last word."""

    def decide(*given: Any, is_in_doubt: bool = False, **others: Any) -> disposition.Disposition:
        return disposition.decide(*given, **others)

    patch.setattr(engine, "decide", decide)


def refusals_ignored(patch: pytest.MonkeyPatch) -> None:
    """A refused checkpoint counts as made."""

    def follow(self: Journal, transition: Any, reply: object) -> None:
        self.record = applied(transition, self.record)
        self.is_certain = True

    patch.setattr(journal.Journal, "_follow", follow)


def lease_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A step begins whatever the time."""
    patch.setattr(journal.Journal, "_check_lease", lambda _self: None)


def nothing_is_marked(patch: pytest.MonkeyPatch) -> None:
    """Every step begins as if it were idempotent."""
    original = journal.Journal.begin

    def begin(self: Journal, name: str, *, is_idempotent: bool) -> Any:
        return original(self, name, is_idempotent=True)

    patch.setattr(journal.Journal, "begin", begin)


def record_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    """A resumed run begins every step anew."""
    original = journal.Journal._reached

    def reached(self: Journal, name: str, *, is_commit: bool) -> FinishedStep | None:
        found = original(self, name, is_commit=is_commit)
        return found if is_commit else None

    patch.setattr(journal.Journal, "_reached", reached)


def unconfirmed_is_answered(patch: pytest.MonkeyPatch) -> None:
    """The handler's answer is given, though its commit was not confirmed."""
    original = Interruption._unconfirmed

    async def unconfirmed(
        self: RecordedRecorder, error: StoreError, result: Answered[Any] | Unserialisable | None
    ) -> Outcome:
        outcome = await original(self, error, result)
        value = getattr(result, "value", None)
        return outcome if value is None else Ran(value=value, record=self.record, expires_at_s=None)

    patch.setattr(RecordedRecorder, "_unconfirmed", unconfirmed)


def stop_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A handler that caught `RunStopped` has the last word."""
    original = RecordedRecorder._ended

    def ended(
        self: RecordedRecorder, result: Result, end: disposition.Disposition
    ) -> Flow[Outcome]:
        self.journal.stopped = None
        return original(self, result, end)

    patch.setattr(RecordedRecorder, "_ended", ended)


def record_completed_alone(patch: pytest.MonkeyPatch) -> None:
    """A completion leaves what was collected behind."""

    async def alone(self: RecordedRecorder, commit: Commit) -> Any:
        assert commit.transition is not None
        return await retry.write(commit.transition, self._until_the_deadline(), self.clock)

    patch.setattr(RecordedRecorder, "_applied", alone)


def half_done_work_expires(patch: pytest.MonkeyPatch) -> None:
    """A failure after a finished step is like any other."""
    patch.setattr(Interruption, "_is_half_done", property(lambda _self: False))


def key_of_the_attempt(patch: pytest.MonkeyPatch) -> None:
    """Every attempt shows the provider a key of its own."""

    def downstream_key(self: Operation, name: str) -> str:
        return str(uuid.uuid5(uuid.UUID(self.operation_id), f"{name} {self.attempt}"))

    patch.setattr("oncekey.effects.operation.Operation.downstream_key", downstream_key)


def settled_as_a_whole(patch: pytest.MonkeyPatch) -> None:
    """What is found out about a step completes its recorded operation."""

    def finished(self: Settling, finding: Completed | NotExecuted, step: str) -> Settled | None:
        if not isinstance(finding, Completed):
            return original(self, finding, step)
        ending = Ending(
            response="settled as a whole",
            completed_at_ms=self.now_ms,
            expires_at_s=self.now_ms // 1000 + 3600,
        )
        return Settled(transition=self._settle(ending), what="as a whole")

    original = Settling._of_step
    patch.setattr(Settling, "_of_step", finished)


def take_over_whatever_is_read(patch: pytest.MonkeyPatch) -> None:
    """A dead attempt is taken over, whatever is in doubt."""
    judge_with(over_means_take_over)(patch)
