"""Replays a stored answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.record.outcome import RETRY_SOON_MS, Reason, Refusal, Replayed
from oncekey.record.stored_answer import AnswerDamaged, StoredRef, opened
from oncekey.telemetry import requests as telemetry
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.retry import Budget


async def replay(found: Replayed, budget: Budget, clock: Clock) -> Replayed | Refusal:
    """The answer of a completed record, read from the record, its companion or the bucket.

    If the answer is missing, damaged or was never stored, the request is refused. The handler
    never runs again for this reason.
    """
    record = found.record
    try:
        blob = None
        if isinstance(record.response, StoredRef):
            blob = await retry.fetch(record.response, budget, clock)
        text = opened(record.response, blob)
    except StoreError as error:
        telemetry.store_unavailable(record.operation, error)
        if error.needs_deployment:
            return Refusal(reason=Reason.STORE_UNAVAILABLE, record=record, needs_deployment=True)
        return Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=RETRY_SOON_MS)
    except AnswerDamaged as damage:
        telemetry.answer_unavailable(record, clock.now_ms(), str(damage))
        return Refusal(reason=Reason.ANSWER_UNAVAILABLE, record=record)
    telemetry.replayed(record, clock.now_ms())
    return replace(found, stored=text)
