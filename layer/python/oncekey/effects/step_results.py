"""The results of steps on record: how they are stored and read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.encoding.results import decode, encode
from oncekey.errors import Final
from oncekey.flow import retry
from oncekey.record.stored_answer import AnswerDamaged, NotKept, StoredRef, opened, place_result
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record
    from oncekey.record.steps import FinishedStep
    from oncekey.record.stored_answer import StoredAnswer


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a step that has finished, in this attempt or an earlier one."""

    value: Any = field(repr=False)
    final: Final | None = field(default=None, repr=False)

    def given(self) -> Any:
        """The result as the step gave it. It is returned, or raised if it is a `Final`."""
        if self.final is not None:
            raise self.final
        return self.value


async def found(step: FinishedStep, budget: Budget, clock: Clock) -> Found:
    """The result of a finished step, from the record, its companion or the bucket.

    Raises:
        AnswerDamaged: the result is missing, damaged or was never stored.
        StoreError: the store did not answer.
    """
    blob = None
    if isinstance(step.result, StoredRef):
        blob = await retry.fetch(step.result, budget, clock)
    text = opened(step.result, blob)
    try:
        value = decode(text)
    except ValueError as error:
        raise AnswerDamaged(str(error)) from error
    return Found(None, _final(value)) if step.is_final else Found(value)


async def kept(
    text: str | None, name: str, record: Record, budget: Budget, clock: Clock, *, has_bucket: bool
) -> StoredAnswer:
    """What the record stores for the result of step `name`, after a large result was stored.

    Raises:
        StoreError: it could not be stored.
    """
    stored: StoredAnswer = NotKept("its result has no form that can be stored")
    if text is not None:
        stored, blob = place_result(text, name, record, has_bucket=has_bucket)
        if blob is not None:
            await retry.save(blob, budget, clock)
    if isinstance(stored, NotKept):
        telemetry.step_result_not_kept(record, clock.now_ms(), name, stored.reason)
    return stored


def final_text(final: Final) -> str:
    """`Final` as the result of the step that raised it.

    Raises:
        TypeError: its body cannot be stored.
    """
    return encode([final.status, final.body, final.headers, final.commit])


def _final(value: Any) -> Final:
    status, body, headers, commit = value
    return Final(status, body, headers, commit=commit)
