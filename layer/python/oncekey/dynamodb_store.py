"""The store on DynamoDB: one conditional write for each transition, each with its named condition.

The conditions are the guard of the whole protocol; `oncekey.transitions.permitted` is their
meaning, and a contract test compares the two over every state.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, assert_never

from oncekey.dynamodb_client import (
    CALL_TIMEOUT_MS,
    longest_call_ms,
    own_client,
    store_error,
    warn_about,
)
from oncekey.dynamodb_codec import Item, attribute_values, record_from_item
from oncekey.record import RESPONSE_VERSION, Due, Effects, Record, Status
from oncekey.store import Refused, Written
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

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

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


class DynamoDBStore:
    """Records in one DynamoDB table with the partition key `pk`.

    Creating it sends nothing and needs no Region; a client is made at the first call, once, unless
    `client` (an existing boto3 DynamoDB client) is given. A client given is used as it is; a
    warning is logged if its timeouts are too long.
    """

    def __init__(
        self,
        table: str,
        *,
        client: DynamoDBClient | None = None,
        call_timeout_ms: int = CALL_TIMEOUT_MS,
    ) -> None:
        self._table = table
        self._client = client
        if client is None:
            # A connection that cannot be made and one that does not answer are waited for in turn.
            self._call_timeout_ms, self._longest_call_ms = call_timeout_ms, 2 * call_timeout_ms
        else:
            self._call_timeout_ms = self._longest_call_ms = longest_call_ms(client)
            warn_about(client)

    @property
    def call_timeout_ms(self) -> int:
        """The longest that one call may take: a connect and a read time-out."""
        return self._longest_call_ms

    def write(self, transition: Transition) -> Written | Refused:
        """See `oncekey.store.Store.write`.

        One PutItem for a reserve, one UpdateItem for everything else.
        """
        try:
            if isinstance(transition, Reserve):
                self._connected().put_item(**put_parameters(self._table, transition))
            else:
                self._connected().update_item(**update_parameters(self._table, transition))
        except Exception as error:  # noqa: BLE001 -- every failure of a client is a store failure, and none may run a handler
            return self._refused(error)
        return Written()

    def read(self, pk: str) -> Record | None:
        """See `oncekey.store.Store.read`: one strongly consistent GetItem."""
        try:
            answer = self._connected().get_item(
                TableName=self._table, Key={"pk": {"S": pk}}, ConsistentRead=True
            )
        except Exception as error:
            raise store_error(error) from error
        item = answer.get("Item")
        return None if item is None else record_from_item(item)

    def _connected(self) -> DynamoDBClient:
        # Two threads may both make one here; the later stays and both work.
        if self._client is None:
            self._client = own_client(self._call_timeout_ms)
        return self._client

    def _refused(self, error: Exception) -> Refused:
        response: dict[str, Any] = getattr(error, "response", {})
        if response.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
            raise store_error(error) from error
        item: Item | None = response.get("Item")
        return Refused(record_from_item(item) if item else None)

    def __repr__(self) -> str:
        return f"DynamoDBStore(table={self._table!r})"


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
                "response": {"S": to.response},
                "response_version": {"N": str(RESPONSE_VERSION)},
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
