"""Settling from outside: a webhook or an operator knows what became of an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.errors import ConfigurationError, NotExecuted
from oncekey.flow import retry
from oncekey.flow.driver import drive
from oncekey.options import clock_faults, store_faults
from oncekey.record.record import Due, Effects, Status
from oncekey.record.references import read_reference
from oncekey.record.rules import applied
from oncekey.record.transitions import Doubt, ExpireLease, seen
from oncekey.settlement.resolvers import check_finding
from oncekey.settlement.settlement import Settlement, Settler
from oncekey.store import defaults, in_use
from oncekey.store.store import Refused
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import settlements as settlement_telemetry
from oncekey.telemetry import watching

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.flow.retry import Budget
    from oncekey.record.record import Record
    from oncekey.settlement.resolvers import Completed
    from oncekey.store.store import Store

# From 1973 to 5138. A smaller number is in seconds, as Stripe's `created` is. A larger one is in
# microseconds or nanoseconds, and would count as now, however old the event is.
_TIMES_MS = range(10**11, 10**14)


def settle(
    reference: str,
    finding: Completed | NotExecuted,
    *,
    step: str = "",
    found_at_ms: int | None = None,
    store: Store | None = None,
    clock: Clock | None = None,
) -> Settlement:
    """Settle the operation that `reference` names, with a finding that is certain.

    After `SETTLED`, a retry of the client gets the answer, or resumes. With any other result, the
    operation is not settled by this call:

    - `OVERTAKEN`: somebody else has settled it in the meantime.
    - `NOT_IN_DOUBT`: it is answered, expired or was never known, or a coming run continues it
      anyway.
    - `RUNNING`: its own run may still end it. Call `settle` again later.
    - `TOO_EARLY`: for `NotExecuted`, if a call of the last attempt could still arrive when that was
      found out. Ask the provider again later. The same event would be too early for ever.

    `Completed` also completes an operation that was about to be retried but took effect after all,
    and an accepted one that no worker has begun. No worker then begins it. The record determines
    how the answer is stored, and for how long.

    A recorded operation may have been stopped and escalated because its handler no longer fits its
    record. It has no step in doubt. After `NotExecuted()` it continues with its next request, by a
    release whose steps fit. `Completed(answer)` ends it with that answer, without its handler's
    business writes. Neither takes a `step`.

    Args:
        reference: `op.reference`, as the provider stored it.
        finding: `Completed` with the HTTP answer (or the result of the function or of the step), or
            `NotExecuted()`.
        step: the step that the finding is about; needed with recorded effects.
        found_at_ms: when `NotExecuted` was found out, in epoch milliseconds: the time of the
            provider's event, or of its answer to your question. An event may be delivered days
            later, when another attempt has been executed. It says nothing about that attempt. The
            grace must be longer than what the provider's clock is ahead of yours.
        store: where the records are, by default in ONCEKEY_TABLE.
        clock: for tests.

    Raises:
        StoreError: it may or may not have been settled; call `settle` again.
        TypeError: the answer or result cannot be stored, or `finding` is not a finding. Or it is
            `NotExecuted`, and `found_at_ms` is missing or not in milliseconds. Nothing was written.
        ValueError: the reference is invalid. Or a step is in doubt and `step` does not name it: a
            finding about another step would run this one a second time, or never.
        ConfigurationError: no table is named, or `store` or `clock` is none.
    """
    watching.look_again()
    check_finding(finding)
    is_time = type(found_at_ms) is int and found_at_ms in _TIMES_MS
    if isinstance(finding, NotExecuted) and not is_time:
        raise TypeError(
            "settle(reference, NotExecuted()) needs found_at_ms=, when that was found out: an"
            " attempt that began later may have been executed. Give the time of the provider's"
            " event or answer, in epoch milliseconds (Stripe's `created` times 1000)"
        )
    pk, operation_id = read_reference(reference)
    faults = [*store_faults(store), *clock_faults(clock)]
    if faults:
        raise ConfigurationError("settle", faults)
    settings = defaults.settings({})
    store = defaults.store(settings.store_timeout_ms, store)
    clock = in_use.clock_or(clock)
    settler = Settler(
        clock=clock,
        settings=settings,
        call_timeout_ms=store.call_timeout_ms,
        has_bucket=store.has_bucket,
    )
    flow = settle_named(
        pk, operation_id, finding, step=step, found_at_ms=found_at_ms, settler=settler
    )
    return drive(flow, store=store, clock=clock)


async def settle_named(
    pk: str,
    operation_id: str,
    finding: Completed | NotExecuted,
    *,
    step: str = "",
    attempt: int | None = None,
    found_at_ms: int | None = None,
    settler: Settler,
) -> Settlement:
    """Settle the operation under `pk` as `settle` does, if it still has this `operation_id`.

    The default of `found_at_ms` is now.

    With `attempt`, `NotExecuted` is about this attempt and those before it. It is `OVERTAKEN` if
    another has begun since, because that one may have been executed.

    Raises:
        StoreError: it may or may not have been settled.
        TypeError: the answer or result cannot be stored; nothing was written.
        ValueError: a step is in doubt, and `step` does not name it.
    """
    clock, budget = settler.clock, settler.budget()
    record = await retry.read(pk, budget, clock)
    now_ms = clock.now_ms()
    if record is None or record.operation_id != operation_id or record.is_expired(now_ms):
        settlement_telemetry.nothing_to_settle(operation_id)
        return Settlement.NOT_IN_DOUBT
    settler.check_storable(record, finding, step=step)
    if record.is_lease_over(now_ms) and record.status is Status.IN_PROGRESS:
        is_recorded = record.effects is Effects.RECORDED
        if record.may_run_again and (is_recorded or isinstance(finding, NotExecuted)):
            # The next request runs or resumes it anyway. Marked as unknown, it would have to wait
            # until somebody settles it.
            return Settlement.NOT_IN_DOUBT
        met = await _in_doubt(record, clock, budget)
        if met is None or met.operation_id != operation_id:
            return Settlement.NOT_IN_DOUBT
        record = met
    is_about_it = attempt is None or attempt == record.attempt
    if isinstance(finding, NotExecuted) and not is_about_it:
        return Settlement.OVERTAKEN
    if record.status is Status.UNKNOWN and record.is_in_doubt and not step:
        raise ValueError(
            f"{record.operation} records its effects, and one of its steps is in doubt: name the"
            " step that was found out about, as step="
        )
    with watching.span_about(record, "oncekey settle"):
        return await settler.write(record, finding, step=step, found_at_ms=found_at_ms)


async def _in_doubt(record: Record, clock: Clock, budget: Budget) -> Record | None:
    """Mark `record`, whose owner is dead, as unknown. Returns the record as it is then."""
    now_ms = clock.now_ms()
    doubt = Doubt(
        reason="lease-expired", due=record.due or Due(shard=record.due_shard, at_ms=now_ms)
    )
    expired = ExpireLease(pk=record.pk, seen=seen(record), now_ms=now_ms, to=doubt)
    reply = await retry.write(expired, budget, clock)
    met = reply.record if isinstance(reply, Refused) else applied(expired, record)
    if met is not None and met.operation_id == record.operation_id:
        # It may be called for another tenant, or where nothing else is counted.
        with watching.counted_for(record.tenant, record.operation, clock):
            telemetry.lease_expired(record, now_ms)
    return met
