"""The transitions in DynamoDB's language: one conditional write each, and what it changes.

`oncekey.dynamodb_conditions` has the conditions.
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from oncekey.dynamodb_codec import (
    NO_STEPS_VALUE,
    Item,
    answer_value,
    attribute_values,
    finished_value,
    started_value,
)
from oncekey.dynamodb_conditions import guard
from oncekey.pending_transitions import Begin, Enqueue, TimeOut, Waiting
from oncekey.record import Due, Effects, Status
from oncekey.step_transitions import ClearStep, FinishStep, StartStep
from oncekey.transitions import (
    Complete,
    Doubt,
    Ending,
    ExpireLease,
    LateEffect,
    Lease,
    MarkUnknown,
    Release,
    Reserve,
    Resume,
    Retry,
    Settle,
    SettleStep,
    TakeOver,
    Transition,
)

_CONSTANTS: dict[str, str] = {
    ":pending": Status.PENDING.value,
    ":in_progress": Status.IN_PROGRESS.value,
    ":completed": Status.COMPLETED.value,
    ":failed_retryable": Status.FAILED_RETRYABLE.value,
    ":unknown": Status.UNKNOWN.value,
    ":repeatable": Effects.REPEATABLE.value,
    ":recorded": Effects.RECORDED.value,
}
_NAME = re.compile(r"#(\w+)")
_VALUE = re.compile(r":\w+")


def put_parameters(table: str, transition: Reserve) -> dict[str, Any]:
    """The PutItem of a reserve.

    It creates the record, or returns the one that stands there, in one round trip.
    """
    return {
        "TableName": table,
        "Item": attribute_values(transition.record),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **_condition(*guard(transition)),
    }


def update_parameters(table: str, transition: Transition) -> dict[str, Any]:
    """The UpdateItem of any other transition.

    It names what it sets and removes, and leaves every other attribute alone.
    """
    condition, values = guard(transition)
    sets, removes = _changes(transition)
    update = "SET #rev = #rev + :one" + "".join(
        f", {_path(name)} = :set_{number}" for number, name in enumerate(sets)
    )
    if isinstance(transition, Resume | TakeOver | Enqueue):
        update += ", #attempt = #attempt + :one"
    if _effects_begun(transition) is Effects.RECORDED:
        update += ", #steps = if_not_exists(#steps, :no_steps)"
        values |= {":no_steps": NO_STEPS_VALUE}
    if removes:
        update += " REMOVE " + ", ".join(map(_path, removes))
    values |= {":one": {"N": "1"}}
    values |= {f":set_{number}": value for number, value in enumerate(sets.values())}
    return {
        "TableName": table,
        "Key": {"pk": {"S": transition.pk}},
        "UpdateExpression": update,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **_condition(condition, values, update, _step_name(transition)),
    }


def _effects_begun(transition: Transition) -> Effects | None:
    match transition:
        case Resume() | TakeOver() | Begin():
            return transition.lease.effects
        case Enqueue():
            return transition.waiting.effects
        case _:
            return None


def _path(name: str) -> str:
    return ".".join(f"#{part}" for part in name.split("."))


def _step_name(transition: Transition) -> str:
    """What `#step` stands for: a step's name is its author's and is never part of an expression."""
    match transition:
        case StartStep() | FinishStep():
            return transition.step.name
        case SettleStep():
            return transition.finished.name if transition.finished is not None else ""
        case _:
            return ""


def _changes(transition: Transition) -> tuple[Item, list[str]]:
    match transition:
        case Reserve():
            raise AssertionError("Bug: a reserve is a put")
        case Resume() | TakeOver() | Begin():
            return _begin(transition.lease)
        case Enqueue():
            return _wait(transition.waiting)
        case TimeOut():
            return _end(transition.ending)
        case ExpireLease():
            return _end(transition.to)
        case Complete():
            return _end(transition.ending)
        case Release():
            return _end(transition.retry)
        case MarkUnknown():
            return _end(transition.doubt)
        case Settle():
            sets, removes = _end(transition.to)
            return sets | {"owner": {"S": transition.new_owner}}, removes
        case SettleStep():
            sets, removes = _end(transition.retry)
            sets["owner"] = {"S": transition.new_owner}
            if transition.finished is not None:
                sets["steps.finished.step"] = finished_value(transition.finished)
            return sets, [*removes, "steps.started"]
        case StartStep():
            return {"steps.started": started_value(transition.step)}, []
        case FinishStep():
            finished: Item = {"steps.finished.step": finished_value(transition.step)}
            return finished, ["steps.started"] if transition.mark is not None else []
        case ClearStep():
            return {}, ["steps.started"]
        case LateEffect():
            sets, removes = _end(transition.ending)
            return sets | {"owner": {"S": transition.new_owner}}, removes
        case _:
            assert_never(transition)


def _wait(waiting: Waiting) -> tuple[Item, list[str]]:
    sets: Item = {
        "status": {"S": Status.PENDING.value},
        "owner": {"S": waiting.owner},
        "effects": {"S": waiting.effects.value},
        **_due(waiting.due),
    }
    return sets, ["expires_at", "last_error"]


def _begin(lease: Lease) -> tuple[Item, list[str]]:
    sets: Item = {
        "status": {"S": Status.IN_PROGRESS.value},
        "owner": {"S": lease.owner},
        "effects": {"S": lease.effects.value},
        "lease_until": {"N": str(lease.until_ms)},
        **_due(lease.due),
    }
    return sets, ["expires_at", "last_error"]


def _end(to: Ending | Retry | Doubt) -> tuple[Item, list[str]]:
    match to:
        case Ending():
            sets: Item = {
                "status": {"S": Status.COMPLETED.value},
                "response": answer_value(to.response),
                "response_version": {"N": str(to.response_version)},
                "completed_at": {"N": str(to.completed_at_ms)},
                "expires_at": {"N": str(to.expires_at_s)},
            }
            return sets, ["lease_until", "due_shard", "due_at", "last_error"]
        case Retry():
            sets = {
                "status": {"S": Status.FAILED_RETRYABLE.value},
                "last_error": {"S": to.reason},
            }
            removes = ["lease_until"]
            if to.expires_at_s is None:
                removes.append("expires_at")
            else:
                sets["expires_at"] = {"N": str(to.expires_at_s)}
            if to.due is None:
                return sets, [*removes, "due_shard", "due_at"]
            return sets | _due(to.due), removes
        case Doubt():
            sets = {
                "status": {"S": Status.UNKNOWN.value},
                "last_error": {"S": to.reason},
                **_due(to.due),
            }
            if to.escalated_at_ms is not None:
                sets["escalated_at"] = {"N": str(to.escalated_at_ms)}
            return sets, []


def _due(due: Due) -> Item:
    return {"due_shard": {"S": due.shard}, "due_at": {"N": str(due.at_ms)}}


def _condition(
    condition: str, values: Item, update: str = "", step_name: str = ""
) -> dict[str, Any]:
    # DynamoDB refuses a name or a value that is declared and not used.
    used = f"{update} {condition}"
    names = {f"#{name}": name for name in sorted(set(_NAME.findall(used)))}
    if "#step" in names:
        names["#step"] = step_name
    constants = {
        name: {"S": value}
        for name, value in _CONSTANTS.items()
        if name in _VALUE.findall(condition)
    }
    return {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": constants | values,
    }
