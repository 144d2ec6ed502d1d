"""Settles a step in doubt by what its resolver finds out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from oncekey import retry, telemetry
from oncekey.driver import drive
from oncekey.equipment import never
from oncekey.errors import NotExecuted
from oncekey.record import Due, Effects, Status
from oncekey.resolvers import Completed, Finding, StillUnknown, question_about, resolver_of
from oncekey.results import encode
from oncekey.retry import Budget
from oncekey.steps import FinishedStep
from oncekey.store import Refused
from oncekey.stored_answer import keep_result
from oncekey.transitions import Retry, SettleStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.record import Record
    from oncekey.resolvers import Question
    from oncekey.settings import Settings
    from oncekey.steps import StartedStep
    from oncekey.store import Store
    from oncekey.stored_answer import Blob

_MOST_FAILURES = 3
_AGAIN = StillUnknown(timedelta(minutes=1))


class Settlement(StrEnum):
    """What became of an attempt to settle."""

    SETTLED = "settled"  # the next request resumes
    TOO_EARLY = "too-early"  # a call of the dead attempt may still arrive
    STILL_UNKNOWN = "still-unknown"
    NO_RESOLVER = "no-resolver"
    NOT_IN_DOUBT = "not-in-doubt"
    OVERTAKEN = "overtaken"  # somebody else has settled it meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Settler:
    """Settles steps in doubt: where records are, by which clock, and how long they are kept."""

    store: Store
    clock: Clock
    settings: Settings

    def settle(self, record: Record) -> Settlement:
        """Ask the resolver about the step of `record` that is in doubt, and write what it says.

        When it returns `SETTLED`, the step is finished with its result, or as if never started, and
        the next request resumes the operation: it makes the business writes. Nothing is asked
        before the lease and the grace are over, because a call under way may still take effect.
        When to ask again after `STILL_UNKNOWN` is the caller's business, as is `StillUnknown`'s
        wish, which the resolver's log can carry.

        Raises:
            StoreError: it may or may not have been settled.
            TypeError: the result that the resolver gave cannot be stored.
        """
        question = question_about(record)
        unknown = record.status is Status.UNKNOWN and record.effects is Effects.RECORDED
        started = record.steps.started
        if not unknown or record.escalated_at_ms is not None:
            return Settlement.NOT_IN_DOUBT
        lease_until_ms = record.lease_until_ms or 0
        if self.clock.now_ms() <= lease_until_ms + self.settings.reconcile_grace_ms:
            return Settlement.TOO_EARLY
        if question is None or started is None:
            # The checkpoint landed before the doubt was marked: there is nothing to ask about.
            return self._write(record, None, None, None)
        resolve = resolver_of(record.operation, started.name)
        if resolve is None:
            return Settlement.NO_RESOLVER
        answer = self._asked(resolve, question, record)
        if isinstance(answer, StillUnknown):
            return Settlement.STILL_UNKNOWN
        if isinstance(answer, NotExecuted):
            return self._write(record, None, started.name, None)
        finished, blob = self._finished(record, started, answer)
        return self._write(record, finished, None, blob)

    def _asked(
        self, resolve: Callable[[Question], Finding], question: Question, record: Record
    ) -> Finding:
        try:
            answer = resolve(question)
        except NotExecuted as proven:
            return proven
        except Exception as error:  # noqa: BLE001 -- who cannot answer does not know
            telemetry.resolver_failed(record, self.clock.now_ms(), type(error).__name__)
            return _AGAIN
        if isinstance(answer, Completed | NotExecuted | StillUnknown):
            return answer
        telemetry.resolver_failed(record, self.clock.now_ms(), "no answer of a resolver")
        return _AGAIN

    def _write(
        self,
        record: Record,
        finished: FinishedStep | None,
        cleared: str | None,
        blob: Blob | None,
    ) -> Settlement:
        if blob is not None:
            drive(
                retry.keep(blob, self._budget(), self.clock),
                store=self.store,
                clock=self.clock,
                invocation=never,
            )
        transition = SettleStep(
            pk=record.pk,
            seen_owner=record.owner,
            new_owner=self.clock.new_owner(),
            retry=self._retry(record, finished),
            finished=finished,
            cleared=cleared,
        )
        reply = drive(
            retry.write(transition, self._budget(), self.clock),
            store=self.store,
            clock=self.clock,
            invocation=never,
        )
        if isinstance(reply, Refused) and not _is_ours(reply.record, transition):
            return Settlement.OVERTAKEN
        name = finished.name if finished is not None else cleared or "(none in doubt)"
        telemetry.step_settled(record, self.clock.now_ms(), name)
        return Settlement.SETTLED

    def _finished(
        self, record: Record, started: StartedStep, answer: Completed
    ) -> tuple[FinishedStep, Blob | None]:
        # Under a name of its own: the late owner may still be keeping a result of its own.
        kept_by = replace(record, owner=self.clock.new_owner())
        text = encode(answer.result)
        result, blob = keep_result(text, started.name, kept_by, has_bucket=self.store.has_bucket)
        finished = FinishedStep(
            name=started.name,
            position=started.position,
            at_ms=self.clock.now_ms(),
            result=result,
        )
        return finished, blob

    def _retry(self, record: Record, finished: FinishedStep | None) -> Retry:
        now_ms = self.clock.now_ms()
        if finished is None and not record.steps.finished:
            expires_at_s = now_ms // 1000 + self.settings.retention_s + self.settings.gone_for_s
            return Retry(reason="settled", expires_at_s=expires_at_s)
        shard = record.due.shard if record.due is not None else "0"
        return Retry(reason="settled", expires_at_s=None, due=Due(shard=shard, at_ms=now_ms))

    def _budget(self) -> Budget:
        # Asking again is as good as a longer try.
        return Budget(
            until_ms=self.clock.now_ms() + (_MOST_FAILURES + 1) * self.store.call_timeout_ms,
            call_timeout_ms=self.store.call_timeout_ms,
            max_failures=_MOST_FAILURES,
        )


def _is_ours(met: Record | None, transition: SettleStep) -> bool:
    # Our write landed and its answer was lost: nobody else draws the same owner.
    return met is not None and met.owner == transition.new_owner
