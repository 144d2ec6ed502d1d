"""A worker begins what was accepted: what follows from the record that it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.engine.acceptance import timed_out
from oncekey.engine.reservation import (
    MOST_ROUNDS,
    SHORTEST_RETRY_AFTER_MS,
    decide,
    lease,
    outcome_unknown,
)
from oncekey.flow import retry
from oncekey.record.outcome import Decision, Held, Reason, Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.rules import applied
from oncekey.record.transitions import Begin, Reserve, TakeOver
from oncekey.store.store import Refused
from oncekey.telemetry.operation_event import tell
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.engine.job import JobMessage
    from oncekey.engine.request import Request
    from oncekey.engine.reservation import Write
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record


async def begin(
    message: JobMessage, request: Request, owner: str, budget: Budget, clock: Clock
) -> Decision:
    """Take up `message` for `owner`: a read, and one write where nothing stands in the way.

    When it returns `Held`, the lease is durable and ours, whatever answers were lost on the way. A
    job whose worker died is taken up again as a retry of its request would be.

    Raises:
        StoreError: as for `oncekey.engine.reservation.reserve`.
    """
    met = await retry.read(message.pk, budget, clock)
    takes_over = False
    for _ in range(MOST_ROUNDS):
        decision = _decide(met, message, request, owner, clock)
        if isinstance(decision, Held) and takes_over:
            tell(request.options.on_event, "takeover", decision.record)
        if isinstance(decision, Held | Replayed | Refusal):
            return decision
        takes_over = isinstance(decision, TakeOver)
        reply = await retry.write(decision, budget, clock)
        met = reply.record if isinstance(reply, Refused) else applied(decision, met)
    return Refusal(reason=Reason.RUNNING, record=met, retry_after_ms=SHORTEST_RETRY_AFTER_MS)


def _decide(
    record: Record | None, message: JobMessage, request: Request, owner: str, clock: Clock
) -> Decision | Write:
    if (
        record is None
        or record.operation_id != message.operation_id
        or record.is_expired(clock.now_ms())
    ):
        return Refusal(reason=Reason.SUPERSEDED)
    decision = _next(record, message, request, owner, clock)
    if isinstance(decision, Replayed | Refusal) or message.is_of(record):
        return decision
    # Another event than the one that is kept, or that waits; or that of an older message, whose
    # request was accepted anew since.
    is_waiting = record.status is Status.PENDING and record.owner == message.owner
    is_altered = is_waiting or record.request is not None
    reason = Reason.KEY_REUSED if is_altered else Reason.SUPERSEDED
    return Refusal(reason=reason, record=record)


def _next(
    record: Record, message: JobMessage, request: Request, owner: str, clock: Clock
) -> Decision | Write:
    now_ms = clock.now_ms()
    if record.status is not Status.PENDING:
        # The event is held to the record by its digest: a release may compute another fingerprint.
        found = replace(request, fingerprint=record.fingerprint)
        decision = decide(record, found, owner, clock)
        # It has expired at this moment; the request of a new operation is not this one's.
        expired = isinstance(decision, Reserve)
        return Refusal(reason=Reason.SUPERSEDED) if expired else decision
    if record.owner != message.owner:
        return Refusal(reason=Reason.SUPERSEDED, record=record)
    if record.is_overdue(now_ms) and not record.was_begun:
        return timed_out(record, request, now_ms)
    if record.steps.finished and request.options.effects is not Effects.RECORDED:
        # A handler that knows nothing of steps would do the finished ones again.
        return outcome_unknown(record, now_ms)
    return Begin(pk=record.pk, seen_owner=record.owner, lease=lease(request, owner, now_ms))
