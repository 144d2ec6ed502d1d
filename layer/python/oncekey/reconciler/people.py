"""The escalations of a run of the reconciler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.reconciler import report as reconciler_report
from oncekey.reconciler.decisions import TOLD_ONCE_IN_MS
from oncekey.reconciler.escalation import NotSent, TellPerson, escalation_body, stuck_body

if TYPE_CHECKING:
    from oncekey.reconciler.lanes import Stuck
    from oncekey.reconciler.settings import ReconcilerSettings
    from oncekey.reconciler.writes import Writes
    from oncekey.record.record import Record
    from oncekey.record.transitions import Reschedule
    from oncekey.store.sqs import SqsQueue

# A message that the queue certainly does not have is sent again after this time.
_SENT_AGAIN_IN_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Escalates through `queue`, or through the log if there is no queue."""

    writes: Writes
    turns: ReconcilerSettings
    queue: SqsQueue | None

    async def are_told(self, record: Record, turn: Reschedule) -> bool:
        """Escalate `record`, at most once a day, and again until it has succeeded.

        First the record is marked and postponed by a day. So if this process is killed, or the
        queue does not answer but may have the message, nothing is escalated again today.
        """
        marked = await self.writes.take(record, turn)
        if marked is None:
            return True
        if self.queue is not None:
            try:
                await TellPerson(marked.operation_id, escalation_body(marked), self.queue)
            except NotSent:
                await self.writes.move(marked, self.writes.clock.now_ms() + _SENT_AGAIN_IN_MS)
                raise
        # Without a queue, the log entry is the escalation, and it is repeated each day.
        reconciler_report.escalated(marked, self.writes.clock.now_ms())
        self.writes.report.escalated += 1
        if self.queue is not None:
            await self.writes.move(
                marked, self.writes.clock.now_ms() + self.turns.escalate_again_ms
            )
        return True

    async def are_told_of(self, stuck: Stuck) -> bool:
        """Escalate an item that cannot be visited, without reading it, at most once a day.

        It is not escalated if it is no longer due: somebody has settled it, or another reconciler
        escalates it.
        """
        writes, now_ms = self.writes, self.writes.clock.now_ms()
        # Its turn has put it off by the first delay.
        by_ms = now_ms + max(self.turns.first_delay_ms, self.turns.longest_delay_ms)
        tomorrow_ms = now_ms + TOLD_ONCE_IN_MS
        marked = await writes.put_off(stuck.pk, due_by_ms=by_ms, to_ms=tomorrow_ms, counts=False)
        if marked is None:
            return True
        if self.queue is not None:
            body = stuck_body(stuck.pk, stuck.record, stuck.reason, stuck.times)
            try:
                await TellPerson(stuck.pk, body, self.queue)
            except NotSent:
                soon_ms = now_ms + _SENT_AGAIN_IN_MS
                await writes.put_off(stuck.pk, due_by_ms=tomorrow_ms, to_ms=soon_ms, counts=False)
                raise
        reconciler_report.stuck(stuck.pk, stuck.reason)
        self.writes.report.escalated += 1
        if self.queue is not None:
            again_ms = self.writes.clock.now_ms() + self.turns.escalate_again_ms
            await writes.put_off(stuck.pk, due_by_ms=tomorrow_ms, to_ms=again_ms, counts=False)
        return True
