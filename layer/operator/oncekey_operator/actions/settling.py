"""Settling operations by what a person found out, through the layer's own settlement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.errors import NotExecuted, StoreError
from oncekey.flow.driver import drive
from oncekey.record.references import reference_to
from oncekey.settings import Settings
from oncekey.settlement.late import settle_named
from oncekey.settlement.resolvers import Completed
from oncekey.settlement.settlement import Settlement, Settler

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey_operator.actions.acting import Acting

_SENTENCES = {
    Settlement.SETTLED: "settled",
    Settlement.RUNNING: "its own attempt may still end it: try again later",
    Settlement.TOO_EARLY: (
        "a call of the dead attempt may still arrive: say --not-executed again after the grace,"
        " one minute after the lease by default"
    ),
    Settlement.NOT_IN_DOUBT: "nothing is in doubt, or the next attempt goes on anyway",
    Settlement.OVERTAKEN: (
        "somebody else has settled it in the meantime, or another attempt has begun: look at it"
        " again"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of settling one operation."""

    reference: str
    operation_id: str
    settlement: Settlement

    @property
    def is_done(self) -> bool:
        """Whether this call settled it."""
        return self.settlement is Settlement.SETTLED

    def __str__(self) -> str:
        """The result as a sentence."""
        return _SENTENCES.get(self.settlement, self.settlement.value)


def settle(
    acting: Acting, record: Record, finding: Completed | NotExecuted, *, step: str = ""
) -> Settled:
    """Settle `record` as `oncekey.settle` does, with its lines in the audit table.

    "Not executed" is about the attempt of this `record`, and settles no later one.

    Raises:
        CommandError: the first audit line was not written, and nothing was settled.
        StoreError: it may or may not have been settled. Settle it again: an operation that was
            settled is not settled twice.
        TypeError: the answer or result cannot be stored. Nothing was written.
        ValueError: `step` does not name the step in doubt. Nothing was written.
    """
    settler = Settler(
        clock=acting.clock,
        settings=Settings(),
        call_timeout_ms=acting.store.call_timeout_ms,
        has_bucket=acting.store.has_bucket,
    )
    settler.check_storable(record, finding, step=step)
    what = "completed" if isinstance(finding, Completed) else "not executed"
    intention = acting.audit.intend(
        f"resolve: {what}{f', step {step}' if step else ''}",
        pk=record.pk,
        operation_id=record.operation_id,
        before=record.status.value,
    )
    flow = settle_named(
        record.pk,
        record.operation_id,
        finding,
        step=step,
        attempt=record.attempt,
        settler=settler,
    )
    try:
        settlement = drive(flow, store=acting.store, clock=acting.clock)
    except (StoreError, TypeError, ValueError) as error:
        intention.end(f"failed: {type(error).__name__}")
        raise
    intention.end(settlement.value, after=_state_after(acting, record))
    return Settled(
        reference=reference_to(record), operation_id=record.operation_id, settlement=settlement
    )


def _state_after(acting: Acting, record: Record) -> str:
    try:
        after = acting.store.read(record.pk)
    except StoreError:
        return "not read"  # what was done is known, and must be told
    return "absent" if after is None else after.status.value
