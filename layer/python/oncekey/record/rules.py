"""The rules of the transitions: when each is permitted, and how it changes the record.

A store's conditions and updates express the same rules; a contract test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from oncekey.record.changes import begun, ended, waiting
from oncekey.record.record import LOOKED_AT, Effects, Record, Status
from oncekey.record.transitions import (
    Begin,
    ClearStep,
    Complete,
    Doubt,
    Enqueue,
    ExpireLease,
    FinishStep,
    LateEffect,
    MarkUnknown,
    Release,
    Reschedule,
    Reserve,
    Resume,
    Seen,
    Settle,
    SettlePending,
    SettleStep,
    StartStep,
    StepTransition,
    TakeOver,
    TimeOut,
    Transition,
    seen,
)
from oncekey.value import replace

if TYPE_CHECKING:
    from oncekey.record.steps import Steps


def permitted(transition: Transition, record: Record | None) -> bool:
    """Whether a store may apply `transition` to what it holds under the key (`None`: nothing)."""
    if isinstance(transition, Reserve):
        return record is None or record.is_expired(transition.now_ms)
    if record is None:
        return False
    match transition:
        case Resume() | Enqueue():
            return record.status is Status.FAILED_RETRYABLE and transition.seen == seen(record)
        case Begin():
            # A handler without steps would repeat the work of the finished ones.
            fits = transition.lease.effects is Effects.RECORDED or not record.steps.finished
            return fits and _waits_under(record, transition.seen_owner)
        case TimeOut():
            return not record.was_begun and _waits_under(record, transition.seen_owner)
        case SettlePending():
            waits = record.status is Status.PENDING and transition.seen == seen(record)
            unrecorded = record.effects is not Effects.RECORDED
            return waits and (unrecorded or not record.was_begun)
        case TakeOver():
            return record.may_run_again and _lease_ran_out(
                record, transition.seen, transition.now_ms
            )
        case ExpireLease():
            # Doubt is always safe. Another run is safe only if the dead attempt declared it so.
            harmless = isinstance(transition.to, Doubt) or record.may_run_again
            return harmless and _lease_ran_out(record, transition.seen, transition.now_ms)
        case Complete():
            may_end = record.status in {Status.IN_PROGRESS, Status.UNKNOWN}
            return may_end and record.owner == transition.owner and not record.is_in_doubt
        case Release():
            return _runs_under(record, transition.owner) and not record.is_in_doubt
        case MarkUnknown():
            return _runs_under(record, transition.owner)
        case StartStep() | FinishStep() | ClearStep():
            recorded = record.effects is Effects.RECORDED
            runs = recorded and _runs_under(record, transition.owner)
            return runs and _step_permitted(transition, record.steps)
        case Settle():
            unrecorded = record.effects is not Effects.RECORDED
            return (
                unrecorded
                and record.status is Status.UNKNOWN
                and record.owner == transition.seen_owner
            )
        case SettleStep():
            return (
                record.effects is Effects.RECORDED
                and record.status is Status.UNKNOWN
                and record.owner == transition.seen_owner
                and _settled_step(transition) == _step_in_doubt(record)
            )
        case LateEffect():
            unrecorded = record.effects is not Effects.RECORDED
            failed = record.status is Status.FAILED_RETRYABLE
            return unrecorded and failed and transition.seen == seen(record)
        case Reschedule():
            return _is_looked_at(record) and transition.seen == seen(record)
        case _:
            assert_never(transition)


def _step_permitted(transition: StepTransition, steps: Steps) -> bool:
    match transition:
        case StartStep():
            return steps.started is None and steps.named(transition.step.name) is None
        case FinishStep(step=step, mark=mark):
            marked = None if mark is None else (step.name, step.position, mark)
            return _marked(steps) == marked and steps.named(step.name) is None
        case ClearStep(step=step):
            return _marked(steps) == (step.name, step.position, step.mark)


def _marked(steps: Steps) -> tuple[str, int, int] | None:
    started = steps.started
    return None if started is None else (started.name, started.position, started.mark)


def _settled_step(transition: SettleStep) -> str | None:
    return transition.finished.name if transition.finished is not None else transition.cleared


def _step_in_doubt(record: Record) -> str | None:
    return record.steps.started.name if record.steps.started is not None else None


def _is_looked_at(record: Record) -> bool:
    return record.status in LOOKED_AT and record.due is not None


def _waits_under(record: Record, owner: str) -> bool:
    return record.status is Status.PENDING and record.owner == owner


def _runs_under(record: Record, owner: str) -> bool:
    return record.status is Status.IN_PROGRESS and record.owner == owner


def has_landed(transition: StepTransition, met: Record | None) -> bool:
    """Whether a refused `transition` of a step had been applied before, and its reply was lost."""
    if met is None or not _runs_under(met, transition.owner):
        return False
    match transition:
        case StartStep():
            return met.steps.started == transition.step
        case FinishStep():
            return met.steps.named(transition.step.name) == transition.step
        case ClearStep(step=step):
            return met.steps.started is None and met.steps.named(step.name) is None


def _lease_ran_out(record: Record, version: Seen, now_ms: int) -> bool:
    return (
        record.status is Status.IN_PROGRESS
        and version == seen(record)
        and record.is_lease_over(now_ms)
    )


def applied(transition: Transition, record: Record | None) -> Record:
    """The record after a permitted `transition`.

    The transition changes the fields that it names; all others stay.
    """
    if isinstance(transition, Reserve):
        return transition.record
    if record is None:
        raise AssertionError(f"Bug: {type(transition).__name__} was applied to an absent record")
    record = replace(record, rev=record.rev + 1)
    match transition:
        case Resume() | TakeOver():
            return begun(replace(record, attempt=record.attempt + 1), transition.lease)
        case Enqueue():
            return waiting(record, transition.waiting)
        case Begin():
            return begun(record, transition.lease)
        case TimeOut():
            return ended(record, transition.ending)
        case SettlePending():
            return ended(replace(record, owner=transition.new_owner), transition.ending)
        case ExpireLease():
            return ended(record, transition.to)
        case Complete():
            return ended(record, transition.ending)
        case Release():
            return ended(record, transition.retry)
        case MarkUnknown():
            return ended(record, transition.doubt)
        case Settle():
            return ended(replace(record, owner=transition.new_owner), transition.to)
        case SettleStep():
            steps = (
                record.steps.finishing(transition.finished)
                if transition.finished is not None
                else record.steps.cleared()
            )
            return ended(replace(record, owner=transition.new_owner, steps=steps), transition.retry)
        case StartStep():
            return replace(record, steps=record.steps.starting(transition.step))
        case FinishStep():
            return replace(record, steps=record.steps.finishing(transition.step))
        case ClearStep():
            return replace(record, steps=record.steps.cleared())
        case LateEffect():
            return ended(replace(record, owner=transition.new_owner), transition.ending)
        case Reschedule():
            return replace(
                record,
                due=transition.due,
                reconcile_attempts=transition.attempts,
                escalated_at_ms=transition.escalated_at_ms or record.escalated_at_ms,
            )
        case _:
            assert_never(transition)
