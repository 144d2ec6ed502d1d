"""Settling unknown operations and steps, with the finding of a resolver or of somebody else."""

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
from oncekey.settlement.stopped_operations import end_by_hand, is_stopped
from oncekey.settlement.writes import Settling, answer_text
from oncekey.store.store import Refused
from oncekey.telemetry import settlements as telemetry
from oncekey.telemetry import watching

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

# If somebody else writes between our read and our write, another round is needed.
_MOST_ROUNDS = 5


class Settlement(StrEnum):
    """The result of trying to settle an operation or a step."""

    SETTLED = "settled"  # the next request gets the answer, or resumes
    # A call of the last attempt could still arrive when it was found out that there was none.
    TOO_EARLY = "too-early"
    STILL_UNKNOWN = "still-unknown"
    NO_RESOLVER = "no-resolver"
    RUNNING = "running"  # its own run may still end it; try again later
    # It is answered, expired or was never known, or a coming run continues it anyway.
    NOT_IN_DOUBT = "not-in-doubt"
    OVERTAKEN = "overtaken"  # somebody else has settled it in the meantime


@dataclass(frozen=True, slots=True, kw_only=True)
class Settler:
    """Settles records in flows.

    `call_timeout_ms` and `has_bucket` are the store's. `resolver_timeout_ms` is the longest time
    for a resolver; None for no limit. `saving` saves a large answer outside the record, by default
    with `retry.save`.
    """

    clock: Clock
    settings: Settings
    call_timeout_ms: int
    has_bucket: bool
    resolver_timeout_ms: int | None = None
    saving: Callable[[Blob], Flow[None]] | None = None

    async def find_out(self, record: Record) -> Finding | Settlement:
        """The resolver's finding about `record`, or the reason why no resolver is asked.

        No resolver is asked before the lease and the grace have ended, because a call of the
        attempt may still take effect.
        """
        if record.status is not Status.UNKNOWN or record.escalated_at_ms is not None:
            return Settlement.NOT_IN_DOUBT
        if self._is_too_early(record, self.clock.now_ms()):
            return Settlement.TOO_EARLY
        if nothing_in_doubt(record):
            # The checkpoint was written before the record became unknown, so no step is in doubt.
            return NotExecuted()
        resolve = resolver_of(record.operation, record.step_in_doubt)
        if resolve is None:
            return Settlement.NO_RESOLVER
        with watching.span_about(record, "oncekey resolve"):
            return await AskResolver(
                question=question_about(record),
                resolve=resolve,
                record=record,
                now_ms=self.clock.now_ms(),
                timeout_ms=self.resolver_timeout_ms,
            )

    def check_storable(self, record: Record, finding: Finding, *, step: str = "") -> None:
        """Return if the finding about `record` can be stored. Nothing is written.

        Raises:
            TypeError: the answer or result cannot be stored; the message says what to give.
        """
        if not isinstance(finding, Completed) or record.status is Status.COMPLETED:
            return
        if self.is_of_step(record, step):
            encode(finding.result)
        else:
            self.check_answer(record, finding)

    def check_answer(self, record: Record, finding: Completed) -> None:
        """Return if the finding is an answer that the client of `record` can get.

        Raises:
            TypeError: it is not; the message says what to give.
        """
        answer_text(record.operation, policy_of(record, self.settings), finding.result)

    @staticmethod
    def is_of_step(record: Record, step: str) -> bool:
        """Whether a finding about `record` is the result of a step, and not the whole answer."""
        of_step = record.status is not Status.PENDING and (bool(step) or not is_stopped(record))
        return record.effects is Effects.RECORDED and of_step

    async def write(
        self, record: Record, finding: Finding, *, step: str = "", found_at_ms: int | None = None
    ) -> Settlement:
        """Write the finding of a resolver, or of somebody else, about `record`.

        When it returns `SETTLED`, the operation is answered or may run again. Or its step in doubt
        is recorded as finished, or as never started, and the next request resumes and makes the
        business writes. If several callers settle one record, one gets `SETTLED` and the others
        `OVERTAKEN`, unless they have the same finding about a record that nobody has settled yet.
        `NotExecuted` is not accepted if it was found out, at `found_at_ms` or now, before the lease
        and the grace had ended. With a `step`, the finding is about that step.

        Raises:
            StoreError: it may or may not have been settled.
            TypeError: the answer or result cannot be stored, or `finding` is not a finding.
        """
        check_finding(finding)
        if isinstance(finding, StillUnknown):
            return Settlement.STILL_UNKNOWN
        now_ms = self.clock.now_ms()
        # A provider's clock may be ahead of ours.
        found_at_ms = now_ms if found_at_ms is None else min(found_at_ms, now_ms)
        for _ in range(_MOST_ROUNDS):
            written = await self._write(record, finding, step, found_at_ms)
            if isinstance(written, Settlement):
                return written
            record = written
        raise StoreError("others write this record all the time; say it again", transient=True)

    async def _write(
        self, record: Record, finding: Completed | NotExecuted, step: str, found_at_ms: int
    ) -> Settlement | Record:
        """The result of one try, or the current record if that can still be settled."""
        if record.status is Status.IN_PROGRESS:
            return Settlement.RUNNING
        late = record.status in {Status.FAILED_RETRYABLE, Status.PENDING}
        if record.status is not Status.UNKNOWN and not (late and isinstance(finding, Completed)):
            return Settlement.NOT_IN_DOUBT
        stopped = is_stopped(record)
        if stopped and step:
            return Settlement.NOT_IN_DOUBT
        # A stopped operation has no calls that may still arrive, because its attempt ended itself.
        is_denial = isinstance(finding, NotExecuted) and not stopped
        if is_denial and self._is_too_early(record, found_at_ms):
            return Settlement.TOO_EARLY
        settling = self._settling(record)
        if stopped and isinstance(finding, Completed):
            return await self._end(settling, finding)
        settled = settling.write_of(finding, step)
        return Settlement.NOT_IN_DOUBT if settled is None else await self._send(record, settled)

    async def end(self, record: Record, answer: Completed) -> Settlement:
        """End an operation that failed, waits for a worker or was stopped, with `answer`.

        Its handler never runs again. What its finished steps did stays done, and its business
        writes are not made. An operation in doubt, or whose attempt runs, is not ended.

        Raises:
            StoreError: it may or may not have been ended.
            TypeError: the answer cannot be stored; nothing was written.
        """
        if record.status is Status.IN_PROGRESS:
            return Settlement.RUNNING
        is_waiting = record.status in {Status.FAILED_RETRYABLE, Status.PENDING}
        if record.is_expired(self.clock.now_ms()) or not (is_waiting or is_stopped(record)):
            return Settlement.NOT_IN_DOUBT
        is_begun = record.status is not Status.PENDING or record.was_begun
        if record.effects is Effects.RECORDED and is_begun:
            return await self._end(self._settling(record), answer)
        return await self.write(record, answer)

    def _settling(self, record: Record) -> Settling:
        return Settling(
            record=record,
            new_owner=self.clock.new_owner(),
            now_ms=self.clock.now_ms(),
            settings=self.settings,
            has_bucket=self.has_bucket,
        )

    async def _end(self, settling: Settling, finding: Completed) -> Settlement:
        record = settling.record
        ending, blob = settling.ending(finding)
        if blob is not None:
            await retry.save(blob, self.budget(), self.clock)
        met = await end_by_hand(
            record,
            ending,
            self.budget(),
            self.clock,
            self.settings,
            frees=settling.freeing() if record.status is Status.UNKNOWN else None,
        )
        if met is None:
            telemetry.settled(record, self.clock.now_ms(), "ended by hand")
            return Settlement.SETTLED
        telemetry.settlement_overtaken(record, self.clock.now_ms())
        is_running = met.operation_id == record.operation_id and met.status is Status.IN_PROGRESS
        return Settlement.RUNNING if is_running else Settlement.OVERTAKEN

    def _is_too_early(self, record: Record, at_ms: int) -> bool:
        # The grace of the record's own handler may be longer than ours.
        own_ms = 0 if record.policy is None else record.policy.grace_ms
        grace_ms = max(self.settings.reconcile_grace_ms, own_ms)
        return at_ms <= (record.lease_until_ms or 0) + grace_ms

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
                    # A reconciler has visited it, or its client has sent it again. Nobody has
                    # settled it.
                    return met
            telemetry.settlement_overtaken(record, self.clock.now_ms())
            return Settlement.OVERTAKEN
        telemetry.settled(record, self.clock.now_ms(), settled.what)
        return Settlement.SETTLED

    def budget(self) -> Budget:
        """The limits for retrying a call to the store."""
        return retry.few_tries(self.clock.now_ms(), self.call_timeout_ms)


def _is_ours(met: Record | None, settled: Settled) -> bool:
    # Nobody else has this random owner, so our write took effect and only its answer was lost.
    return met is not None and met.owner == settled.transition.new_owner
