"""The outbox table: its items as messages, both ways, and what becomes of one that was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey import relay_telemetry
from oncekey.dynamodb_client import making_a_client, own_client
from oncekey.dynamodb_codec import answer_value
from oncekey.dynamodb_errors import store_error
from oncekey.outbox import Message
from oncekey.settings import STORE_TIMEOUT_MS
from oncekey.stored_answer import Elsewhere, Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient

    from oncekey.dynamodb_codec import Item
    from oncekey.errors import StoreError

_MOST_DELETED_AT_ONCE = 25
_MOST_ON_PAGE = 100
_TEXTS = ("id", "topic", "operation_id", "operation", "tenant")


class NotAMessage(ValueError):  # noqa: N818 -- a property of the item
    """An item of the outbox table that no relay can send. The text names what is wrong."""


def message_item(message: Message) -> Item:
    """The item of the outbox table that a message is."""
    item: Item = {name: {"S": getattr(message, name)} for name in _TEXTS}
    item["created_at"] = {"N": str(message.created_at_ms)}
    if message.claim is None:
        item["payload"] = {"S": message.payload}
    else:
        item["claim"] = answer_value(message.claim)
    return {name: value for name, value in item.items() if value != {"S": ""}}


def message_from_item(item: Mapping[str, Mapping[str, Any]]) -> Message:
    """The message that an item is.

    Raises:
        NotAMessage: it is none of this library's.
    """
    try:
        texts = {name: str(item[name]["S"]) for name in _TEXTS if name != "tenant"}
        texts["tenant"] = str(item.get("tenant", {}).get("S", ""))
        claim, payload = None, ""
        if "claim" in item:
            at = {name: text["S"] for name, text in item["claim"]["M"].items()}
            claim = Elsewhere(place=Place(at["place"]), name=at["name"], digest=at["digest"])
        else:
            payload = str(item["payload"]["S"])
        return Message(
            **texts, payload=payload, claim=claim, created_at_ms=int(item["created_at"]["N"])
        )
    except (KeyError, ValueError, TypeError) as error:
        raise NotAMessage(f"the item is no message of oncekey ({type(error).__name__})") from None


def _messages(items: Sequence[Mapping[str, Mapping[str, Any]]]) -> Iterator[Message]:
    for item in items:
        try:
            yield message_from_item(item)
        except NotAMessage as fault:
            relay_telemetry.message_set_aside("", str(fault))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxPage:
    """Messages that wait; `after` asks for the next page, and is None on the last one."""

    messages: tuple[Message, ...]
    after: Any = None


class OutboxTable:
    """The outbox table of a relay. Creating it sends nothing."""

    def __init__(self, name: str, *, client: DynamoDBClient | None = None) -> None:
        self._name = name
        self._client = client

    def waiting(self, before_ms: int, after: Any = None) -> OutboxPage:
        """A page of the messages that were written before `before_ms`.

        Strongly consistent: what a relay has deleted is not sent again. What is no message is left
        out, and logged.

        Raises:
            StoreError: the table did not answer.
        """
        start = {} if after is None else {"ExclusiveStartKey": after}
        try:
            answer: Any = self._connected().scan(
                TableName=self._name,
                ConsistentRead=True,
                FilterExpression="#created_at < :before_ms",
                ExpressionAttributeNames={"#created_at": "created_at"},
                ExpressionAttributeValues={":before_ms": {"N": str(before_ms)}},
                Limit=_MOST_ON_PAGE,
                **start,
            )
        except Exception as error:
            raise self._failure(error) from error
        return OutboxPage(
            messages=tuple(_messages(answer.get("Items", []))),
            after=answer.get("LastEvaluatedKey"),
        )

    def delete(self, ids: Sequence[str]) -> set[str]:
        """Delete the messages of these ids, which are in the queue; those that are still there.

        One that is not there, because another relay was faster, counts as deleted.

        Raises:
            StoreError: any of them may be still there.
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
        failure = store_error(error)
        if failure.transient:
            return failure
        return failure.at(f"on table {self._name!r}")

    def _connected(self) -> DynamoDBClient:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = own_client(STORE_TIMEOUT_MS)
        return self._client
