"""Reserves a key, or decides what an existing record means for the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from oncekey.flow import retry
from oncekey.flow.commands import Pause
from oncekey.record.judgement import Verdict, judge
from oncekey.record.outcome import Decision, Held, Reason, Refusal, Replayed
from oncekey.record.rules import applied
from oncekey.record.transitions import (
    Begin,
    Doubt,
    Enqueue,
    ExpireLease,
    Lease,
    Release,
    Reserve,
    Resume,
    TakeOver,
    TimeOut,
    seen,
)
from oncekey.store.store import Refused, Written
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry.operation_event import tell
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.engine.request import Request
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Due, Record

# Each round after the first means that the record changed since it was last read. It does not
# change this often.
MOST_ROUNDS = 8
# This part of an invocation's time is reserved for giving the answer.
ANSWER_MARGIN_MS = 250
_FIRST_POLL_MS = 50
_LONGEST_POLL_MS = 1_000
# A client that retries sooner finds the same state.
SHORTEST_RETRY_AFTER_MS = 1_000
_LONGEST_RETRY_AFTER_RUNNING_MS = 5_000
_LONGEST_RETRY_AFTER_UNKNOWN_MS = 60_000


# The verdicts that are decided differently if a worker runs the handler.
_OF_QUEUED_WORK = {Verdict.OURS, Verdict.RESUME, Verdict.PENDING, Verdict.TAKE_OVER}

# The writes after which a handler runs, or will. A pause stops these and no others.
BEGINNINGS = (Reserve, Resume, Enqueue, Begin, TakeOver)

Write = Reserve | Resume | Enqueue | Begin | TimeOut | TakeOver | ExpireLease | Release


async def reserve(request: Request, owner: str, budget: Budget, clock: Clock) -> Decision:
    """Reserve the key for `owner`. A new key usually takes one request to the store.

    When it returns `Held`, the lease is durable and belongs to `owner`, even if answers of the
    store were lost.

    Raises:
        StoreError: the store did not answer within `budget`. A write may have been applied, or may
            still be applied later.
    """
    settings = request.options.settings
    wait_until_ms = clock.now_ms() + settings.wait_up_to_ms if settings.in_progress == "wait" else 0
    cache = request.options.cache
    met: Record | None = None
    is_large = request.job is not None and request.job.is_large
    if request.is_a_late_retry(clock.now_ms()) or is_large or request.options.counts_keys:
        # A late retry must see an expired record, which a reserve would overwrite. A repeat must
        # not store a large payload, nor lock the counters of new keys.
        met = await retry.read(request.pk, budget, clock)
    decision = decide(met, request, owner, clock)
    polls, is_reserved, is_accepted, takes_over = 0, False, False, False
    for _ in range(MOST_ROUNDS):
        while (
            wait_until_ms
            and _is_running(decision)
            and (left_ms := _time_to_wait_ms(request, wait_until_ms, clock)) > 0
        ):
            await Pause(min(left_ms, _poll_delay_ms(polls)))
            polls += 1
            met = await retry.read(request.pk, budget, clock)
            decision = decide(met, request, owner, clock)
        if isinstance(decision, Held | Replayed | Refusal):
            break
        if isinstance(decision, Enqueue) and met is not None and is_accepted:
            # It failed after this request accepted it. The queue's next delivery retries it.
            return running(met, clock.now_ms())
        if settings.pause_check_s and isinstance(decision, BEGINNINGS):
            decision, met = await _unless_paused(decision, met, request, owner, budget, clock)
            if isinstance(decision, Held | Replayed | Refusal):
                break
        if isinstance(decision, Reserve) and is_reserved:
            owner = clock.new_owner()
            decision = _by_another_owner(decision, owner)
        is_reserved |= isinstance(decision, Reserve)
        takes_over = isinstance(decision, TakeOver)
        reply: Written | Refused | Refusal
        if request.job is not None and isinstance(decision, Enqueue | Reserve):
            from oncekey.engine.acceptance import accept

            reply = await accept(decision, met, request, budget, clock)
            is_accepted |= isinstance(reply, Written)
        elif isinstance(decision, Reserve) and request.options.counts_keys:
            from oncekey.engine import quota_counting

            reply = await quota_counting.reserve(decision, request, budget, clock)
        else:
            reply = await retry.write(decision, budget, clock)
        if isinstance(reply, Refusal):
            return reply
        # Our own write is judged like any record: its lease may have ended while it was sent.
        met = reply.record if isinstance(reply, Refused) else applied(decision, met)
        decision = decide(met, request, owner, clock)
    if isinstance(decision, Held) and takes_over:
        tell(request.options.on_event, "takeover", decision.record)
    if cache is not None and isinstance(decision, Replayed):
        cache.remember(decision.record, clock.now_ms())
    if isinstance(decision, Held | Replayed | Refusal):
        return decision
    return Refusal(reason=Reason.RUNNING, record=met, retry_after_ms=SHORTEST_RETRY_AFTER_MS)


def _by_another_owner(second: Reserve, owner: str) -> Reserve:
    """The `second` reservation of one request, for `owner`.

    The operation that it reserved first was forgotten. Whoever has seen that one knows it by its
    owner, and must not take the second for it.
    """
    return replace(second, record=replace(second.record, owner=owner))


async def _unless_paused(
    decision: Write,
    met: Record | None,
    request: Request,
    owner: str,
    budget: Budget,
    clock: Clock,
) -> tuple[Decision | Write, Record | None]:
    """`decision` and the record `met`, or instead a refusal or an answer if new work is paused."""
    from oncekey.engine.pausing import paused, refusal_of

    pause = await paused(request, budget, clock)
    if pause is None:
        return decision, met
    # A key that exists gets its answer, and only the store knows whether it does.
    met = met or await retry.read(request.pk, budget, clock)
    now = decide(met, request, owner, clock)
    if isinstance(now, BEGINNINGS):
        return refusal_of(pause, request.identity.operation, met), met
    return now, met


def remembered(request: Request, clock: Clock) -> Replayed | Refusal | None:
    """What this sandbox knows to be the answer to `request`; None if the store must be asked."""
    cache = request.options.cache
    known = None if cache is None else cache.find(request.pk, clock.now_ms())
    # A completed record is nobody's to run, so no owner is needed to judge it.
    decision = None if known is None else decide(known, request, "", clock)
    return decision if isinstance(decision, Replayed | Refusal) else None


def running(record: Record, now_ms: int) -> Refusal:
    """The refusal for a `record` in progress.

    The client is told to retry after five seconds, or when the lease ends if that is sooner, but
    not before one second.
    """
    left_ms = (
        record.lease_until_ms - now_ms
        if record.lease_until_ms is not None
        else _LONGEST_RETRY_AFTER_RUNNING_MS
    )
    retry_after_ms = _clamped(left_ms, _LONGEST_RETRY_AFTER_RUNNING_MS)
    return Refusal(reason=Reason.RUNNING, record=record, retry_after_ms=retry_after_ms)


def outcome_unknown(record: Record, now_ms: int) -> Refusal:
    """The refusal for an unknown outcome.

    The client is told to retry when the record is due, and after a minute at most.
    """
    left_ms = record.due.at_ms - now_ms if record.due is not None else 0
    if left_ms <= 0:
        # The reconciler is late. A retry every second would not help.
        left_ms = _LONGEST_RETRY_AFTER_UNKNOWN_MS
    retry_after_ms = _clamped(left_ms, _LONGEST_RETRY_AFTER_UNKNOWN_MS)
    return Refusal(reason=Reason.OUTCOME_UNKNOWN, record=record, retry_after_ms=retry_after_ms)


def _clamped(duration_ms: int, longest_ms: int) -> int:
    return max(SHORTEST_RETRY_AFTER_MS, min(duration_ms, longest_ms))


def decide(record: Record | None, request: Request, owner: str, clock: Clock) -> Decision | Write:
    """What `record` means for `request`: the final decision, or the next write to try.

    Raises:
        StoreError: the record is damaged, or is not the one of this request.
    """
    now_ms = clock.now_ms()
    if record is None:
        return _fresh(request, owner, clock)
    if not record.is_expired(now_ms):
        request.refuse_foreign(record)
    verdict = judge(
        record,
        owner=owner,
        fingerprint=request.fingerprint,
        effects=request.options.effects,
        now_ms=now_ms,
        accepts=request.accepts,
        gone_after_ms=request.options.settings.gone_after_ms,
    )
    if request.job is not None and verdict in _OF_QUEUED_WORK:
        from oncekey.engine.acceptance import decide_queued

        return decide_queued(verdict, record, request, owner, now_ms)
    match verdict:
        case Verdict.EXPIRED:
            return _fresh(request, owner, clock, record)
        case Verdict.GONE:
            return Refusal(reason=Reason.KEY_EXPIRED, record=record)
        case Verdict.OURS:
            return Held(record)
        case Verdict.KEY_REUSED:
            return Refusal(reason=Reason.KEY_REUSED, record=record)
        case Verdict.REPLAY:
            return Replayed(record)
        case Verdict.RESUME:
            return Resume(pk=record.pk, seen=seen(record), lease=lease(request, owner, now_ms))
        case Verdict.PENDING | Verdict.RUNNING:
            return running(record, now_ms)
        case Verdict.TAKE_OVER:
            telemetry.lease_expired(record, now_ms)
            return TakeOver(
                pk=record.pk, seen=seen(record), lease=lease(request, owner, now_ms), now_ms=now_ms
            )
        case Verdict.LEASE_EXPIRED:
            telemetry.lease_expired(record, now_ms)
            doubt = Doubt(reason="lease-expired", due=_due_of_dead(record, request, now_ms))
            return ExpireLease(pk=record.pk, seen=seen(record), now_ms=now_ms, to=doubt)
        case Verdict.UNKNOWN:
            return outcome_unknown(record, now_ms)
        case _:
            assert_never(verdict)


def _fresh(
    request: Request, owner: str, clock: Clock, expired: Record | None = None
) -> Reserve | Refusal:
    now_ms = clock.now_ms()
    if request.is_too_old_to_begin(now_ms, expired):
        return Refusal(reason=Reason.TOO_OLD)
    record = request.new_record(operation_id=clock.new_operation_id(), owner=owner, now_ms=now_ms)
    return Reserve(record=record, now_ms=now_ms)


def lease(request: Request, owner: str, now_ms: int) -> Lease:
    """The lease for an attempt by `owner` that begins now."""
    until_ms = request.lease_until_ms(now_ms)
    return Lease(
        owner=owner,
        until_ms=until_ms,
        due=request.due_after_lease(until_ms),
        effects=request.options.effects,
        policy=request.options.policy,
    )


def _due_of_dead(record: Record, request: Request, now_ms: int) -> Due:
    # A call that the dead owner sent may arrive until the grace has passed. Looking earlier would
    # not settle anything.
    lease_until_ms = record.lease_until_ms if record.lease_until_ms is not None else now_ms
    return request.due(max(now_ms, lease_until_ms + request.options.settings.reconcile_grace_ms))


def _is_running(decision: Decision | Write) -> bool:
    return isinstance(decision, Refusal) and decision.reason is Reason.RUNNING


def _time_to_wait_ms(request: Request, wait_until_ms: int, clock: Clock) -> int:
    # After waiting, time must be left to give the answer.
    return min(wait_until_ms, request.deadline_ms - ANSWER_MARGIN_MS) - clock.now_ms()


def _poll_delay_ms(polls: int) -> int:
    return min(_LONGEST_POLL_MS, _FIRST_POLL_MS << min(polls, 10))
