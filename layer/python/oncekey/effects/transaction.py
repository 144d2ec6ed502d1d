"""`op.transaction` collects business writes, which are applied with the operation's completion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.errors import Final, TransactionInvalid
from oncekey.record.business_write import BusinessWrite
from oncekey.store.dynamodb.author_writes import conditions, low_level, size_bytes
from oncekey.store.dynamodb.sizes import LARGEST_ITEM_BYTES, LARGEST_TRANSACTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from oncekey.record.message import Message
    from oncekey.store.dynamodb.author_writes import Condition, Values

# A DynamoDB transaction has at most 100 actions. One is the record's, one a large answer's.
MOST_ITEMS = 98
# The size of the record itself, and of the names of the added attributes.
_RECORD_BYTES = 4_096
_NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class Collected:
    """The writes and messages that a run has collected since its last commit."""

    writes: list[BusinessWrite] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.writes or self.messages)

    @property
    def size_bytes(self) -> int:
        """The size of the collected writes and messages."""
        writes = sum(write.size_bytes for write in self.writes)
        return writes + sum(message.size_bytes for message in self.messages)

    def take(self) -> Collected:
        """Remove and return everything collected so far."""
        taken = Collected(self.writes, self.messages)
        self.writes, self.messages = [], []
        return taken

    def fits(self, added_bytes: int) -> bool:
        """Whether the transaction has room for one more item of this size."""
        return self.size_bytes + added_bytes + _RECORD_BYTES <= LARGEST_TRANSACTION_BYTES

    def check(self, what: object, added_bytes: int) -> None:
        """Check that one more item, `what`, fits.

        Raises:
            TransactionInvalid: it does not fit.
        """
        if len(self.writes) + len(self.messages) >= MOST_ITEMS:
            raise TransactionInvalid(
                f"{what}: one commit holds at most {MOST_ITEMS} writes and messages; commit what"
                " was collected so far with op.commit(...), or write less"
            )
        if added_bytes > LARGEST_ITEM_BYTES:
            raise TransactionInvalid(
                f"{what} has {added_bytes} bytes, and DynamoDB takes {LARGEST_ITEM_BYTES} an item;"
                " keep the large part elsewhere, and its address in the item"
            )
        total = added_bytes + self.size_bytes + _RECORD_BYTES
        if total > LARGEST_TRANSACTION_BYTES:
            raise TransactionInvalid(
                f"{what} makes {total} bytes of this commit, and DynamoDB takes"
                f" {LARGEST_TRANSACTION_BYTES} a transaction; commit what was collected so far with"
                " op.commit(...)"
            )


class Transaction:
    """Business writes of one operation to your own tables, in the record's account and Region.

    Collecting a write does not send it. A final answer, or `op.commit`, applies all collected
    writes in one transaction together with the operation's record. Either all of them are applied
    or none, and never twice, also after retries and takeovers. Items, keys and values are plain
    Python values as in boto3's resource (Decimal, not float). A condition is an expression or
    boto3's `Attr(...)`. `otherwise` is the answer if the condition does not hold.
    https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html

    Each method raises `TransactionInvalid` for a write that does not fit into the transaction,
    `EffectMisused` inside a step, and TypeError for a value that DynamoDB cannot store. Two puts of
    the same item are detected by DynamoDB only.
    """

    def __init__(self, collected: Collected, check: Callable[[str], None]) -> None:
        self._collected = collected
        self._check = check

    def put(
        self,
        table: str,
        item: Mapping[str, Any],
        *,
        condition: Condition | None = None,
        names: Mapping[str, str] = _NOTHING,
        values: Values = _NOTHING,
        otherwise: Final | None = None,
    ) -> None:
        """Put `item` in place of an existing item, if `condition` holds."""
        parameters = {"Item": low_level(item)}
        self._add("put", table, parameters, condition, names, values, otherwise)

    def update(
        self,
        table: str,
        key: Mapping[str, Any],
        expression: str,
        *,
        condition: Condition | None = None,
        names: Mapping[str, str] = _NOTHING,
        values: Values = _NOTHING,
        otherwise: Final | None = None,
    ) -> None:
        """Change the item with `key` by an update expression, if `condition` holds."""
        parameters = {"Key": low_level(key), "UpdateExpression": expression}
        self._add("update", table, parameters, condition, names, values, otherwise)

    def delete(
        self,
        table: str,
        key: Mapping[str, Any],
        *,
        condition: Condition | None = None,
        names: Mapping[str, str] = _NOTHING,
        values: Values = _NOTHING,
        otherwise: Final | None = None,
    ) -> None:
        """Delete the item with `key`, if `condition` holds."""
        parameters = {"Key": low_level(key)}
        self._add("delete", table, parameters, condition, names, values, otherwise)

    def check(
        self,
        table: str,
        key: Mapping[str, Any],
        condition: Condition,
        *,
        names: Mapping[str, str] = _NOTHING,
        values: Values = _NOTHING,
        otherwise: Final | None = None,
    ) -> None:
        """Write nothing, but refuse the transaction unless the item with `key` fits `condition`."""
        parameters = {"Key": low_level(key)}
        self._add("check", table, parameters, condition, names, values, otherwise)

    def _add(
        self,
        kind: str,
        table: str,
        own: dict[str, Any],
        condition: Condition | None,
        names: Mapping[str, str],
        values: Values,
        otherwise: Final | None,
    ) -> None:
        self._check(f"op.transaction.{kind}")
        if not _is_text(table):
            raise TransactionInvalid(f"op.transaction.{kind}: name the table, as text")
        if kind == "update" and not _is_text(own["UpdateExpression"]):
            raise TransactionInvalid("op.transaction.update: write an update expression, as text")
        if kind == "check" and condition is None:
            raise TransactionInvalid("op.transaction.check: a check is made of a condition")
        answer: object = otherwise
        if answer is not None and (not isinstance(answer, Final) or answer.commit):
            raise TransactionInvalid(
                "otherwise is a Final(status, body) without commit: nothing is left to be committed"
            )
        parameters = {"TableName": table, **own, **conditions(condition, names, values)}
        write = BusinessWrite(
            number=len(self._collected.writes) + 1,
            kind=kind,
            table=table,
            size_bytes=size_bytes(parameters),
            parameters=parameters,
            key=own.get("Key"),
            otherwise=otherwise,
        )
        self._collected.check(write, write.size_bytes)
        self._check_item(write)
        self._collected.writes.append(write)

    def _check_item(self, write: BusinessWrite) -> None:
        for other in self._collected.writes:
            if other.table == write.table and _same_item(other, write):
                raise TransactionInvalid(
                    f"{write} is the same item as {other}: DynamoDB takes one action for each item"
                    " of a transaction, so put both into one expression"
                )


def _same_item(one: BusinessWrite, other: BusinessWrite) -> bool:
    # A put names no key. The key of another action on the table says which attributes form it.
    key = one.key or other.key
    if key is None:
        return False
    return all(_has(write, key) for write in (one, other))


def _has(write: BusinessWrite, key: Mapping[str, Any]) -> bool:
    if write.key is not None:
        return write.key == key
    item = write.parameters["Item"]
    return all(item.get(name) == value for name, value in key.items())


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
