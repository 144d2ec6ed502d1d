"""Settles what is unknown, by what its resolver finds out or somebody else knows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey.encoding.results import encode
from oncekey.errors import NotExecuted, StoreError
from oncekey.flow import retry
from oncekey.record.policy import policy_of
from oncekey.record.record import Effects, Status
from oncekey.settlement.asking import AskResolver
from oncekey.settlement.resolvers import (
    Completed,
    StillUnknown,
    check_finding,
    nothing_in_doubt,
    question_about,
    resolver_of,
)
from oncekey.settlement.stopped_operations import end_stopped, is_stopped
from oncekey.settlement.writes import Settling, answer_text
from oncekey.store.store import Refused
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.flow.commands import Flow
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob
    from oncekey.settings import Settings
    from oncekey.settlement.resolvers import Finding
    from oncekey.settlement.writes import Settled

# Each but the first follows somebody else's write between a read and ours.
_MOST_ROUNDS = 5


class Settlement(StrEnum):
    """What became of an attempt to settle."""

    SETTLED = "settled"  # the next request gets the answer, or resumes
    TOO_EARLY = "too-early"  # a call of the dead attempt may still arrive
    STILL_UNKNOWN = "still-unknown"
    NO_RESOLVER = "no-resolver"
    RUNNING = "running"  # its own run may still end it; say it again later
    # It is answered, expired or was never known; or a run that is to come goes on with it anyway.
    NOT_IN_DOUBT = "not-in-doubt"
    OVERTAKEN = "overtaken"  # somebody else has settled it meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Settler:
    """Settles records in flows, by this clock and in this environment.

    `call_timeout_ms` and `has_bucket` are the store's. `resolver_timeout_ms`: how long a resolver
    may take; None for as long as it likes. `saving`: how the answer beside the record is saved, if
    not by `retry.save` alone.
    """

    clock: Clock
    settings: Settings
    call_timeout_ms: int
    has_bucket: bool
    resolver_timeout_ms: int | None = None
    saving: Callable[[Blob], Flow[None]] | None = None

    async def find_out(self, record: Record) -> Finding | Settlement:
        """What the resolver says of `record`, or why none is asked.

        None is asked before the lease and the grace are over: a call under way may still take
        effect.
        """
        if record.status is not Status.UNKNOWN or record.escalated_at_ms is not None:
            return Settlement.NOT_IN_DOUBT
        if self._is_too_early(record):
            return Settlement.TOO_EARLY
        if nothing_in_doubt(record):
            # The checkpoint landed before the doubt was marked: there is nothing to ask about.
            return NotExecuted()
        resolve = resolver_of(record.operation, record.step_in_doubt)
        if resolve is None:
            return Settlement.NO_RESOLVER
        question = question_about(record)
        return await AskResolver(
            question=question,
            resolve=resolve,
            record=record,
            now_ms=self.clock.now_ms(),
            timeout_ms=self.resolver_timeout_ms,
        )

    def check_storable(self, record: Record, finding: Finding, *, step: str = "") -> None:
        """Return if what was found out about `record` can be stored; nothing is written.

        Raises:
            TypeError: the answer or result cannot be stored; the message says what to give.
        """
        if not isinstance(finding, Completed) or record.status is Status.COMPLETED:
            return
        of_step = record.status is not Status.PENDING and (bool(step) or not is_stopped(record))
        if record.effects is Effects.RECORDED and of_step:
            encode(finding.result)
        else:
            answer_text(record.operation, policy_of(record, self.settings), finding.result)

    async def write(self, record: Record, finding: Finding, *, step: str = "") -> Settlement:
        """Write what was found out about `record`, by a resolver or by whoever knows.

        When it returns `SETTLED`, the operation is answered, or may run again, or its step is
        finished or as if never started, and the next request resumes it: that makes the business
        writes. Of several that settle one record, one gets `SETTLED` and the others `OVERTAKEN`,
        except where they say the same of a record that nobody has settled yet. `NotExecuted` is not
        believed before the lease and the grace are over. With a `step` it is about that one.

        Raises:
            StoreError: it may or may not have been settled.
            TypeError: the answer or result cannot be stored, or `finding` is none.
        """
        check_finding(finding)
        if isinstance(finding, StillUnknown):
            return Settlement.STILL_UNKNOWN
        for _ in range(_MOST_ROUNDS):
            written = await self._write(record, finding, step)
            if isinstance(written, Settlement):
                return written
            record = written
        raise StoreError("others write this record all the time; say it again", transient=True)

    async def _write(
        self, record: Record, finding: Completed | NotExecuted, step: str
    ) -> Settlement | Record:
        """What came of one try; or the record as it is now, which may still be settled."""
        if record.status is Status.IN_PROGRESS:
            return Settlement.RUNNING
        late = record.status in {Status.FAILED_RETRYABLE, Status.PENDING}
        if record.status is not Status.UNKNOWN and not (late and isinstance(finding, Completed)):
            return Settlement.NOT_IN_DOUBT
        stopped = is_stopped(record)
        if stopped and step:
            return Settlement.NOT_IN_DOUBT
        # Of a stopped operation nothing is under way: its attempt has ended itself.
        if isinstance(finding, NotExecuted) and not stopped and self._is_too_early(record):
            return Settlement.TOO_EARLY
        settling = Settling(
            record=record,
            new_owner=self.clock.new_owner(),
            now_ms=self.clock.now_ms(),
            settings=self.settings,
            has_bucket=self.has_bucket,
        )
        if stopped and isinstance(finding, Completed):
            return await self._end_stopped(settling, finding)
        settled = settling.write_of(finding, step)
        return Settlement.NOT_IN_DOUBT if settled is None else await self._send(record, settled)

    async def _end_stopped(self, settling: Settling, finding: Completed) -> Settlement:
        record = settling.record
        ending, blob = settling.ending(finding)
        if blob is not None:
            await retry.save(blob, self.budget(), self.clock)
        frees, budget = settling.freeing(), self.budget()
        met = await end_stopped(record, frees, ending, budget, self.clock, self.settings)
        if met is None:
            telemetry.settled(record, self.clock.now_ms(), "ended as it was said")
            return Settlement.SETTLED
        telemetry.settlement_overtaken(record, self.clock.now_ms())
        is_running = met.operation_id == record.operation_id and met.status is Status.IN_PROGRESS
        return Settlement.RUNNING if is_running else Settlement.OVERTAKEN

    def _is_too_early(self, record: Record) -> bool:
        now_ms, lease_until_ms = self.clock.now_ms(), record.lease_until_ms or 0
        if now_ms <= lease_until_ms + self.settings.reconcile_grace_ms:
            return True
        # A reconciler looks after the grace of the record's own handler, which may be longer than
        # the one here. Until then it is due after that.
        was_told = record.escalated_at_ms is not None and record.escalated_at_ms > lease_until_ms
        due = None if record.reconcile_attempts or was_told else record.due
        return due is not None and now_ms < due.at_ms

    async def _send(self, record: Record, settled: Settled) -> Settlement | Record:
        if settled.blob is not None and self.saving is not None:
            await self.saving(settled.blob)
        elif settled.blob is not None:
            await retry.save(settled.blob, self.budget(), self.clock)
        reply = await retry.write(settled.transition, self.budget(), self.clock)
        if isinstance(reply, Refused) and not _is_ours(reply.record, settled):
            met = reply.record
            if met is not None and met.operation_id == record.operation_id:
                if met.status is Status.IN_PROGRESS:
                    return Settlement.RUNNING
                if met.status is Status.PENDING or met.owner == record.owner:
                    # A reconciler has looked at it, or its client has sent it again: nobody has
                    # settled it.
                    return met
            telemetry.settlement_overtaken(record, self.clock.now_ms())
            return Settlement.OVERTAKEN
        telemetry.settled(record, self.clock.now_ms(), settled.what)
        return Settlement.SETTLED

    def budget(self) -> Budget:
        """How often a call to the store is made."""
        return retry.few_tries(self.clock.now_ms(), self.call_timeout_ms)


def _is_ours(met: Record | None, settled: Settled) -> bool:
    # Our write landed and its answer was lost: nobody else draws the same owner.
    return met is not None and met.owner == settled.transition.new_owner
