"""The flow of every protected call: reserve the key, run the handler, record its end, answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import decide
from oncekey.effects.operation import Operation
from oncekey.effects.running import RunningAttempt, run_handler
from oncekey.engine.recorder import Recorder
from oncekey.engine.replay import replay
from oncekey.engine.reservation import ANSWER_MARGIN_MS, remembered, reserve
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Invoke, Raised, as_it_is
from oncekey.flow.retry import Budget
from oncekey.record.outcome import RETRY_SOON_MS, Held, Outcome, Reason, Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.references import reference_to
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import watching
from oncekey.telemetry.operation_event import tell
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.engine.request import Request
    from oncekey.flow.commands import Flow, Result
    from oncekey.record.outcome import Decision

    Reserving = Callable[[Request, str, Budget, Clock], Flow[Decision]]

# The kinds of refusals in the events for `on_event`.
_KINDS = {
    Reason.RUNNING: "conflict",
    Reason.KEY_REUSED: "key-reused",
    Reason.OUTCOME_UNKNOWN: "unknown",
}
# Before the handler has run, an early refusal costs the caller only a retry.
_MOST_RESERVE_FAILURES = 3


def attempt(
    request: Request,
    clock: Clock,
    *,
    reserving: Reserving = reserve,
    returned: Callable[[Any, Operation], Result] = as_it_is,
    raised: Callable[[BaseException], Result] = Raised,
) -> Flow[Outcome]:
    """The flow that carries out one request.

    The handler runs at most once, and only under a durable lease.

    A request with a job is accepted here, and its handler does not run. A worker runs it later,
    with its own `reserving`. `returned` and `raised` are those of `Invoke`. `raised` also makes a
    `Result` of an exception that the commit of a recorded operation raises.

    A failure of the store is never raised. Before the handler has run, it is returned as a
    `Refusal`. After the handler has run, its answer is returned without being recorded. But the
    answer of a recorded operation is refused unless its commit is confirmed.
    """
    flow = _attempt(request, clock, reserving, returned, raised)
    if watching.tracing() is not None:
        from oncekey.engine.traced import traced

        flow = traced(flow, request.identity.operation)
    return _measured(flow, request, clock) if watching.is_measured() else flow


async def _measured(flow: Flow[Outcome], request: Request, clock: Clock) -> Outcome:
    """The outcome of `flow`, after its metrics were emitted."""
    with watching.counted_for(request.identity.tenant, request.identity.operation, clock):
        return await flow


async def _attempt(
    request: Request,
    clock: Clock,
    reserving: Reserving,
    returned: Callable[[Any, Operation], Result],
    raised: Callable[[BaseException], Result],
) -> Outcome:
    now_ms, breaker = clock.now_ms(), request.store_state.breaker
    if request.deadline_ms <= now_ms:
        return Refusal(reason=Reason.NOT_EXECUTED, retry_after_ms=RETRY_SOON_MS)
    budget = Budget(
        until_ms=request.deadline_ms - ANSWER_MARGIN_MS,
        call_timeout_ms=request.store_state.call_timeout_ms,
        max_failures=_MOST_RESERVE_FAILURES,
    )
    try:
        known = remembered(request, clock) if reserving is reserve else None
    except StoreError as error:
        return unreserved(error, request.identity.operation)
    if known is not None:
        # It says nothing about the store, so the breaker is not asked and not told.
        return await _answered(known, request, "", budget, clock)
    refused_for_ms = breaker.refuses_for_ms(now_ms)
    if refused_for_ms:
        watching.count("StoreErrors", request.identity.operation)
        return Refusal(reason=Reason.STORE_UNAVAILABLE, retry_after_ms=refused_for_ms)
    if request.forgets_too_early(now_ms):
        retention_s = request.options.settings.retention_s
        telemetry.retention_too_short(request.identity.operation, retention_s)
    owner = clock.new_owner()
    invoke: Invoke | None = None
    try:
        outcome = await _begun(request, owner, budget, clock, reserving)
        if isinstance(outcome, Recorder):
            recorder = outcome
            invoke = _invocation(recorder, returned, raised)
            outcome = await _carried_out(recorder, invoke)
            ran_ms: tuple[int, int] | None = invoke.running.ran_ms
            if ran_ms is not None:
                _count_times(recorder, *ran_ms, now_ms)
    except GeneratorExit:
        raise
    except BaseException as interruption:
        if invoke is None or not invoke.running.is_handed_out:
            # An exit, a cancellation or a signal handler's exception. The handler did not run.
            await _withdrawn(request, owner, interruption, clock)
        raise
    if isinstance(outcome, Refusal) and outcome.is_outage:
        breaker.failed(clock.now_ms())
    else:
        breaker.succeeded()
    return outcome


async def _begun(
    request: Request, owner: str, budget: Budget, clock: Clock, reserving: Reserving
) -> Recorder | Outcome:
    """The recorder of an attempt that holds the lease, or the outcome for its caller.

    When it returns, no handler has run.
    """
    try:
        decision = await reserving(request, owner, budget, clock)
    except StoreError as error:
        return unreserved(error, request.identity.operation)
    if not isinstance(decision, Held):
        return await _answered(decision, request, owner, budget, clock)
    record, now_ms = decision.record, clock.now_ms()
    recorder = Recorder(request=request, record=record, clock=clock, budget=budget)
    if request.deadline_ms <= now_ms:
        # Reserving took all the time. Nothing ran, so the next attempt may begin at once.
        return await recorder.give_back("no-time-left")
    telemetry.reserved(record, now_ms)
    return recorder


async def _answered(
    decision: Replayed | Refusal, request: Request, owner: str, budget: Budget, clock: Clock
) -> Replayed | Refusal:
    """The outcome for the caller of a request that did not get the lease."""
    options = request.options
    if options.quota is not None:
        from oncekey.engine.quota_counting import limited

        decision = limited(decision, request, owner, clock.now_ms())
    if isinstance(decision, Replayed):
        replayed = await replay(decision, budget, clock)
        if isinstance(replayed, Replayed):
            tell(options.on_event, "replay", replayed.record)
        return replayed
    record = decision.record
    # A waiting record with our own owner was accepted just now, and is not a refusal to report.
    if record is not None and record.owner != owner and decision.reason is not Reason.SUPERSEDED:
        telemetry.refused(decision.reason, record, clock.now_ms())
        if decision.reason in _KINDS:
            tell(options.on_event, _KINDS[decision.reason], record)
    return await _findable(decision, request, budget, clock)


def _invocation(
    recorder: Recorder,
    returned: Callable[[Any, Operation], Result],
    raised: Callable[[BaseException], Result],
) -> Invoke:
    request, record = recorder.request, recorder.record
    operation = Operation(
        name=record.operation,
        operation_id=record.operation_id,
        attempt=record.attempt,
        tenant=request.identity.tenant,
        principal=request.identity.principal,
        reference=reference_to(record),
        key_for_logs=record.key,
    )
    running = RunningAttempt(operation, request.deadline_ms)
    if request.options.effects is not Effects.RECORDED:
        return Invoke(operation, None, running, returned, raised)
    from oncekey.effects.journal import Journal

    journal = Journal(
        record=record,
        clock=recorder.clock,
        until_ms=recorder.budget.until_ms,
        call_timeout_ms=recorder.budget.call_timeout_ms,
        has_bucket=request.store_state.has_bucket,
        is_not_executed=request.options.is_not_executed,
        is_spent=running.is_spent,
    )
    return Invoke(operation, journal, running, returned, raised)


async def _carried_out(recorder: Recorder, invoke: Invoke) -> Outcome:
    """Run the handler under its lease, and record how it ended."""
    began_ms = recorder.clock.now_ms() if watching.is_measured() else 0
    result, journal = await run_handler(invoke), invoke.journal
    if began_ms:
        invoke.running.ran_ms = began_ms, recorder.clock.now_ms()
    disposition = decide(
        result,
        recorder.request.options.effects,
        recorder.request.options.is_not_executed,
        is_in_doubt=journal is not None and journal.is_in_doubt,
        is_spent=invoke.running.is_spent,
    )
    if journal is not None:
        from oncekey.engine.recorded_recorder import recorded

        recorder = recorded(recorder, journal, invoke.raised)
    return await recorder.end(result, disposition)


def _count_times(recorder: Recorder, began_ms: int, ended_ms: int, arrived_ms: int) -> None:
    """Count how long the handler and the layer took, of a request that arrived at `arrived_ms`."""
    operation, until_ms = recorder.record.operation, recorder.request.deadline_ms
    took_ms, lease_until_ms = ended_ms - began_ms, recorder.record.lease_until_ms
    if lease_until_ms is not None:
        # The lease usually outlives the invocation by a margin, which no handler can use.
        until_ms = min(until_ms, lease_until_ms)
    watching.count("HandlerDuration", operation, took_ms)
    watching.count("LeaseUsed", operation, round(100 * took_ms / max(1, until_ms - began_ms), 1))
    layer_ms = recorder.clock.now_ms() - arrived_ms - took_ms
    watching.count("LayerDuration", operation, layer_ms)


def unreserved(error: StoreError, operation: str) -> Refusal:
    """The refusal for a caller whose key could not be reserved."""
    if error.contention in {"conflict", "in-progress"}:
        # A transaction is writing the record, so its owner is still running.
        return Refusal(reason=Reason.RUNNING, retry_after_ms=RETRY_SOON_MS)
    telemetry.store_unavailable(operation, error)
    if error.needs_deployment:
        # Only a deployment helps, so the caller is not told to wait.
        return Refusal(reason=Reason.STORE_UNAVAILABLE, needs_deployment=True)
    return Refusal(
        reason=Reason.STORE_UNAVAILABLE,
        retry_after_ms=RETRY_SOON_MS,
        is_outage=error.is_outage,
    )


async def _withdrawn(
    request: Request, owner: str, interruption: BaseException, clock: Clock
) -> None:
    """Give back the lease of `owner`, whose handler never ran.

    The record is read first, because it may have finished steps. If the store does not answer, the
    lease runs out.
    """
    budget = retry.few_tries(clock.now_ms(), request.store_state.call_timeout_ms)
    try:
        met = await retry.read(request.pk, budget, clock)
    except StoreError as error:
        telemetry.store_unavailable(request.identity.operation, error)
        return
    if met is None or met.owner != owner or met.status is not Status.IN_PROGRESS:
        return
    recorder = Recorder(request=request, record=met, clock=clock, budget=budget)
    await recorder.give_back(type(interruption).__name__)


async def _findable(refusal: Refusal, request: Request, budget: Budget, clock: Clock) -> Refusal:
    """`refusal`, after the operation's pointer was stored if its caller gets a status URL."""
    record = refusal.record
    if refusal.reason is not Reason.RUNNING or record is None:
        return refusal
    if request.job is not None:
        return replace(refusal, is_findable=True)
    if not request.options.has_status_url or request.options.settings.in_progress != "accepted":
        return refusal
    from oncekey.engine.operation_pointer import pointer_to

    try:
        await retry.save(pointer_to(record, request, clock.now_ms()), budget, clock)
    except StoreError as error:
        # A status URL that finds nothing would tell the client that its request was lost.
        telemetry.store_unavailable(record.operation, error)
        return refusal
    return replace(refusal, is_findable=True)
