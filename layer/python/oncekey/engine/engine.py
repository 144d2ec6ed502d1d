"""The one flow: reserve the key, run the handler, record how it ended, answer.

A call without a key, and a disabled one, skip the reservation. They run the handler in the same
way, with a recorder that touches no record.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from oncekey.effects.disposition import decide, never_spent
from oncekey.effects.journal import Journal
from oncekey.effects.operation import Operation
from oncekey.engine.operation_pointer import pointer_to
from oncekey.engine.quota_counting import limited
from oncekey.engine.recorded_recorder import recorded
from oncekey.engine.recorder import Recorder
from oncekey.engine.replay import replay
from oncekey.engine.reservation import ANSWER_MARGIN_MS, reserve
from oncekey.errors import StoreError
from oncekey.flow import retry
from oncekey.flow.commands import Invoke, Raised, as_it_is
from oncekey.flow.retry import Budget
from oncekey.record.outcome import RETRY_SOON_MS, Outcome, Reason, Refusal, Replayed
from oncekey.record.record import Effects, Status
from oncekey.record.references import reference_to
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry.operation_event import tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.clock import Clock
    from oncekey.effects.bare_run import BareRun
    from oncekey.engine.request import Request
    from oncekey.flow.commands import Flow, Result
    from oncekey.record.outcome import Decision
    from oncekey.record.record import Record

    Reserving = Callable[[Request, str, Budget, Clock], Flow[Decision]]

# What an author hears of a refusal.
_KINDS = {
    Reason.RUNNING: "conflict",
    Reason.KEY_REUSED: "key-reused",
    Reason.OUTCOME_UNKNOWN: "unknown",
}
# Before the handler has run the caller loses nothing by an early refusal: it sends it again.
_MOST_RESERVE_FAILURES = 3


async def attempt(
    request: Request,
    clock: Clock,
    *,
    call_timeout_ms: int,
    is_not_executed: Callable[[BaseException], bool],
    has_bucket: bool = False,
    reserving: Reserving = reserve,
    returned: Callable[[Any, Operation], Result] = as_it_is,
    raised: Callable[[BaseException], Result] = Raised,
    is_spent: Callable[[BaseException], bool] = never_spent,
) -> Outcome:
    """Carry out one request. The handler runs at most once, and only under a lease that is durable.

    A request with a job is accepted, and its handler does not run here. A worker takes it up with a
    `reserving` of its own. `returned` and `raised` are those of `Invoke`; `raised` also says what
    an exception comes to that is raised while a recorded operation is committed. `is_spent` says
    which `NotExecuted` came out of an idempotent function that the handler has called.

    A failure of the store is never raised. Before the handler has run it is a `Refusal`. After
    that it costs the record, and not the answer.
    """
    if request.deadline_ms <= clock.now_ms():
        return Refusal(reason=Reason.NOT_EXECUTED, retry_after_ms=RETRY_SOON_MS)
    if request.forgets_too_early(clock.now_ms()):
        settings = request.settings
        telemetry.retention_too_short(request.identity.operation, settings.retention_s)
    budget = Budget(
        until_ms=request.deadline_ms - ANSWER_MARGIN_MS,
        call_timeout_ms=call_timeout_ms,
        max_failures=_MOST_RESERVE_FAILURES,
    )
    owner = clock.new_owner()
    endings = _Endings(is_not_executed, is_spent, returned, raised)
    begun: _Begun | Outcome | None = None
    try:
        begun = await _begun(
            request,
            owner,
            budget,
            clock,
            reserving=reserving,
            endings=endings,
            has_bucket=has_bucket,
        )
        return (await begun.run()) if isinstance(begun, _Begun) else begun
    except GeneratorExit:
        raise
    except BaseException as interruption:
        if not isinstance(begun, _Begun) or not begun.is_handed_out:
            # An exit, a cancellation or a signal's exception: nothing ran, and that is known here.
            await _withdrawn(request, owner, interruption, clock, call_timeout_ms)
        raise


async def run_bare(
    operation: Operation,
    run: BareRun,
    effects: Effects,
    *,
    is_not_executed: Callable[[BaseException], bool],
    returned: Callable[[Any, Operation], Result],
    raised: Callable[[BaseException], Result],
    is_spent: Callable[[BaseException], bool],
) -> Outcome:
    """Run the handler of `operation` without a record; the arguments are those of `attempt`."""
    endings = _Endings(is_not_executed, is_spent, returned, raised)
    journal = run if effects is Effects.RECORDED else None
    return await _Begun(run, operation, journal, effects, endings).run()


async def _begun(
    request: Request,
    owner: str,
    budget: Budget,
    clock: Clock,
    *,
    reserving: Reserving,
    endings: _Endings,
    has_bucket: bool,
) -> _Begun | Outcome:
    """An attempt that holds the lease, or what its caller gets at once. No handler has run."""
    try:
        decision = await reserving(request, owner, budget, clock)
    except StoreError as error:
        return _unreserved(error, request)
    if isinstance(decision, Replayed | Refusal):
        decision = limited(decision, request, owner, clock.now_ms())
    if isinstance(decision, Replayed):
        replayed = await replay(decision, budget, clock)
        if isinstance(replayed, Replayed):
            tell(request.on_event, "replay", replayed.record)
        return replayed
    if isinstance(decision, Refusal):
        record = decision.record
        # What waits under our own owner is what we have just accepted.
        if record is not None and record.owner != owner and decision.reason != Reason.SUPERSEDED:
            telemetry.refused(decision.reason, record, clock.now_ms())
            if decision.reason in _KINDS:
                tell(request.on_event, _KINDS[decision.reason], record)
        return await _findable(decision, request, budget, clock)
    recorder = Recorder(
        request=request, record=decision.record, clock=clock, budget=budget, has_bucket=has_bucket
    )
    if request.deadline_ms <= clock.now_ms():
        # Reserving took all the time there was. Nothing ran, and the next attempt need not wait.
        return await recorder.give_back("no-time-left")
    telemetry.reserved(decision.record, clock.now_ms())
    operation = _operation(decision.record, request)
    return _Begun(recorder, operation, _journal(recorder, endings), request.effects, endings)


def _unreserved(error: StoreError, request: Request) -> Refusal:
    """What a caller is told whose key could not be reserved."""
    if error.contention in {"conflict", "in-progress"}:
        # A transaction is writing the record: whoever owns it is at work.
        return Refusal(reason=Reason.RUNNING, retry_after_ms=RETRY_SOON_MS)
    telemetry.store_unavailable(request.identity.operation, error)
    if error.needs_deployment:
        # Only a deployment helps: nobody is told to wait for it.
        return Refusal(reason=Reason.STORE_UNAVAILABLE, needs_deployment=True)
    return Refusal(
        reason=Reason.STORE_UNAVAILABLE,
        retry_after_ms=RETRY_SOON_MS,
        is_outage=error.is_outage,
    )


async def _withdrawn(
    request: Request, owner: str, interruption: BaseException, clock: Clock, call_timeout_ms: int
) -> None:
    """Give back what was reserved for `owner`, whose handler never ran.

    What stands there is read first, because it says what is done already. If the store does not
    answer, the lease runs out.
    """
    budget = retry.few_tries(clock.now_ms(), call_timeout_ms)
    try:
        met = await retry.read(request.pk, budget, clock)
    except StoreError as error:
        telemetry.store_unavailable(request.identity.operation, error)
        return
    if met is None or met.owner != owner or met.status is not Status.IN_PROGRESS:
        return
    recorder = Recorder(request=request, record=met, clock=clock, budget=budget, has_bucket=False)
    await recorder.give_back(type(interruption).__name__)


@dataclass(frozen=True, slots=True)
class _Endings:
    """What the end of a handler means; see `attempt`."""

    is_not_executed: Callable[[BaseException], bool] = field(repr=False)
    is_spent: Callable[[BaseException], bool] = field(repr=False)
    returned: Callable[[Any, Operation], Result] = field(repr=False)
    raised: Callable[[BaseException], Result] = field(repr=False)


async def _findable(refusal: Refusal, request: Request, budget: Budget, clock: Clock) -> Refusal:
    """`refusal` with a way to find the operation by its id, where its caller is told of one."""
    record = refusal.record
    if refusal.reason is not Reason.RUNNING or record is None:
        return refusal
    if request.job is not None:
        return replace(refusal, is_findable=True)
    if not request.has_status_url or request.settings.in_progress != "accepted":
        return refusal
    try:
        await retry.save(pointer_to(record, request, clock.now_ms()), budget, clock)
    except StoreError as error:
        # Told to ask where nothing is found, the client would take it for lost.
        telemetry.store_unavailable(record.operation, error)
        return refusal
    return replace(refusal, is_findable=True)


@dataclass(slots=True)
class _Begun:
    """An attempt whose handler is to be run now, under its lease or without a record."""

    recorder: Recorder | BareRun
    operation: Operation
    journal: Journal | BareRun | None
    effects: Effects
    endings: _Endings
    is_handed_out: bool = False

    async def run(self) -> Outcome:
        """Run the handler, and record how that ended."""
        self.is_handed_out = True
        endings, journal, recorder = self.endings, self.journal, self.recorder
        try:
            result = await Invoke(self.operation, journal, endings.returned, endings.raised)
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 -- it is recorded first, and then raised
            # It came around the handler, which may have ended or not: nothing is proven by it.
            result = Raised(error, has_returned=True)
        if journal is not None:
            journal.close()
        disposition = decide(
            result,
            self.effects,
            endings.is_not_executed,
            is_in_doubt=journal is not None and journal.is_in_doubt,
            is_spent=endings.is_spent,
        )
        if isinstance(recorder, Recorder) and isinstance(journal, Journal):
            recorder = recorded(recorder, journal, endings.raised)
        return await recorder.end(result, disposition)


def _journal(recorder: Recorder, endings: _Endings) -> Journal | None:
    if recorder.request.effects is not Effects.RECORDED:
        return None
    return Journal(
        record=recorder.record,
        clock=recorder.clock,
        until_ms=recorder.budget.until_ms,
        call_timeout_ms=recorder.budget.call_timeout_ms,
        has_bucket=recorder.has_bucket,
        is_not_executed=endings.is_not_executed,
        is_spent=endings.is_spent,
    )


def _operation(record: Record, request: Request) -> Operation:
    return Operation(
        name=record.operation,
        operation_id=record.operation_id,
        attempt=record.attempt,
        tenant=request.identity.tenant,
        principal=request.identity.principal,
        reference=reference_to(record),
    )
