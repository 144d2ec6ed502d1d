"""Counts a new key in the transaction that reserves it. Either both are applied or neither."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.record.commit import Commit, ConditionsFailed, Inapplicable
from oncekey.record.counter import Count, RefusedCount, after_refusal
from oncekey.record.identity import digest
from oncekey.record.outcome import RETRY_SOON_MS, Reason, Refusal, Replayed
from oncekey.record.transitions import Reserve
from oncekey.telemetry import quotas as quota_telemetry
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.engine.request import Request
    from oncekey.flow.retry import Budget
    from oncekey.quotas.memory import QuotaMemory
    from oncekey.quotas.quota import Quota
    from oncekey.record.record import Record
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

    Reply = Written | Refused | ConditionsFailed | Inapplicable

_HOUR_S = 3600
# A retention is divided into this many buckets, so that a counter stays within one write unit.
_BUCKETS = 24
# A host whose clock is behind may still count in a window that is over for the others.
_WINDOW_STAYS_S = _HOUR_S
# Operations with different retentions may share a counter, and each write sets its expiry. This
# margin prevents a short retention from removing keys that a longer one still counts.
_RETENTIONS_DIFFER_S = 90 * 24 * _HOUR_S
# A round fails only if somebody else has written the counter since it was last read.
_MOST_ROUNDS = 20


@dataclass(slots=True)
class _Line:
    """One limit, with one counter a shard. `open` are the counters that may have room."""

    limit: str
    open: list[Count] = field(default_factory=list)
    full_until_ms: list[int] = field(default_factory=list)


async def commit(
    whole: Commit,
    request: Request,
    budget: Budget,
    clock: Clock,
    is_landed: Callable[[Record | None], bool],
) -> Reply | Refusal:
    """Apply `whole`. If it reserves a key under a quota, count the key in the same transaction.

    The record's own condition is checked first, so a key that exists is never refused here. When
    it returns `Refusal`, nothing was applied.

    Raises:
        StoreError: as for `oncekey.flow.retry.commit`. The key is both reserved and counted, or
            neither.
    """
    reserve = whole.transition
    if not isinstance(reserve, Reserve) or not request.options.counts_keys:
        return await retry.commit(whole, budget, clock, is_landed)
    memory = request.store_state.quota_memory
    lines = _lines(request, memory, clock.now_ms())
    for number in range(_MOST_ROUNDS):
        refusal = _full(request, lines, clock.now_ms())
        if refusal is not None:
            return refusal
        if number and not _is_time_left(budget, clock):
            break
        counting = replace(
            whole, token=_token(reserve, number), counts=tuple(line.open[0] for line in lines)
        )
        try:
            reply = await retry.commit(counting, budget, clock, is_landed)
        except StoreError as error:
            if error.contention != "counter":
                raise
            break
        if not isinstance(reply, ConditionsFailed):
            return reply
        for refused in reply.counts:
            await _learn(refused, lines, memory, budget, clock)
    refusal = _full(request, lines, clock.now_ms())
    if refusal is not None:
        return refusal
    quota_telemetry.contended(request.identity.operation, request.identity.tenant)
    return Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=RETRY_SOON_MS)


async def reserve(
    transition: Reserve, request: Request, budget: Budget, clock: Clock
) -> Written | Refused | Refusal:
    """Reserve a key and count it, in one transaction; see `commit`."""
    whole = Commit(transition=transition, token="")
    reply = await commit(whole, request, budget, clock, lambda found: found == transition.record)
    if isinstance(reply, ConditionsFailed | Inapplicable):
        reason = reply.reason if isinstance(reply, Inapplicable) else "a condition failed"
        raise StoreError(f"the key cannot be counted: {reason}", transient=False)
    return reply


def known_to_be_full(transition: Transition, request: Request, now_ms: int) -> Refusal | None:
    """The refusal of a new key, if this sandbox already knows that its quota is used up."""
    if not isinstance(transition, Reserve) or not request.options.counts_keys:
        return None
    return _full(request, _lines(request, request.store_state.quota_memory, now_ms), now_ms)


def limited(
    decision: Replayed | Refusal, request: Request, owner: str, now_ms: int
) -> Replayed | Refusal:
    """`decision`, or a refusal if it answers a repeat and the tenant's look-ups are used up."""
    quota, record = request.options.quota, decision.record
    if quota is None or quota.lookups is None or record is None or record.owner == owner:
        return decision
    window = quota.window_at(now_ms)
    whose = digest(_scope(request, quota), request.identity.tenant, str(quota.window_ms))
    memory = request.store_state.quota_memory
    if memory.count_lookup(whose, window) <= quota.lookups:
        return decision
    return _exceeded(request, "lookups", (window + 1) * quota.window_ms - now_ms)


def _lines(request: Request, memory: QuotaMemory, now_ms: int) -> list[_Line]:
    """The limits that apply to a new key, each with its counters.

    The counter of the key's own shard comes first. Counters that are known to be full are left out.
    """
    quota = request.options.quota
    assert quota is not None
    first = int(request.identity.due_shard(quota.shards))
    shards = [(first + number) % quota.shards for number in range(quota.shards)]
    lines: list[_Line] = []
    for limit, keys in (("new_keys", quota.new_keys), ("active_keys", quota.active_keys)):
        if keys is None:
            continue
        line = _Line(limit)
        for shard in shards:
            share = keys // quota.shards + (shard < keys % quota.shards)
            make = _in_window if limit == "new_keys" else _among_active
            count = make(request, quota, share, shard, now_ms)
            until_ms = memory.full_until_ms(count.name, now_ms)
            if until_ms is None:
                line.open.append(count)
            else:
                line.full_until_ms.append(until_ms)
        lines.append(line)
    return lines


def _full(request: Request, lines: list[_Line], now_ms: int) -> Refusal | None:
    for line in lines:
        if not line.open:
            return _exceeded(request, line.limit, min(line.full_until_ms) - now_ms)
    return None


def _in_window(request: Request, quota: Quota, share: int, shard: int, now_ms: int) -> Count:
    window = quota.window_at(now_ms)
    over_s = -(-(window + 1) * quota.window_ms // 1000)
    parts = ("new", str(quota.window_ms), str(window), str(shard))
    return Count(
        name=_name(request, quota, *parts),
        tenant=request.identity.tenant,
        limit=share,
        expires_at_s=over_s + _WINDOW_STAYS_S,
    )


def _among_active(request: Request, quota: Quota, share: int, shard: int, now_ms: int) -> Count:
    # The expiry is estimated as if the key were answered now. The width of a bucket depends on the
    # retention alone, so that all hosts name the same buckets.
    expires_at_s = request.expires_at_s(now_ms)
    width_s = max(1, -(-request.options.policy.kept_s // (_BUCKETS * _HOUR_S))) * _HOUR_S
    runs_out_at_s = -(-expires_at_s // width_s) * width_s
    return Count(
        name=_name(request, quota, "active", str(shard)),
        tenant=request.identity.tenant,
        limit=share,
        expires_at_s=runs_out_at_s + _RETENTIONS_DIFFER_S,
        runs_out_at_s=runs_out_at_s,
    )


def _name(request: Request, quota: Quota, *parts: str) -> str:
    return "quota#" + digest(_scope(request, quota), request.identity.tenant, *parts)


def _scope(request: Request, quota: Quota) -> str:
    # The empty text stands for all operations: no operation has an empty name.
    return request.identity.operation if quota.scope == "operation" else ""


def _token(transition: Reserve, number: int) -> str:
    # The token must differ from those of the later commits, which have the same operation and
    # owner.
    record = transition.record
    return str(uuid.uuid5(uuid.UUID(record.operation_id), f"reserve {record.owner} {number}"))


async def _learn(
    refused: RefusedCount, lines: list[_Line], memory: QuotaMemory, budget: Budget, clock: Clock
) -> None:
    """Prepare the next round after a counter refused.

    Expired keys are removed from the counter. If it is still full, the next shard with room is
    used.
    """
    line = next(line for line in lines if line.open and line.open[0] == refused.count)
    if not _has_room(line, refused, memory, clock.now_ms()):
        await _find_room(line, memory, budget, clock)


async def _find_room(line: _Line, memory: QuotaMemory, budget: Budget, clock: Clock) -> None:
    """Read the shards of `line` one after the other until one has room.

    A read costs far less than a refused transaction and blocks nobody. When no time is left, the
    remaining shards stay open and unread.
    """
    while line.open and _is_time_left(budget, clock):
        count = line.open[0]
        counter = await retry.read_counter(count.name, budget, clock)
        if _has_room(line, RefusedCount(count, counter), memory, clock.now_ms()):
            return


def _has_room(line: _Line, met: RefusedCount, memory: QuotaMemory, now_ms: int) -> bool:
    """Whether the first shard of `line` has room, given the counter that was read there.

    If it has none, the shard is removed from `line` and remembered as full.
    """
    again = after_refusal(met, now_ms // 1000)
    if again is not None:
        line.open[0] = again
        return True
    del line.open[0]
    until_ms = _frees_at_ms(met, now_ms)
    line.full_until_ms.append(until_ms)
    memory.found_full(met.count.name, until_ms, now_ms)
    return False


def _is_time_left(budget: Budget, clock: Clock) -> bool:
    return clock.now_ms() + budget.call_timeout_ms <= budget.until_ms


def _frees_at_ms(refused: RefusedCount, now_ms: int) -> int:
    if refused.count.runs_out_at_s is None:
        return (refused.count.expires_at_s - _WINDOW_STAYS_S) * 1000
    frees_at_s = refused.counter.frees_at_s(now_ms // 1000) if refused.counter else None
    return refused.count.runs_out_at_s * 1000 if frees_at_s is None else frees_at_s * 1000


def _exceeded(request: Request, limit: str, left_ms: int) -> Refusal:
    quota_telemetry.exceeded(request.identity.operation, request.identity.tenant, limit)
    return Refusal(reason=Reason.QUOTA_EXCEEDED, retry_after_ms=max(RETRY_SOON_MS, left_ms))
