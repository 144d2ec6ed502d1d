"""The transitions in DynamoDB's language: one conditional write each, with its named condition.

The conditions are the guard of the whole protocol; `oncekey.transition_rules.permitted` is their
meaning, and a contract test compares the two over every state.
"""

from __future__ import annotations

import re
from typing import Any, assert_never

from oncekey.dynamodb_codec import Item, answer_value, attribute_values
from oncekey.record import Due, Effects, Status
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
    TakeOver,
    Transition,
)

# The parts that conditions are made of. DynamoDB has no clock: "now" is the caller's.
_ABSENT = "attribute_not_exists(#pk)"
_SETTLED_AND_EXPIRED = "(#status IN (:completed, :failed_retryable) AND #expires_at <= :now_s)"
_SAME_VERSION = "#owner = :seen_owner AND #rev = :seen_rev"
_LEASE_OVER = "#lease_until < :now_ms"  # false where there is no lease: absent never means expired
_OWN = "#owner = :owner"

RESERVE = f"{_ABSENT} OR {_SETTLED_AND_EXPIRED}"
RESUME = f"#status = :failed_retryable AND {_SAME_VERSION}"
TAKE_OVER = (
    f"#status = :in_progress AND #effects = :repeatable AND {_SAME_VERSION} AND {_LEASE_OVER}"
)
EXPIRE_LEASE_TO_UNKNOWN = f"#status = :in_progress AND {_SAME_VERSION} AND {_LEASE_OVER}"
EXPIRE_LEASE_TO_RETRYABLE = TAKE_OVER
COMPLETE = f"#status IN (:in_progress, :unknown) AND {_OWN}"
RELEASE = f"#status = :in_progress AND {_OWN}"
MARK_UNKNOWN = f"#status = :in_progress AND {_OWN}"
SETTLE = "#status = :unknown AND #owner = :seen_owner AND #effects <> :recorded"
LATE_EFFECT = f"#status = :failed_retryable AND #effects <> :recorded AND {_SAME_VERSION}"

_CONSTANTS: dict[str, str] = {
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
    values = {":now_s": {"N": str(transition.now_ms // 1000)}}
    return {
        "TableName": table,
        "Item": attribute_values(transition.record),
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **_condition(RESERVE, values),
    }


def update_parameters(table: str, transition: Transition) -> dict[str, Any]:
    """The UpdateItem of any other transition.

    It names what it sets and removes, and leaves every other attribute alone.
    """
    condition, values = _guard(transition)
    sets, removes = _changes(transition)
    update = "SET #rev = #rev + :one" + "".join(f", #{name} = :set_{name}" for name in sets)
    if isinstance(transition, Resume | TakeOver):
        update += ", #attempt = #attempt + :one"
    if removes:
        update += " REMOVE " + ", ".join(f"#{name}" for name in removes)
    values |= {":one": {"N": "1"}} | {f":set_{name}": value for name, value in sets.items()}
    return {
        "TableName": table,
        "Key": {"pk": {"S": transition.pk}},
        "UpdateExpression": update,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        **_condition(condition, values, update),
    }


def _guard(transition: Transition) -> tuple[str, Item]:
    match transition:
        case Reserve():
            raise AssertionError("Bug: a reserve is a put")
        case Resume():
            return RESUME, _version(transition.seen.owner, transition.seen.rev)
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
        case Settle():
            return SETTLE, {":seen_owner": {"S": transition.seen_owner}}
        case LateEffect():
            return LATE_EFFECT, _version(transition.seen.owner, transition.seen.rev)
        case _:
            assert_never(transition)


def _version(owner: str, rev: int) -> Item:
    return {":seen_owner": {"S": owner}, ":seen_rev": {"N": str(rev)}}


def _now(now_ms: int) -> Item:
    return {":now_ms": {"N": str(now_ms)}}


def _changes(transition: Transition) -> tuple[Item, list[str]]:
    match transition:
        case Reserve():
            raise AssertionError("Bug: a reserve is a put")
        case Resume() | TakeOver():
            return _restart(transition.lease)
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
        case LateEffect():
            sets, removes = _end(transition.ending)
            return sets | {"owner": {"S": transition.new_owner}}, removes
        case _:
            assert_never(transition)


def _restart(lease: Lease) -> tuple[Item, list[str]]:
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
                "expires_at": {"N": str(to.expires_at_s)},
                "last_error": {"S": to.reason},
            }
            return sets, ["lease_until", "due_shard", "due_at"]
        case Doubt():
            return {
                "status": {"S": Status.UNKNOWN.value},
                "last_error": {"S": to.reason},
                **_due(to.due),
            }, []


def _due(due: Due) -> Item:
    return {"due_shard": {"S": due.shard}, "due_at": {"N": str(due.at_ms)}}


def _condition(condition: str, values: Item, update: str = "") -> dict[str, Any]:
    # DynamoDB refuses a name or a value that is declared and not used.
    used = f"{update} {condition}"
    constants = {
        name: {"S": value}
        for name, value in _CONSTANTS.items()
        if name in _VALUE.findall(condition)
    }
    return {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in sorted(set(_NAME.findall(used)))},
        "ExpressionAttributeValues": constants | values,
    }
