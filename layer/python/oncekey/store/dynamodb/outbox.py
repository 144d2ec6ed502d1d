"""The outbox table: its items as messages, both ways, and the operations of a relay on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError
from oncekey.record.message import Message
from oncekey.record.set_aside import SetAside
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.settings import STORE_TIMEOUT_MS
from oncekey.store.aws_errors import is_refusal, store_error
from oncekey.store.dynamodb.client import making_a_client, own_client
from oncekey.store.dynamodb.codec import answer_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.errors import StoreError
    from oncekey.store.dynamodb.codec import Item

_MOST_DELETED_AT_ONCE = 25
# A page also ends at 1 MB. Smaller pages would make it slow to skip many messages set aside.
_MOST_ON_PAGE = 1_000
# A message set aside is escalated again if nobody has put it back by then.
_TOLD_AGAIN_MS = 7 * 24 * 3_600_000
# A method that boto3's client has, and neither its resource nor the client of another service.
_CLIENT_HAS = "transact_write_items"
_TEXTS = ("id", "topic", "operation_id", "operation", "tenant")


class NotAMessage(ValueError):  # noqa: N818 -- a property of the item
    """An item of the outbox table that no relay can send. The text names what is wrong."""


def message_item(message: Message) -> Item:
    """The item of a message in the outbox table."""
    item: Item = {name: {"S": getattr(message, name)} for name in _TEXTS}
    item["created_at"] = {"N": str(message.created_at_ms)}
    if message.sequence:
        item["sequence"] = {"N": str(message.sequence)}
    if message.traceparent:
        item["traceparent"] = {"S": message.traceparent}
    if message.payload_ref is None:
        item["payload"] = {"S": message.payload}
    else:
        item["payload_ref"] = answer_value(message.payload_ref)
    return {name: value for name, value in item.items() if value != {"S": ""}}


def message_from_item(item: Mapping[str, Mapping[str, Any]]) -> Message:
    """The message in an item.

    Raises:
        NotAMessage: the item is not a message of this library.
    """
    try:
        texts = {name: str(item[name]["S"]) for name in _TEXTS if name != "tenant"}
        texts["tenant"] = str(item.get("tenant", {}).get("S", ""))
        payload_ref, payload = None, ""
        if "payload_ref" in item:
            at = {name: text["S"] for name, text in item["payload_ref"]["M"].items()}
            payload_ref = StoredRef(place=Place(at["place"]), name=at["name"], digest=at["digest"])
        else:
            payload = str(item["payload"]["S"])
        return Message(
            **texts,
            payload=payload,
            payload_ref=payload_ref,
            created_at_ms=int(item["created_at"]["N"]),
            sequence=_number(item, "sequence"),
            traceparent=_text(item, "traceparent"),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise NotAMessage(f"the item is no message of oncekey ({type(error).__name__})") from None


def whole_number(item: Mapping[str, Mapping[str, Any]], name: str) -> int | None:
    """The number under this name, without a fraction; None if there is none.

    Somebody else may have written a fraction. One such item must not stop the others.
    """
    found = item.get(name, {}).get("N")
    return None if found is None else int(found.partition(".")[0])


def _number(item: Mapping[str, Mapping[str, Any]], name: str) -> int:
    return whole_number(item, name) or 0


def _text(item: Mapping[str, Mapping[str, Any]], name: str) -> str:
    return str(item.get(name, {}).get("S", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPage:
    """A page of the table. `after` asks for the next page; None on the last page.

    `tries` says how often the queue has refused a message, if it has. `set_aside` are the messages
    to be escalated. `unreadable` are the ids of items that are not messages, with the reason.
    """

    messages: tuple[Message, ...]
    tries: Mapping[str, int] = field(default_factory=dict)
    set_aside: tuple[SetAside, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    after: Any = None


def _page(items: Sequence[Mapping[str, Mapping[str, Any]]], after: Any) -> OutboxPage:
    messages: list[Message] = []
    tries: dict[str, int] = {}
    set_aside: list[SetAside] = []
    unreadable: dict[str, str] = {}
    for item in items:
        message_id = _text(item, "id")
        if "set_aside_at" in item:
            set_aside.append(_set_aside(item))
            continue
        try:
            messages.append(message_from_item(item))
        except NotAMessage as fault:
            unreadable[message_id] = str(fault)
            continue
        if refused := _number(item, "tries"):
            tries[message_id] = refused
    return OutboxPage(
        messages=tuple(messages),
        tries=tries,
        set_aside=tuple(set_aside),
        unreadable=unreadable,
        after=after,
    )


def _set_aside(item: Mapping[str, Mapping[str, Any]]) -> SetAside:
    return SetAside(
        **{name: _text(item, name) for name in (*_TEXTS, "reason")},
        created_at_ms=_number(item, "created_at"),
        set_aside_at_ms=_number(item, "set_aside_at"),
    )


def _faults(name: object, client: object) -> Iterator[str]:
    if not isinstance(name, str) or not name.strip():
        yield f"name is {name!r}: the name of the outbox table is needed, as text"
    if client is not None and (isinstance(client, type) or not hasattr(client, _CLIENT_HAS)):
        yield f"client is a {type(client).__name__}: pass boto3.client('dynamodb'), or leave it out"


class OutboxTable:
    """The outbox table of a relay. Creating it sends nothing.

    Raises:
        ConfigurationError: the name is no text, or `client` is no client of DynamoDB.
    """

    def __init__(self, name: str, *, client: DynamoDBClient | None = None) -> None:
        faults = [*_faults(name, client)]
        if faults:
            raise ConfigurationError("OutboxTable", faults)
        self._name = name
        self._client = client

    def waiting(self, before_ms: int, after: Any = None) -> OutboxPage:
        """A page of the messages that were not written at `before_ms` or later.

        It includes messages set aside, unless they were escalated in the week before `before_ms`.
        The read is strongly consistent, so that a message deleted by a relay is not sent again.

        Raises:
            StoreError: the table did not answer.
        """
        start = {} if after is None else {"ExclusiveStartKey": after}
        names = ("created_at", "set_aside_at", "escalated_at")
        values = {":before_ms": before_ms, ":told_before_ms": before_ms - _TOLD_AGAIN_MS}
        try:
            answer: Any = self._connected().scan(
                TableName=self._name,
                ConsistentRead=True,
                FilterExpression=(
                    # An item without a time is found, too: it is unreadable.
                    "(attribute_not_exists(#set_aside_at) AND NOT #created_at >= :before_ms)"
                    " OR (attribute_exists(#set_aside_at) AND (attribute_not_exists(#escalated_at)"
                    " OR #escalated_at < :told_before_ms))"
                ),
                ExpressionAttributeNames={f"#{name}": name for name in names},
                ExpressionAttributeValues={name: {"N": str(at)} for name, at in values.items()},
                Limit=_MOST_ON_PAGE,
                **start,
            )
        except Exception as error:
            raise self._failure(error) from error
        return _page(answer.get("Items", []), answer.get("LastEvaluatedKey"))

    def count_try(self, message_id: str) -> int | None:
        """Count that the queue has refused this message.

        It returns how often that has happened, or None if the message is no longer in the table.

        Raises:
            StoreError: it may or may not have been counted.
        """
        changed = self._update(message_id, "ADD #tries :one", ("tries",), {":one": 1})
        return None if changed is None else _number(changed, "tries")

    def set_aside(self, message_id: str, reason: str, now_ms: int) -> bool:
        """Set this message aside: nobody sends it until a person has put it back.

        The whole message stays in the table. It returns False if the message was no longer there.

        Raises:
            StoreError: it may or may not be set aside.
        """
        changed = self._update(
            message_id,
            "SET #set_aside_at = if_not_exists(#set_aside_at, :now), #reason = :reason",
            ("set_aside_at", "reason"),
            {":now": now_ms, ":reason": reason},
        )
        return changed is not None

    def mark_told(self, message_id: str, now_ms: int) -> bool:
        """Note that this message, which is set aside, was escalated now.

        It returns False if the message was no longer in the table.

        Raises:
            StoreError: it may or may not be noted. If it is not, the message is escalated again.
        """
        changed = self._update(
            message_id, "SET #escalated_at = :now", ("escalated_at",), {":now": now_ms}
        )
        return changed is not None

    def requeue(self, message_id: str) -> bool:
        """Put back a message that was set aside, so that the next sweep sends it.

        Call it once the cause is removed. It returns False if the message was no longer there.

        Raises:
            StoreError: it may or may not be put back.
        """
        names = ("set_aside_at", "reason", "escalated_at", "tries")
        removed = ", ".join(f"#{name}" for name in names)
        changed = self._update(message_id, f"REMOVE {removed}", names, {})
        return changed is not None

    def _update(
        self,
        message_id: str,
        expression: str,
        names: Sequence[str],
        values: Mapping[str, int | str],
    ) -> Item | None:
        typed = {
            name: {"N": str(value)} if isinstance(value, int) else {"S": value}
            for name, value in values.items()
        }
        request: dict[str, Any] = {"ExpressionAttributeValues": typed} if typed else {}
        try:
            answer: Any = self._connected().update_item(
                TableName=self._name,
                Key={"id": {"S": message_id}},
                UpdateExpression=expression,
                # Without this, the update would recreate a message that another relay has deleted.
                ConditionExpression="attribute_exists(#id)",
                ExpressionAttributeNames={"#id": "id", **{f"#{name}": name for name in names}},
                ReturnValues="UPDATED_NEW",
                **request,
            )
        except Exception as error:
            if is_refusal(error):
                return None
            raise self._failure(error) from error
        changed: Item = answer.get("Attributes", {})
        return changed

    def delete(self, ids: Sequence[str]) -> set[str]:
        """Delete the messages of these ids, which were sent. It returns those not deleted.

        A message that another relay has already deleted counts as deleted.

        Raises:
            StoreError: any of them may still be there.
        """
        left: set[str] = set()
        for start in range(0, len(ids), _MOST_DELETED_AT_ONCE):
            left |= self._delete(ids[start : start + _MOST_DELETED_AT_ONCE])
        return left

    def _delete(self, ids: Sequence[str]) -> set[str]:
        requests: list[Any] = [{"DeleteRequest": {"Key": {"id": {"S": each}}}} for each in ids]
        try:
            answer: Any = self._connected().batch_write_item(RequestItems={self._name: requests})
        except Exception as error:
            raise self._failure(error) from error
        left: list[Any] = answer.get("UnprocessedItems", {}).get(self._name, [])
        return {each["DeleteRequest"]["Key"]["id"]["S"] for each in left}

    def _failure(self, error: Exception) -> StoreError:
        failure = store_error(error, self._client)
        if failure.transient:
            return failure
        return failure.at(f"on table {self._name!r}")

    def _connected(self) -> DynamoDBClient:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = own_client(STORE_TIMEOUT_MS)
        return self._client
