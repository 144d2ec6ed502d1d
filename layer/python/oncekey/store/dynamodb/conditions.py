"""The condition of each transition in DynamoDB's language, and the values that it uses.

The whole protocol is guarded by these conditions. `oncekey.record.rules.permitted` has the same
rules in Python, and a contract test compares the two over every state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from oncekey.record.record import Effects
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
    Settle,
    SettlePending,
    SettleStep,
    StartStep,
    TakeOver,
    TimeOut,
    Transition,
)

if TYPE_CHECKING:
    from oncekey.store.dynamodb.codec import Item

# The parts of the conditions. DynamoDB's expressions have no clock: "now" is the caller's time.
_ABSENT = "attribute_not_exists(#pk)"
_SETTLED_AND_EXPIRED = "(#status IN (:completed, :failed_retryable) AND #expires_at <= :now_s)"
_SAME_VERSION = "#owner = :seen_owner AND #rev = :seen_rev"
_LEASE_OVER = "#lease_until < :now_ms"  # false if there is no lease: absent never means expired
_OWN = "#owner = :owner"

# It also holds if the item has no steps at all.
_NONE_IN_DOUBT = "attribute_not_exists(#steps.#started)"
_STEP_ABSENT = "attribute_not_exists(#steps.#finished.#step)"
_NOTHING_DONE = "(attribute_not_exists(#steps) OR size(#steps.#finished) = :none)"
# The mark of one call of one step. Name and position are compared, too, because the marks of two
# steps can have the same number.
_MARKED = (
    "#steps.#started.#name = :name AND #steps.#started.#position = :position"
    " AND #steps.#started.#mark = :mark"
)
_MAY_RUN_AGAIN = f"(#effects = :repeatable OR (#effects = :recorded AND {_NONE_IN_DOUBT}))"

RESERVE = f"{_ABSENT} OR {_SETTLED_AND_EXPIRED}"
RESUME = f"#status = :failed_retryable AND {_SAME_VERSION}"
ENQUEUE = RESUME
BEGIN_RECORDED = "#status = :pending AND #owner = :seen_owner"
BEGIN = f"{BEGIN_RECORDED} AND {_NOTHING_DONE}"
TIME_OUT = f"{BEGIN_RECORDED} AND #attempt = :first"
SETTLE_PENDING = (
    f"#status = :pending AND {_SAME_VERSION} AND (#effects <> :recorded OR #attempt = :first)"
)
TAKE_OVER = f"#status = :in_progress AND {_MAY_RUN_AGAIN} AND {_SAME_VERSION} AND {_LEASE_OVER}"
EXPIRE_LEASE_TO_UNKNOWN = f"#status = :in_progress AND {_SAME_VERSION} AND {_LEASE_OVER}"
EXPIRE_LEASE_TO_RETRYABLE = TAKE_OVER
COMPLETE = f"#status IN (:in_progress, :unknown) AND {_OWN} AND {_NONE_IN_DOUBT}"
RELEASE = f"#status = :in_progress AND {_OWN} AND {_NONE_IN_DOUBT}"
MARK_UNKNOWN = f"#status = :in_progress AND {_OWN}"
_RUNS_RECORDED = f"#status = :in_progress AND {_OWN} AND #effects = :recorded"
START_STEP = f"{_RUNS_RECORDED} AND {_NONE_IN_DOUBT} AND {_STEP_ABSENT}"
FINISH_MARKED_STEP = f"{_RUNS_RECORDED} AND {_MARKED} AND {_STEP_ABSENT}"
FINISH_STEP = START_STEP
CLEAR_STEP = f"{_RUNS_RECORDED} AND {_MARKED}"
SETTLE = "#status = :unknown AND #owner = :seen_owner AND #effects <> :recorded"
_SETTLE_RECORDED = "#status = :unknown AND #owner = :seen_owner AND #effects = :recorded"
SETTLE_STEP = f"{_SETTLE_RECORDED} AND #steps.#started.#name = :name"
SETTLE_NO_STEP = f"{_SETTLE_RECORDED} AND {_NONE_IN_DOUBT}"
RESCHEDULE = (
    "#status IN (:unknown, :failed_retryable, :pending) AND attribute_exists(#due_at)"
    f" AND {_SAME_VERSION}"
)
LATE_EFFECT = f"#status = :failed_retryable AND #effects <> :recorded AND {_SAME_VERSION}"


def guard(transition: Transition) -> tuple[str, Item]:
    """The condition of `transition` and its values, without those of states and effects."""
    match transition:
        case Reserve():
            return RESERVE, {":now_s": {"N": str(transition.now_ms // 1000)}}
        case Resume():
            return RESUME, _version(transition.seen.owner, transition.seen.rev)
        case Enqueue():
            return ENQUEUE, _version(transition.seen.owner, transition.seen.rev)
        case Begin():
            waiting: Item = {":seen_owner": {"S": transition.seen_owner}}
            if transition.lease.effects is Effects.RECORDED:
                return BEGIN_RECORDED, waiting
            return BEGIN, waiting | {":none": {"N": "0"}}
        case TimeOut():
            first: Item = {":first": {"N": "1"}}
            return TIME_OUT, first | {":seen_owner": {"S": transition.seen_owner}}
        case SettlePending():
            never_begun: Item = {":first": {"N": "1"}}
            version = _version(transition.seen.owner, transition.seen.rev)
            return SETTLE_PENDING, never_begun | version
        case TakeOver():
            return TAKE_OVER, _version(transition.seen.owner, transition.seen.rev) | _now(
                transition.now_ms
            )
        case ExpireLease():
            doubt = isinstance(transition.to, Doubt)
            condition = EXPIRE_LEASE_TO_UNKNOWN if doubt else EXPIRE_LEASE_TO_RETRYABLE
            return condition, _version(transition.seen.owner, transition.seen.rev) | _now(
                transition.now_ms
            )
        case Complete():
            return COMPLETE, {":owner": {"S": transition.owner}}
        case Release():
            return RELEASE, {":owner": {"S": transition.owner}}
        case MarkUnknown():
            return MARK_UNKNOWN, {":owner": {"S": transition.owner}}
        case StartStep():
            return START_STEP, {":owner": {"S": transition.owner}}
        case FinishStep():
            owner: Item = {":owner": {"S": transition.owner}}
            if transition.mark is None:
                return FINISH_STEP, owner
            ended = transition.step
            return FINISH_MARKED_STEP, owner | _mark(ended.name, ended.position, transition.mark)
        case ClearStep():
            values: Item = {":owner": {"S": transition.owner}}
            step = transition.step
            return CLEAR_STEP, values | _mark(step.name, step.position, step.mark)
        case Settle():
            return SETTLE, {":seen_owner": {"S": transition.seen_owner}}
        case SettleStep():
            seen: Item = {":seen_owner": {"S": transition.seen_owner}}
            name = transition.finished.name if transition.finished else transition.cleared
            return (SETTLE_STEP, seen | {":name": {"S": name}}) if name else (SETTLE_NO_STEP, seen)
        case LateEffect():
            return LATE_EFFECT, _version(transition.seen.owner, transition.seen.rev)
        case Reschedule():
            return RESCHEDULE, _version(transition.seen.owner, transition.seen.rev)
        case _:
            assert_never(transition)


def _mark(name: str, position: int, mark: int) -> Item:
    return {
        ":name": {"S": name},
        ":position": {"N": str(position)},
        ":mark": {"N": str(mark)},
    }


def _version(owner: str, rev: int) -> Item:
    return {":seen_owner": {"S": owner}, ":seen_rev": {"N": str(rev)}}


def _now(now_ms: int) -> Item:
    return {":now_ms": {"N": str(now_ms)}}
