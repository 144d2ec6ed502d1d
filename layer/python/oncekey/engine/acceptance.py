"""Accepts a request as a job: writes its record together with the message for a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.engine import quota_counting
from oncekey.engine.job import message_of
from oncekey.engine.operation_pointer import pointer_to
from oncekey.engine.reservation import lease, running
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.record.commit import Commit, Inapplicable, token
from oncekey.record.judgement import Verdict
from oncekey.record.outcome import Refusal
from oncekey.record.rules import applied
from oncekey.record.stored_answer import Blob
from oncekey.record.transitions import (
    Begin,
    Ending,
    Enqueue,
    ExpireLease,
    Release,
    Retry,
    TimeOut,
    Waiting,
    seen,
)
from oncekey.store.store import Refused, Written
from oncekey.telemetry import requests as telemetry

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.engine.request import Request
    from oncekey.engine.reservation import Write
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record
    from oncekey.record.transitions import Reserve


async def accept(
    transition: Reserve | Enqueue,
    met: Record | None,
    request: Request,
    budget: Budget,
    clock: Clock,
) -> Written | Refused | Refusal:
    """Apply `transition` in one transaction with the job's message and the operation's pointer.

    Either all of them are applied or none. When it returns a `Refusal`, the tenant's quota is used
    up and nothing was applied.

    Raises:
        StoreError: as for `oncekey.flow.retry.commit`.
    """
    assert request.job is not None
    record = applied(transition, met)
    message = message_of(request.job, record, clock.now_ms())
    if message.payload_ref is not None:
        refusal = quota_counting.known_to_be_full(transition, request, clock.now_ms())
        if refusal is not None:
            # Nothing would remove the stored payload of a request that is not accepted.
            return refusal
        payload = Blob(at=message.payload_ref, data=message.payload.encode("ascii"), expires_at_s=0)
        await retry.save(payload, budget, clock)
    whole = Commit(
        transition=transition,
        # One request may accept twice with the same owner, so the token has the attempt's number.
        token=token(record.operation_id, record.owner, record.attempt),
        messages=(message,),
        companion=pointer_to(record, request, clock.now_ms()),
    )
    reply = await quota_counting.commit(
        whole, request, budget, clock, lambda found: found == record
    )
    if isinstance(reply, Written):
        telemetry.accepted(record, clock.now_ms())
    if isinstance(reply, Written | Refused | Refusal):
        return reply
    reason = reply.reason if isinstance(reply, Inapplicable) else "a condition failed"
    raise StoreError(f"the request cannot be accepted: {reason}", transient=False)


def decide_queued(
    verdict: Verdict, record: Record, request: Request, owner: str, now_ms: int
) -> Write | Refusal:
    """The next write for a queued request, or the refusal if the operation is in progress."""
    match verdict:
        case Verdict.OURS:
            # This request began the job only to accept it again. The handler does not run here.
            retry_later = _retry("not-begun-in-time", record, request, now_ms)
            return Release(pk=record.pk, owner=record.owner, retry=retry_later)
        case Verdict.RESUME:
            return _reaccepted(record, request, owner, now_ms)
        case Verdict.TAKE_OVER:
            telemetry.lease_expired(record, now_ms)
            to = _retry("lease-expired", record, request, now_ms)
            return ExpireLease(pk=record.pk, seen=seen(record), now_ms=now_ms, to=to)
        case _:
            if not record.is_overdue(now_ms):
                return running(record, now_ms)
            if not record.was_begun:
                return timed_out(record, request, now_ms)
            # The message is lost or a dead letter. A job that was begun may have had an effect, so
            # it is not timed out. Instead it is begun, released and accepted again.
            begun = lease(request, owner, now_ms)
            return Begin(pk=record.pk, seen_owner=record.owner, lease=begun)


def _reaccepted(record: Record, request: Request, owner: str, now_ms: int) -> Enqueue:
    # `Enqueue` keeps the finished steps of the attempt that failed.
    assert request.job is not None
    waiting = Waiting(
        owner=owner,
        due=request.due(now_ms + request.options.settings.start_within_ms),
        effects=request.options.effects,
        request_digest=request.job.request_digest,
        policy=request.options.policy,
    )
    return Enqueue(pk=record.pk, seen=seen(record), waiting=waiting)


def _retry(reason: str, record: Record, request: Request, now_ms: int) -> Retry:
    if not record.steps.finished:
        return Retry(reason=reason, expires_at_s=request.failure_expires_at_s(now_ms))
    due = request.due(now_ms + request.options.settings.reconcile_grace_ms)
    return Retry(reason=reason, expires_at_s=None, due=due)


def timed_out(record: Record, request: Request, now_ms: int) -> TimeOut:
    """The write that ends an accepted request that no worker has begun in time."""
    assert request.timed_out is not None
    policy = record.policy or request.options.policy
    ending = Ending(
        response=request.timed_out,
        response_version=policy.response_version,
        completed_at_ms=now_ms,
        expires_at_s=policy.expires_at_s(now_ms),
    )
    return TimeOut(pk=record.pk, seen_owner=record.owner, ending=ending)
