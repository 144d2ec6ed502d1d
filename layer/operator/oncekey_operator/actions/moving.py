"""Copying the items of one table of records to another, again and again until both agree.

Each item is written by one conditional put. So the copy may be interrupted and repeated, and may
run while the old table still serves. It never takes a record back to an older state, and never
touches one that the new table has taken further. A record whose attempt runs is left for the next
pass, because its end will be written to the old table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.record.record import Status
from oncekey.store.aws_errors import is_refusal
from oncekey.store.dynamodb.codec import record_from_item
from oncekey.store.dynamodb.pauses import PAUSES_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oncekey.record.record import Record
    from oncekey.store.dynamodb.codec import Item
    from oncekey_operator.audit import Line

# Of the audit lines of a pass.
ACTION, WHOLE = "move", "done"
_ABSENT = "attribute_not_exists(#pk)"
# The same operation, as it was before and without an attempt that may run on the new table. Or the
# operation before it, whose record had expired.
_OLDER_RECORD = (
    f"{_ABSENT} OR (#operation_id = :operation_id AND #rev < :rev"
    " AND (#status <> :running OR #lease_until <= :now_ms))"
    " OR (#operation_id <> :operation_id AND #expires_at <= :now)"
)


@dataclass(slots=True, kw_only=True)
class Moved:
    """What one pass has done.

    Attributes:
        read: the items of the old table.
        written: those that the new table did not have, or had as they were before.
        present: those that it has already.
        expired: those that are past their TTL. They are left behind.
        running: the records whose attempt may still run. The next pass copies them.
        conflicts: the records that both tables have changed. They are left as they are.
        unreadable: the items that look like records and are not. They are left behind.
    """

    read: int = 0
    written: int = 0
    present: int = 0
    expired: int = 0
    running: int = 0
    conflicts: int = 0
    unreadable: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the new table has everything that the old one had in this pass."""
        return not (self.running or self.conflicts or self.unreadable)


def whole_since_ms(lines: Iterable[Line], target: str) -> int | None:
    """When the last whole pass to `target` ended, by the audit `lines` of a table; None: never."""
    ends = [
        line.at.partition("#")[0]
        for line in lines
        if (line.action, line.outcome, line.before) == (ACTION, WHOLE, whither(target))
    ]
    if not ends:
        return None
    return int(datetime.fromisoformat(max(ends)).timestamp() * 1000)


def whither(target: str) -> str:
    """What the audit lines of a move say of the table that it goes to."""
    return f"to {target}"


def move(client: Any, source: str, target: str, now_ms: int, read: Callable[[int], None]) -> Moved:
    """One pass. `read` hears the number of items so far.

    Raises:
        StoreError, ClientError: a table did not answer; the next pass begins from the start.
    """
    moved = Moved()
    for item in _items(client, source):
        moved.read += 1
        read(moved.read)
        _copy(client, target, item, now_ms, moved)
    return moved


def _copy(client: Any, target: str, item: Item, now_ms: int, moved: Moved) -> None:
    if item["pk"]["S"] == PAUSES_KEY:
        # A pause is an order for one table: the new one is paused and resumed by itself.
        return
    if int(item.get("expires_at", {}).get("N", now_ms)) <= now_ms // 1000:
        moved.expired += 1
        return
    record: Record | None = None
    if "status" in item:
        try:
            record = record_from_item(item)
        except StoreError:
            moved.unreadable += 1
            return
        if record.status is Status.IN_PROGRESS and not record.is_lease_over(now_ms):
            moved.running += 1
            return
    found = _put(client, target, item, record, now_ms)
    if found is None:
        moved.written += 1
    elif record is None or found == item or _is_ahead(found, record):
        moved.present += 1
    else:
        moved.conflicts += 1


def _put(client: Any, target: str, item: Item, record: Record | None, now_ms: int) -> Item | None:
    """None if the item was written; otherwise the item that was met, and that is not older."""
    condition, names, values = _ABSENT, {"#pk": "pk"}, {}
    if record is not None:
        condition = _OLDER_RECORD
        used = ("operation_id", "rev", "expires_at", "status", "lease_until")
        names |= {f"#{name}": name for name in used}
        values = {f":{name}": item[name] for name in ("operation_id", "rev")}
        values[":now"], values[":now_ms"] = {"N": str(now_ms // 1000)}, {"N": str(now_ms)}
        values[":running"] = {"S": Status.IN_PROGRESS.value}
    elif (number := next((name for name in ("count", "shards") if name in item), None)) is not None:
        condition = f"{_ABSENT} OR #number < :number"
        names["#number"], values[":number"] = number, item[number]
    given = {"ExpressionAttributeValues": values} if values else {}
    try:
        client.put_item(
            TableName=target,
            Item=item,
            ConditionExpression=condition,
            ExpressionAttributeNames=names,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **given,
        )
    except Exception as error:
        if not is_refusal(error):
            raise
        met: Item = getattr(error, "response", {}).get("Item") or item
        return met
    return None


def _is_ahead(found: Item, record: Record) -> bool:
    """Whether the new table has taken this operation further.

    It cannot have another operation of the key: this one has not expired, and keeps its key.
    """
    is_the_same = found["operation_id"]["S"] == record.operation_id
    return is_the_same and int(found["rev"]["N"]) > record.rev


def _items(client: Any, table: str) -> Iterator[Item]:
    for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
        yield from page["Items"]
