"""A reconciler's visits to records. They carry out decisions: writes, questions and messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from oncekey.engine.job import Job, message_of
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.reconciler import report as reconciler_report
from oncekey.reconciler.decisions import (
    Ask,
    End,
    Escalate,
    HandBack,
    Leave,
    Visit,
    Visitor,
    Wait,
    has_resolver,
)
from oncekey.reconciler.lanes import Lane, Lanes, Stuck
from oncekey.reconciler.people import People
from oncekey.reconciler.writes import Writes, has_landed
from oncekey.record.commit import Commit, token
from oncekey.record.pause import pause_of
from oncekey.record.record import LOOKED_AT, Status
from oncekey.record.rules import applied
from oncekey.record.stored_answer import OBJECT_CALL_TIMEOUT_MS, Place, opened
from oncekey.record.transitions import ExpireLease
from oncekey.settlement.resolvers import StillUnknown, nothing_in_doubt, resolver_of
from oncekey.settlement.settlement import Settlement, Settler
from oncekey.store.store import Refused, Written
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.reconciler.lanes import Waiting
    from oncekey.reconciler.report import Report
    from oncekey.reconciler.settings import ReconcilerSettings
    from oncekey.record.pause import Pause
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob
    from oncekey.record.transitions import Ending, Reschedule
    from oncekey.settings import Settings
    from oncekey.settlement.resolvers import Finding
    from oncekey.store.due_index import OpenRecords
    from oncekey.store.sqs import SqsQueue

# An attempt that was ended is then unknown or half done, which needs one more decision.
_MOST_ROUNDS = 3
_LONGEST_WISH = timedelta(days=30)
# The queue's client waits for a connection and for an answer, and tries twice.
_QUEUE_MS = 10_000
_TRANSACTION_MS = 1_500
# In a short run, a message is sent only while this fraction (1/n) of the run is left. Otherwise the
# end of the run could cut it off.
_LEFT_FOR_A_MESSAGE = 4
_ESCALATIONS, _HAND_BACKS = "escalations", "hand-backs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """The visits of one run, as flows. `report` counts their work.

    `look` visits a record and does at once what needs only the table. A visit that needs a
    resolver, the escalation queue or the outbox waits in a lane, until `work` carries it out.

    Attributes:
        pauses: what operators have paused. Nothing of it is begun.
        lanes: the waiting visits.
        worked: the records whose visit did something and did not fail.
        failed: the records whose visit failed.
        unknown: the records that were visited and stay unknown, with the time of their reserve.
        had_turn: the records whose next turn was written.
        not_answered: the records whose visit failed for a cause that may pass.
        refused: why turns could not be written, for causes that do not pass.
    """

    store: OpenRecords
    clock: Clock
    settings: Settings
    turns: ReconcilerSettings
    escalations: SqsQueue | None
    timed_out: Callable[[Record, Settings, int], Ending]
    report: Report
    run_ms: int = 50_000
    pauses: tuple[Pause, ...] = ()
    lanes: Lanes = field(default_factory=Lanes)
    worked: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    unknown: dict[str, int] = field(default_factory=dict)
    had_turn: set[str] = field(default_factory=set)
    not_answered: dict[str, Record | None] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    async def look(self, pk: str) -> None:
        """Visit the record `pk`: do what needs only the table, or let the visit wait in a lane."""
        self.report.visited += 1
        record: Record | None = None
        try:
            record = await retry.read(pk, self._writes.budget(), self.clock)
            for _ in range(_MOST_ROUNDS):
                if record is None:
                    return
                decision = self._visitor().visit(record)
                if not isinstance(decision, End):
                    await self._begin(record, decision)
                    return
                record = await self._end(record, decision)
                self.worked.add(pk)
        except Exception as error:  # noqa: BLE001 -- one record must not stop the others
            await self._failed(pk, record, error)

    async def work(self, until_ms: int, is_time_left: Callable[[], bool]) -> None:
        """Carry out the waiting visits while there is time. The others stay due without a turn."""
        while is_time_left():
            lane = self.lanes.next(until_ms - self.clock.now_ms())
            if lane is None:
                return
            one = lane.waiting.popleft()
            began_ms, is_failure = self.clock.now_ms(), False
            try:
                is_failure = not await self._carry_out(one, until_ms)
                if one.pk not in self.failed:
                    self.worked.add(one.pk)
            except Exception as error:  # noqa: BLE001 -- as in `look`
                # An error that does not pass is due to the record or the deployment, not the lane.
                is_failure = isinstance(error, StoreError) and error.transient
                await self._failed(one.pk, one.record if isinstance(one, Stuck) else one, error)
            lane.used(self.clock.now_ms() - began_ms, is_failure=is_failure)

    async def end(self, is_time_left: Callable[[], bool]) -> None:
        """Take the turns of records whose visits failed although other visits succeeded.

        Then the cause is the record. In an outage no visit succeeds, so no record uses up a turn.
        """
        for pk, record in self.not_answered.items():
            if not self.worked or not is_time_left():
                return
            if not await self._take_anyway(pk, record, "StoreError", is_passing=True):
                return

    async def _begin(self, record: Record, decision: Visit) -> None:
        if record.status is Status.UNKNOWN:
            self.unknown[record.pk] = record.created_at_ms
        lane = self._lane(record, decision)
        if lane is None:
            # `Leave` is no work: the index may lag, and somebody has written the record since.
            if not isinstance(decision, Leave):
                await self._at_once(record, decision)
                self.worked.add(record.pk)
        elif not lane.add(record):
            self.report.is_complete = False

    def _lane(self, record: Record, decision: Visit) -> Lane | None:
        """The lane of the dependency that the decision needs; None if it needs only the table."""
        match decision:
            case Ask() if not nothing_in_doubt(record):
                about = resolver_of(record.operation, record.step_in_doubt)
                assumed_ms = self.turns.resolver_timeout_ms
                return self.lanes.lane(about, run_ms=self.run_ms, assumed_ms=assumed_ms)
            case Escalate():
                return self._escalation_lane()
            case HandBack():
                options = {"run_ms": self.run_ms, "assumed_ms": _TRANSACTION_MS, "most_failures": 2}
                return self.lanes.lane(_HAND_BACKS, **options)
            case _:
                return None

    def _escalation_lane(self) -> Lane:
        # One failure closes it. After a failure the queue may have the message, and each further
        # record would lose its escalation for today.
        return self.lanes.lane(
            _ESCALATIONS,
            run_ms=self.run_ms,
            assumed_ms=_QUEUE_MS,
            least_ms=min(_QUEUE_MS, self.run_ms // _LEFT_FOR_A_MESSAGE),
            most_failures=1,
        )

    async def _at_once(self, record: Record, decision: Visit) -> None:
        match decision:
            case Ask(turn=turn):
                await self._ask(record, turn, self.clock.now_ms() + 1)
            case Wait(turn=turn):
                self.report.waiting += await self._writes.take(record, turn) is not None
            case _:
                return

    async def _carry_out(self, one: Waiting, until_ms: int) -> bool:
        """Carry out a waiting visit. Returns whether its dependency worked, or was not needed."""
        if isinstance(one, Stuck):
            return await self._people.are_told_of(one)
        match self._visitor().visit(one):
            case Ask(turn=turn):
                return await self._ask(one, turn, until_ms)
            case HandBack(turn=turn):
                await self._hand_back(one, turn)
            case Escalate(turn=turn):
                return await self._people.are_told(one, turn)
            case _:
                pass
        return True

    def _visitor(self) -> Visitor:
        now_ms = self.clock.now_ms()
        return Visitor(
            now_ms=now_ms,
            chance=self.clock.random_fraction(),
            settings=self.settings,
            turns=self.turns,
            has_resolver=has_resolver,
            timed_out=lambda record: self.timed_out(record, self.settings, now_ms),
            is_paused=self._is_paused,
        )

    def _is_paused(self, record: Record) -> bool:
        return pause_of(self.pauses, record.operation, record.tenant) is not None

    async def _end(self, record: Record, end: End) -> Record | None:
        after = await self._writes.take(record, end.transition)
        if after is None:
            return None
        if isinstance(end.transition, ExpireLease):
            self.report.expired += 1
            telemetry.lease_expired(record, self.clock.now_ms())
        else:
            self.report.timed_out += 1
        return after

    async def _ask(self, record: Record, turn: Reschedule, until_ms: int) -> bool:
        """Ask the resolver and write its finding. Returns False if the outcome stays unknown."""
        asked = await self._writes.take(record, turn)
        if asked is None:
            return True
        timeout_ms = min(self.turns.resolver_timeout_ms, max(1, until_ms - self.clock.now_ms()))
        settler = Settler(
            clock=self.clock,
            settings=self.settings,
            call_timeout_ms=self.store.call_timeout_ms,
            has_bucket=self.store.has_bucket,
            resolver_timeout_ms=timeout_ms,
            saving=self._save,
        )
        finding = await settler.find_out(asked)
        if isinstance(finding, Settlement):
            self.report.still_unknown += 1
            return True
        self.report.asked += not nothing_in_doubt(asked)
        if isinstance(finding, StillUnknown):
            is_unknown = await self._put_off(asked, finding)
            if not is_unknown:
                self.unknown.pop(asked.pk, None)
            self.report.still_unknown += is_unknown
            return not is_unknown
        try:
            await self._write(settler, asked, finding)
        except Exception as error:  # noqa: BLE001 -- as in `look`; the resolver itself has answered
            await self._failed(asked.pk, asked, error)
        return True

    async def _write(self, settler: Settler, asked: Record, finding: Finding) -> None:
        try:
            settlement = await settler.write(asked, finding)
        except TypeError as mistake:
            # It has used its turn. Asking again at once would give the same answer.
            self.report.still_unknown += 1
            reconciler_report.answer_not_storable(asked, self.clock.now_ms(), mistake)
            return
        match settlement:
            case Settlement.TOO_EARLY | Settlement.STILL_UNKNOWN | Settlement.NO_RESOLVER:
                self.report.still_unknown += 1
                return
            case Settlement.SETTLED:
                self.report.settled += 1
            case Settlement.OVERTAKEN | Settlement.RUNNING | Settlement.NOT_IN_DOUBT:
                self.report.overtaken += 1
        self.unknown.pop(asked.pk, None)

    async def _save(self, blob: Blob) -> None:
        """Save an answer.

        Raises:
            StoreError: it was not saved, or the bucket is so slow that it would delay other visits.
        """
        if blob.at.place is not Place.OBJECT:
            await retry.save(blob, self._writes.budget(), self.clock)
            return
        bucket = self.lanes.lane("bucket", run_ms=self.run_ms, assumed_ms=OBJECT_CALL_TIMEOUT_MS)
        if bucket.is_closed:
            raise StoreError("the bucket is slow; left for the next turn", transient=True)
        began_ms = self.clock.now_ms()
        try:
            await retry.save(blob, self._writes.budget(), self.clock)
        finally:
            # A slow success counts like a slow failure, because it delays other visits as much.
            bucket.used(self.clock.now_ms() - began_ms, is_failure=True)

    async def _put_off(self, asked: Record, finding: StillUnknown) -> bool:
        """Postpone the record if the resolver wants to be asked later than the next turn.

        Returns False if somebody has settled it in the meantime.
        """
        wish_ms = int(min(finding.retry_in, _LONGEST_WISH).total_seconds() * 1000)
        at_ms = self.clock.now_ms() + wish_ms
        if asked.due is None or at_ms <= asked.due.at_ms:
            return True
        return await self._writes.move(asked, at_ms) is not None

    async def _hand_back(self, record: Record, turn: Reschedule) -> None:
        """Send a worker the message to continue, in the transaction that takes the turn."""
        if not self.store.has_outbox:
            # The record asks for its completion, but this reconciler has no outbox to do that.
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
        budget = self._writes.budget()
        reply = await retry.commit(commit, budget, self.clock, lambda met: met == taken)
        if isinstance(reply, Written) or has_landed(reply, taken, budget):
            self.report.handed_back += 1
        elif isinstance(reply, Refused):
            self.report.overtaken += 1
        else:
            raise StoreError("the message cannot be written", transient=False)

    async def _failed(self, pk: str, record: Record | None, error: Exception) -> None:
        """Count a failed visit, and use a turn, so that the record is escalated in the end."""
        self.report.failed += 1
        self.failed.add(pk)
        reconciler_report.visit_failed(pk, error)
        if pk in self.had_turn:
            return
        if isinstance(error, StoreError) and error.transient:
            self.not_answered[pk] = record
        else:
            await self._take_anyway(pk, record, reconciler_report.reason_of(error))

    async def _take_anyway(
        self, pk: str, record: Record | None, reason: str, *, is_passing: bool = False
    ) -> bool:
        """Take the turn of a record whose visit failed. Returns whether the store answered.

        If the cause may pass (`is_passing`), an item without a readable open record is due again at
        once the first time.
        """
        try:
            if record is not None and record.status in LOOKED_AT:
                turn = self._visitor().turn(record)
                await retry.write(turn, self._writes.budget(), self.clock)
            else:
                await self._move_on(pk, record, reason, is_passing=is_passing)
        except StoreError as error:
            reconciler_report.turn_not_taken(pk, error)
            if not error.transient:
                self.refused.append(error.reason)
            return not error.transient
        return True

    async def _move_on(
        self, pk: str, record: Record | None, reason: str, *, is_passing: bool
    ) -> None:
        now_ms = self.clock.now_ms()
        first_ms = now_ms - 1 if is_passing else now_ms + self.turns.first_delay_ms
        times = await self._writes.put_off(pk, due_by_ms=now_ms, to_ms=first_ms)
        if times is None:
            return
        if times >= self.turns.max_attempts:
            self._escalation_lane().add(Stuck(pk, record, reason, times))
            return
        if times == 1:
            return
        delay_ms = self.turns.delay_ms(times, self.clock.random_fraction())
        to_ms = now_ms + max(self.turns.first_delay_ms, delay_ms)
        await self._writes.put_off(pk, due_by_ms=first_ms, to_ms=to_ms, counts=False)

    @property
    def _writes(self) -> Writes:
        return Writes(
            store=self.store, clock=self.clock, report=self.report, had_turn=self.had_turn
        )

    @property
    def _people(self) -> People:
        return People(writes=self._writes, turns=self.turns, queue=self.escalations)
