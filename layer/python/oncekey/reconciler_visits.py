"""A reconciler's visits to records: the writes, questions and messages of what was decided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from oncekey import reconciler_report, retry, telemetry
from oncekey.commit import Commit, token
from oncekey.driver import drive
from oncekey.due_transitions import Reschedule
from oncekey.errors import StoreError
from oncekey.escalation import escalate
from oncekey.job import Job, message_of
from oncekey.reconciling import (
    Ask,
    End,
    Escalate,
    HandBack,
    Leave,
    Tell,
    Visit,
    Visitor,
    Wait,
    has_resolver,
)
from oncekey.record import Due
from oncekey.resolvers import StillUnknown
from oncekey.settlement import Settlement, Settler
from oncekey.store import Refused, Written
from oncekey.stored_answer import opened
from oncekey.transition_rules import applied
from oncekey.transitions import ExpireLease, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.commands import Flow
    from oncekey.pending_transitions import TimeOut
    from oncekey.reconciler_report import Report
    from oncekey.reconciler_settings import ReconcilerSettings
    from oncekey.record import Record
    from oncekey.retry import Budget
    from oncekey.settings import Settings
    from oncekey.sqs_queue import SqsQueue
    from oncekey.store import Store
    from oncekey.transitions import Ending

R = TypeVar("R")

# Ending a dead attempt makes it unknown or half done, which is then met once more.
_MOST_ROUNDS = 3
_LONGEST_WISH = timedelta(days=30)
# Each costs the run ten seconds, and there may be hundreds where a provider hangs.
_MOST_UNANSWERED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """The visits of one run. What they do is counted in `report`."""

    store: Store
    clock: Clock
    settings: Settings
    turns: ReconcilerSettings
    escalations: SqsQueue | None
    timed_out: Callable[[Record, Settings, int], Ending]
    report: Report
    # How often a resolver of an operation has not answered in time.
    unanswered: Counter[str] = field(default_factory=Counter)

    def visit(self, pk: str, until_ms: int) -> None:
        """Do what is due about the record under `pk`.

        When it returns, that is done, or somebody else was faster, or it is due again later. A
        resolver that is asked has until `until_ms` at the most.

        Raises:
            StoreError: the record is still due, at once or after the turn that was taken.
        """
        self.report.visited += 1
        record = self._run(retry.read(pk, self._budget(), self.clock))
        for _ in range(_MOST_ROUNDS):
            if record is None:
                return
            decision = self._visitor().visit(record)
            if isinstance(decision, End):
                record = self._end(record, decision)
            else:
                self._carry_out(record, decision, until_ms)
                return

    def _visitor(self) -> Visitor:
        now_ms = self.clock.now_ms()
        return Visitor(
            now_ms=now_ms,
            chance=self.clock.random_fraction(),
            settings=self.settings,
            turns=self.turns,
            has_resolver=has_resolver,
            timed_out=lambda record: self.timed_out(record, self.settings, now_ms),
        )

    def _carry_out(self, record: Record, decision: Visit, until_ms: int) -> None:
        match decision:
            case Ask(turn=turn):
                self._ask(record, turn, until_ms)
            case HandBack(turn=turn):
                self._hand_back(record, turn)
            case Wait(turn=turn):
                self.report.waiting += self._take(record, turn) is not None
            case Escalate(turn=turn):
                marked = self._take(record, turn)
                if marked is not None:
                    self._tell(marked)
            case Tell():
                self._tell(record)
            case Leave() | End():
                return

    def _end(self, record: Record, end: End) -> Record | None:
        after = self._take(record, end.transition)
        if after is None:
            return None
        if isinstance(end.transition, ExpireLease):
            self.report.expired += 1
            telemetry.lease_expired(record, self.clock.now_ms())
        else:
            self.report.timed_out += 1
        return after

    def _take(
        self, record: Record, transition: Reschedule | ExpireLease | TimeOut
    ) -> Record | None:
        """Apply `transition`: what it leaves, or None if somebody else was faster."""
        budget = self._budget()
        reply = self._run(retry.write(transition, budget, self.clock))
        after = applied(transition, record)
        if isinstance(reply, Refused) and not _has_landed(reply, after, budget):
            self.report.overtaken += 1
            return None
        return after

    def _ask(self, record: Record, turn: Reschedule, until_ms: int) -> None:
        if self.unanswered[record.operation] >= _MOST_UNANSWERED:
            # Still due, and first in the next run: what others wait for is done in this one.
            self.report.is_complete = False
            return
        asked = self._take(record, turn)
        if asked is None:
            return
        self.report.asked += 1
        asked_at_ms = self.clock.now_ms()
        timeout_ms = min(self.turns.resolver_timeout_ms, max(1, until_ms - asked_at_ms))
        settler = Settler(
            store=self.store,
            clock=self.clock,
            settings=self.settings,
            resolver_timeout_ms=timeout_ms,
        )
        finding = settler.find_out(asked)
        if isinstance(finding, StillUnknown | Settlement):
            self.report.still_unknown += 1
            self.unanswered[record.operation] += self.clock.now_ms() - asked_at_ms >= timeout_ms
            if isinstance(finding, StillUnknown):
                self._put_off(asked, finding)
            return
        try:
            settlement = settler.write(asked, finding)
        except TypeError as mistake:
            # The turn is spent; the same answer would be no better the next moment.
            self.report.still_unknown += 1
            reconciler_report.answer_not_storable(asked, self.clock.now_ms(), mistake)
            return
        self.report.settled += settlement is Settlement.SETTLED
        self.report.overtaken += settlement is Settlement.OVERTAKEN

    def _put_off(self, asked: Record, finding: StillUnknown) -> None:
        """Honour a resolver's wish to be asked later than by the back-off."""
        wish_ms = int(min(finding.retry_in, _LONGEST_WISH).total_seconds() * 1000)
        at_ms = self.clock.now_ms() + wish_ms
        if asked.due is None or at_ms <= asked.due.at_ms:
            return
        later = Reschedule(
            pk=asked.pk,
            seen=seen(asked),
            due=Due(shard=asked.due.shard, at_ms=at_ms),
            attempts=asked.reconcile_attempts,
        )
        self._take(asked, later)

    def _hand_back(self, record: Record, turn: Reschedule) -> None:
        """Tell a worker to go on, in the transaction that takes the turn."""
        if not self.store.has_outbox:
            # The record says that it is to be completed, and this reconciler cannot.
            reason = "ONCEKEY_OUTBOX_TABLE is not set for the reconciler"
            raise StoreError(f"half-done work cannot be handed back: {reason}", transient=False)
        taken = applied(turn, record)
        job = Job(event=opened(record.request, None))
        name = f"resume {record.attempt}.{turn.attempts}"
        message = message_of(job, taken, self.clock.now_ms(), name=name)
        commit = Commit(
            transition=turn,
            token=token(record.operation_id, record.owner, taken.rev),
            messages=(message,),
        )
        budget = self._budget()
        reply = self._run(retry.commit(commit, budget, self.clock, lambda met: met == taken))
        if isinstance(reply, Written) or _has_landed(reply, taken, budget):
            self.report.handed_back += 1
        elif isinstance(reply, Refused):
            self.report.overtaken += 1
        else:
            raise StoreError("the message cannot be written", transient=False)

    def _tell(self, record: Record) -> None:
        reconciler_report.escalated(record, self.clock.now_ms())
        self.report.escalated += 1
        if self.escalations is None:
            # Nobody is told but by the log: it comes up again, and is said again.
            later = Due(
                shard=record.due_shard,
                at_ms=self.clock.now_ms() + self.turns.longest_delay_ms,
            )
        else:
            escalate(record, self.escalations)
            later = None
        self._take(
            record,
            Reschedule(
                pk=record.pk, seen=seen(record), due=later, attempts=record.reconcile_attempts
            ),
        )

    def _run(self, flow: Flow[R]) -> R:
        return drive(flow, store=self.store, clock=self.clock)

    def _budget(self) -> Budget:
        return retry.few_tries(self.clock.now_ms(), self.store.call_timeout_ms)


def _has_landed(reply: object, after: Record, budget: Budget) -> bool:
    # Ours, and its answer was lost. Another reconciler may have written the very same at the same
    # moment: without a lost answer it was that one.
    return isinstance(reply, Refused) and reply.record == after and budget.doubts > 0
