"""The transitions in DynamoDB's language. Each is one conditional write.

`oncekey.store.dynamodb.conditions` has the conditions.
"""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple, assert_never

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
    EFFECTS_VALUES,
    NO_STEPS_VALUE,
    STATUS_VALUES,
    Item,
    attribute_values,
    finished_value,
    started_value,
)
from oncekey.store.dynamodb.conditions import RESERVE, guard

# The values that stand for themselves in every condition.
_CONSTANTS: Item = {
    ":pending": STATUS_VALUES[Status.PENDING],
    ":in_progress": STATUS_VALUES[Status.IN_PROGRESS],
    ":completed": STATUS_VALUES[Status.COMPLETED],
    ":failed_retryable": STATUS_VALUES[Status.FAILED_RETRYABLE],
    ":unknown": STATUS_VALUES[Status.UNKNOWN],
    ":repeatable": EFFECTS_VALUES[Effects.REPEATABLE],
    ":recorded": EFFECTS_VALUES[Effects.RECORDED],
    ":no_steps": NO_STEPS_VALUE,
    ":one": {"N": "1"},
}
_NAME = re.compile(r"#(\w+)")
_VALUE = re.compile(r":\w+")

# What an update does that begins an attempt or a recorded run.
_NEXT_ATTEMPT = ", #attempt = #attempt + :one"
_STEPS_BEGUN = ", #steps = if_not_exists(#steps, :no_steps)"


class _Template(NamedTuple):
    """What all transitions of one kind and one set of attributes have in common."""

    update: str
    names: dict[str, str]
    constants: Item
    placeholders: tuple[str, ...]  # for the values of the attributes that are set, in their order


def _declared(expression: str) -> tuple[dict[str, str], Item]:
    """The names and the constants of `expression`: DynamoDB refuses those that it does not use."""
    names = {f"#{name}": name for name in sorted(set(_NAME.findall(expression)))}
    values = set(_VALUE.findall(expression))
    return names, {name: value for name, value in _CONSTANTS.items() if name in values}


def _copied(constants: Item) -> Item:
    # Copies, because a user's client may have handlers that change the parameters.
    values = {name: value.copy() for name, value in constants.items()}
    if ":no_steps" in values:
        values[":no_steps"] = deepcopy(NO_STEPS_VALUE)
    return values


_RESERVE_NAMES, _RESERVE_CONSTANTS = _declared(RESERVE)


def put_parameters(table: str, transition: Reserve) -> dict[str, Any]:
    """The PutItem of a reserve.

    It creates the record, or returns the existing one, in one round trip.
    """
    condition, values = guard(transition)
    return {
        "TableName": table,
        "Item": attribute_values(transition.record),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": _RESERVE_NAMES.copy(),
        "ExpressionAttributeValues": _copied(_RESERVE_CONSTANTS) | values,
    }


def update_parameters(table: str, transition: Transition) -> dict[str, Any]:
    """The UpdateItem of any other transition.

    It names the attributes that it sets and removes; all others stay.
    """
    condition, values = guard(transition)
    sets, removes = _changes(transition)
    template = _template(condition, tuple(sets), _begins(transition), removes)
    values = _copied(template.constants) | values
    values.update(zip(template.placeholders, sets.values(), strict=True))
    names = template.names.copy()
    if "#step" in names:
        names["#step"] = _step_name(transition)
    return {
        "TableName": table,
        "Key": {"pk": {"S": transition.pk}},
        "UpdateExpression": template.update,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        "ConditionExpression": condition,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


@cache
def _template(
    condition: str, sets: tuple[str, ...], begins: str, removes: tuple[str, ...]
) -> _Template:
    """Computed once. The cache stays small: no argument ever comes from an author's text."""
    placeholders = tuple(f":set_{number}" for number in range(len(sets)))
    update = "SET #rev = #rev + :one"
    for name, placeholder in zip(sets, placeholders, strict=True):
        update += f", {_path(name)} = {placeholder}"
    update += begins
    if removes:
        update += " REMOVE " + ", ".join(map(_path, removes))
    return _Template(update, *_declared(f"{update} {condition}"), placeholders)


def _begins(transition: Transition) -> str:
    match transition:
        case Resume() | TakeOver():
            effects, attempt = transition.lease.effects, _NEXT_ATTEMPT
        case Enqueue():
            effects, attempt = transition.waiting.effects, _NEXT_ATTEMPT
        case Begin():
            effects, attempt = transition.lease.effects, ""
        case _:
            return ""
    return attempt + _STEPS_BEGUN if effects is Effects.RECORDED else attempt


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


def _changes(transition: Transition) -> tuple[Item, tuple[str, ...]]:
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
            return sets, (*removes, "steps.started")
        case StartStep():
            return {"steps.started": started_value(transition.step)}, ()
        case FinishStep():
            finished: Item = {"steps.finished.step": finished_value(transition.step)}
            return finished, ("steps.started",) if transition.mark is not None else ()
        case ClearStep():
            return {}, ("steps.started",)
        case LateEffect() | SettlePending():
            sets, removes = end(transition.ending)
            return sets | {"owner": {"S": transition.new_owner}}, removes
        case Reschedule():
            return look_again(transition)
        case _:
            assert_never(transition)
