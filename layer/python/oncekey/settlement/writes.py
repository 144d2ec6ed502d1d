"""The writes of a settlement: one transition, and before it the answer if that is large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.encoding.results import encode
from oncekey.engine.recorder import KEPT_LONGER_S
from oncekey.errors import NotExecuted
from oncekey.http.answer import stored_form
from oncekey.http.event import Shape
from oncekey.record.policy import Encoding, policy_of
from oncekey.record.record import Due, Effects, Status
from oncekey.record.steps import FinishedStep
from oncekey.record.stored_answer import place_answer, place_result
from oncekey.record.transitions import (
    Ending,
    LateEffect,
    Retry,
    Settle,
    SettlePending,
    SettleStep,
    seen,
)
from oncekey.settlement.resolvers import Completed
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.record.policy import Policy
    from oncekey.record.record import Record
    from oncekey.record.steps import StartedStep
    from oncekey.record.stored_answer import Blob
    from oncekey.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A settlement: its write, the blob to save before it, and a text that says what is settled."""

    transition: Settle | SettleStep | SettlePending | LateEffect
    what: str
    blob: Blob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """One settlement of `record` at `now_ms`, written with the owner `new_owner`.

    The policy in the record determines how the answer is stored.
    """

    record: Record
    new_owner: str
    now_ms: int
    settings: Settings
    has_bucket: bool

    def write_of(self, finding: Completed | NotExecuted, step: str) -> Settled | None:
        """The write; None if the record is not in doubt about the subject of the finding.

        Raises:
            TypeError: the answer or result cannot be stored.
        """
        if self.record.status is Status.PENDING:
            return self._of_pending(finding, step)
        if self.record.effects is Effects.RECORDED:
            return self._of_step(finding, step)
        if step:
            return None
        if self.record.status is Status.FAILED_RETRYABLE:
            return self._late(finding) if isinstance(finding, Completed) else None
        if isinstance(finding, Completed):
            ending, blob = self.ending(finding)
            return Settled(transition=self._settle(ending), what="completed", blob=blob)
        return Settled(transition=self._settle(self._failed()), what="not executed")

    def _of_pending(self, finding: Completed | NotExecuted, step: str) -> Settled | None:
        has_writes = self.record.effects is Effects.RECORDED and self.record.was_begun
        if step or has_writes or isinstance(finding, NotExecuted):
            # No step is in doubt. If it was begun, the coming run makes its business writes. After
            # `NotExecuted`, the coming run is all that is needed.
            return None
        ending, blob = self.ending(finding)
        transition = SettlePending(
            pk=self.record.pk, seen=seen(self.record), new_owner=self.new_owner, ending=ending
        )
        return Settled(transition=transition, what="completed, not begun", blob=blob)

    def _of_step(self, finding: Completed | NotExecuted, step: str) -> Settled | None:
        started, name = self.record.steps.started, self.record.step_in_doubt
        if self.record.status is not Status.UNKNOWN or (step and step != name):
            return None
        if started is None:
            return Settled(transition=self.freeing(), what="(none in doubt)")
        if isinstance(finding, NotExecuted):
            return Settled(transition=self._settle_step(None, name), what=name)
        finished, blob = self._finished(started, finding)
        return Settled(transition=self._settle_step(finished, None), what=name, blob=blob)

    def freeing(self) -> SettleStep:
        """The write that lets a recorded operation without a step in doubt continue."""
        return self._settle_step(None, None)

    def _settle(self, to: Ending | Retry) -> Settle:
        return Settle(
            pk=self.record.pk, seen_owner=self.record.owner, new_owner=self.new_owner, to=to
        )

    def _settle_step(self, finished: FinishedStep | None, cleared: str | None) -> SettleStep:
        return SettleStep(
            pk=self.record.pk,
            seen_owner=self.record.owner,
            new_owner=self.new_owner,
            retry=self._half_done() if finished or self.record.steps.finished else self._failed(),
            finished=finished,
            cleared=cleared,
        )

    def _late(self, finding: Completed) -> Settled:
        ending, blob = self.ending(finding)
        transition = LateEffect(
            pk=self.record.pk, seen=seen(self.record), new_owner=self.new_owner, ending=ending
        )
        return Settled(transition=transition, what="a late effect", blob=blob)

    def ending(self, finding: Completed) -> tuple[Ending, Blob | None]:
        """The ending that completes the record, and the blob to save before it, if any.

        Raises:
            TypeError: the answer cannot be stored.
        """
        policy = policy_of(self.record, self.settings)
        expires_at_s = policy.expires_at_s(self.now_ms)
        stored, blob = place_answer(
            answer_text(self.record.operation, policy, finding.result),
            # The new owner gives the answer its own name, because the late owner may still save
            # another answer.
            replace(self.record, owner=self.new_owner),
            expires_at_s=expires_at_s + KEPT_LONGER_S,
            has_bucket=self.has_bucket,
        )
        ending = Ending(
            response=stored,
            response_version=policy.response_version,
            completed_at_ms=self.now_ms,
            expires_at_s=expires_at_s,
        )
        return ending, blob

    def _finished(
        self, started: StartedStep, finding: Completed
    ) -> tuple[FinishedStep, Blob | None]:
        kept_by = replace(self.record, owner=self.new_owner)
        result, blob = place_result(
            encode(finding.result), started.name, kept_by, has_bucket=self.has_bucket
        )
        finished = FinishedStep(
            name=started.name, position=started.position, at_ms=self.now_ms, result=result
        )
        return finished, blob

    def _failed(self) -> Retry:
        policy = policy_of(self.record, self.settings)
        return Retry(reason="settled", expires_at_s=policy.failure_expires_at_s(self.now_ms))

    def _half_done(self) -> Retry:
        due = Due(shard=self.record.due_shard, at_ms=self.now_ms)
        return Retry(reason="settled", expires_at_s=None, due=due)


def answer_text(operation: str, policy: Policy, answer: Any) -> str:
    """The stored form of `answer`: an HTTP answer or a function's result, according to the policy.

    If the policy does not say which, `answer` must have the same stored form in both cases.

    Raises:
        TypeError: it has no such form; the message says what to give instead.
    """
    if policy.encoding is Encoding.RESULT:
        return encode(answer)
    try:
        text = stored_form(answer, Shape.REST)
    except TypeError as mistake:
        raise TypeError(
            f"oncekey: {operation!r} answers HTTP requests, so Completed(...) takes its answer, a"
            f" dict with a statusCode and a body of text: {mistake}"
        ) from mistake
    if policy.encoding is None and encode(answer) != text:
        raise TypeError(
            f"oncekey: the record of {operation!r} is of a release that did not say how its answer"
            " is stored: Completed(...) takes a dict with a statusCode that holds text, numbers,"
            " lists and dictionaries alone"
        )
    return text
