"""The transitions in DynamoDB's language. Each is one conditional write.

`oncekey.store.dynamodb.conditions` has the conditions.
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from oncekey.record.record import Effects, Status
from oncekey.record.transitions import (
    Begin,
    ClearStep,
    Complete,
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
from oncekey.store.dynamodb.changes import begin, end, look_again, wait
from oncekey.store.dynamodb.codec import (
    NO_STEPS_VALUE,
    Item,
    attribute_values,
    finished_value,
    started_value,
)
from oncekey.store.dynamodb.conditions import guard

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

    It creates the record, or returns the existing one, in one round trip.
    """
    return {
        "TableName": table,
        "Item": attribute_values(transition.record),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **_condition(*guard(transition)),
    }


def update_parameters(table: str, transition: Transition) -> dict[str, Any]:
    """The UpdateItem of any other transition.

    It names the attributes that it sets and removes; all others stay.
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
    """The step's name, for the placeholder `#step`. An author's text is never in an expression."""
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
            return begin(transition.lease)
        case Enqueue():
            return wait(transition.waiting)
        case TimeOut():
            return end(transition.ending)
        case ExpireLease():
            return end(transition.to)
        case Complete():
            return end(transition.ending)
        case Release():
            return end(transition.retry)
        case MarkUnknown():
            return end(transition.doubt)
        case Settle():
            sets, removes = end(transition.to)
            return sets | {"owner": {"S": transition.new_owner}}, removes
        case SettleStep():
            sets, removes = end(transition.retry)
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
        case LateEffect() | SettlePending():
            sets, removes = end(transition.ending)
            return sets | {"owner": {"S": transition.new_owner}}, removes
        case Reschedule():
            return look_again(transition)
        case _:
            assert_never(transition)


def _condition(
    condition: str, values: Item, update: str = "", step_name: str = ""
) -> dict[str, Any]:
    # DynamoDB refuses names and values that are declared and not used.
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
