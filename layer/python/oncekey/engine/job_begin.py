"""How a worker begins a job, depending on the record that it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.engine.acceptance import timed_out
from oncekey.engine.reservation import (
    BEGINNINGS,
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
    """Begin the job of `message` for `owner`, usually with one read and one write.

    When it returns `Held`, the lease is durable and belongs to `owner`, even if answers of the
    store were lost. A job whose worker died is treated like a retry of its request.

    Raises:
        StoreError: as for `oncekey.engine.reservation.reserve`.
    """
    met = await retry.read(message.pk, budget, clock)
    takes_over, settings = False, request.options.settings
    for _ in range(MOST_ROUNDS):
        decision = _decide(met, message, request, owner, clock)
        if isinstance(decision, Held) and takes_over:
            tell(request.options.on_event, "takeover", decision.record)
        if isinstance(decision, Held | Replayed | Refusal):
            return decision
        if settings.pause_check_s and isinstance(decision, BEGINNINGS):
            from oncekey.engine.pausing import paused, refusal_of

            pause = await paused(request, budget, clock)
            if pause is not None:
                return refusal_of(pause, request.identity.operation, met)
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
    request.refuse_foreign(record)
    decision = _next(record, message, request, owner, clock)
    if isinstance(decision, Replayed | Refusal) or message.is_of(record):
        return decision
    # The message's event is not the one that the record was written for. Either it was altered, or
    # the message is older than the request that was accepted last.
    is_waiting = record.status is Status.PENDING and record.owner == message.owner
    is_altered = is_waiting or record.request is not None
    reason = Reason.KEY_REUSED if is_altered else Reason.SUPERSEDED
    return Refusal(reason=reason, record=record)


def _next(
    record: Record, message: JobMessage, request: Request, owner: str, clock: Clock
) -> Decision | Write:
    now_ms = clock.now_ms()
    if record.status is not Status.PENDING:
        # The caller compares the event's digest. Its fingerprint is not compared, because another
        # release may compute it differently.
        found = replace(request, fingerprint=record.fingerprint)
        decision = decide(record, found, owner, clock)
        # The record expired just now. This message must not begin a new operation.
        expired = isinstance(decision, Reserve)
        return Refusal(reason=Reason.SUPERSEDED) if expired else decision
    if record.owner != message.owner:
        return Refusal(reason=Reason.SUPERSEDED, record=record)
    if record.is_overdue(now_ms) and not record.was_begun:
        return timed_out(record, request, now_ms)
    if record.steps.finished and request.options.effects is not Effects.RECORDED:
        # A handler without recorded effects would repeat the finished steps.
        return outcome_unknown(record, now_ms)
    return Begin(pk=record.pk, seen_owner=record.owner, lease=lease(request, owner, now_ms))
