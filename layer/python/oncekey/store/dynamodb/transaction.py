"""A commit as one TransactWriteItems, and the meaning of its cancellation.

https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import RefusedWrite, StoreError
from oncekey.record.commit import ConditionsFailed, Inapplicable
from oncekey.record.counter import RefusedCount
from oncekey.record.transitions import Reserve
from oncekey.store.aws_errors import contention_of, is_after_retry, store_error
from oncekey.store.dynamodb.author_writes import python_values
from oncekey.store.dynamodb.codec import record_from_item
from oncekey.store.dynamodb.counters import count_update, counter_from_item
from oncekey.store.dynamodb.expressions import put_parameters, update_parameters
from oncekey.store.dynamodb.outbox import message_item
from oncekey.store.store import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.record.commit import Commit
    from oncekey.record.message import Message
    from oncekey.record.stored_answer import Blob
    from oncekey.store.dynamodb.codec import Item

_ACTIONS = {"put": "Put", "update": "Update", "delete": "Delete", "check": "ConditionCheck"}
_FAILED = "ConditionalCheckFailed"
_RETURN_OLD = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def transaction_parameters(table: str, outbox: str, commit: Commit) -> dict[str, Any]:
    """The TransactWriteItems of `commit`. Equal commits give equal parameters.

    The record's own action comes first, then the author's in their order. The counts come last.
    """
    actions: list[dict[str, Any]] = []
    transition = commit.transition
    if isinstance(transition, Reserve):
        actions.append({"Put": put_parameters(table, transition)})
    elif transition is not None:
        actions.append({"Update": update_parameters(table, transition)})
    actions += [
        {_ACTIONS[write.kind]: {**write.parameters, **_RETURN_OLD}} for write in commit.writes
    ]
    actions += [{"Put": _message_put(outbox, message)} for message in commit.messages]
    if commit.companion is not None:
        actions.append({"Put": {"TableName": table, "Item": companion_item(commit.companion)}})
    actions += [
        {"Update": _expiry_update(table, at.name, expires_at_s)}
        for at, expires_at_s in commit.expiring
    ]
    actions += [{"Update": count_update(table, count)} for count in commit.counts]
    return {"TransactItems": actions, "ClientRequestToken": commit.token}


def companion_item(blob: Blob) -> Item:
    """The companion item of an answer or a result.

    It has no expiry as long as its record has none.
    """
    item: Item = {"pk": {"S": blob.at.name}, "data": {"B": blob.data}}
    if blob.expires_at_s:
        item["expires_at"] = {"N": str(blob.expires_at_s)}
    return item


def cancellation(
    error: Exception, commit: Commit, client: Any = None
) -> Refused | ConditionsFailed | Inapplicable:
    """The meaning of a failed transaction of `client`. The record's own reason is checked first.

    Raises:
        StoreError: the transaction may be sent again, or may have been applied.
    """
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    code = response.get("Error", {}).get("Code")
    if code == "ValidationException":
        return Inapplicable(str(response["Error"].get("Message", code)))
    if type(error).__name__ == "ParamValidationError":
        # botocore's own text repeats the values.
        return Inapplicable("a parameter has a type that DynamoDB does not take")
    if code != "TransactionCanceledException":
        raise store_error(error, client) from error
    reasons: list[Mapping[str, Any]] = response.get("CancellationReasons") or []
    fence, rest = (reasons[:1], reasons[1:]) if commit.transition is not None else ([], reasons)
    if fence and fence[0].get("Code") == _FAILED:
        item = fence[0].get("Item")
        return Refused(record_from_item(item) if item else None)
    _raise_contention(fence, error)
    split = len(rest) - len(commit.counts)
    rest, of_counts = rest[:split], rest[split:]
    failed = tuple(
        RefusedWrite(write.number, write.kind, write.table, python_values(reason.get("Item")))
        for write, reason in zip(commit.writes, rest, strict=False)
        if reason.get("Code") == _FAILED
    )
    full = _refused_counts(commit, of_counts)
    if failed or full:
        return ConditionsFailed(failed, full)
    _raise_contention(rest, error)
    _raise_contention(of_counts, error, "counter")
    return Inapplicable(_why(commit, fence, [*rest, *of_counts]))


def _refused_counts(commit: Commit, reasons: list[Mapping[str, Any]]) -> tuple[RefusedCount, ...]:
    return tuple(
        RefusedCount(count, counter_from_item(item) if (item := reason.get("Item")) else None)
        for count, reason in zip(commit.counts, reasons, strict=False)
        if reason.get("Code") == _FAILED
    )


def _raise_contention(
    reasons: list[Mapping[str, Any]], error: Exception, named: str | None = None
) -> None:
    for reason in reasons:
        contention = contention_of(str(reason.get("Code")))
        if contention is not None:
            code = str(reason["Code"])
            failure = StoreError(code, transient=True, contention=named or contention)
            failure.is_after_retry = is_after_retry(error)
            raise failure from error


def _why(commit: Commit, fence: list[Mapping[str, Any]], rest: list[Mapping[str, Any]]) -> str:
    own = ["the operation's record"] if fence else []
    named = [*own, *map(str, commit.writes), *map(str, commit.messages)]
    for number, reason in enumerate([*fence, *rest]):
        code = str(reason.get("Code"))
        if code != "None":
            what = named[number] if number < len(named) else "an item of oncekey's own"
            return f"{what}: {code}: {reason.get('Message', '')}"
    return "DynamoDB cancelled the transaction and gave no reason"


def _message_put(outbox: str, message: Message) -> dict[str, Any]:
    return {
        "TableName": outbox,
        "Item": message_item(message),
        "ConditionExpression": "attribute_not_exists(#id)",
        "ExpressionAttributeNames": {"#id": "id"},
    }


def _expiry_update(table: str, name: str, expires_at_s: int) -> dict[str, Any]:
    return {
        "TableName": table,
        "Key": {"pk": {"S": name}},
        "UpdateExpression": "SET #expires_at = :expires_at",
        "ExpressionAttributeNames": {"#expires_at": "expires_at"},
        "ExpressionAttributeValues": {":expires_at": {"N": str(expires_at_s)}},
    }
