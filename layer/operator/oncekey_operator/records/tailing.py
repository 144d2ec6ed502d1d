"""What changes in the table of records, seen by looking again and again.

The table has no stream. So this sees a record as it is at each look, and not each write between
two looks. On the local runtime, it reads the whole table at each look. On AWS it reads the index
of open records: those that run, wait, are unknown or half done. A record that leaves the index is
read once more, which shows its end. An operation that begins and ends between two looks is not
seen there, and neither is a replay or a refusal, which write nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.store.due_index import due_keys
from oncekey.store.dynamodb.codec import record_from_item
from oncekey_operator.records.listing import not_told, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from oncekey.record.record import Record
    from oncekey.store.due_index import OpenRecords

# Every due time is before this one.
_END_OF_TIME_MS = 253_402_300_799_000


@dataclass(frozen=True, slots=True)
class Change:
    """A record that is new, or was written, since the look before. `before` is what it was then."""

    before: Record | None
    after: Record


@dataclass(slots=True)
class Tail:
    """Looks at records, and tells what has changed since the last look.

    `find` returns the records to look at. Of one that it no longer returns, `read` tells the end.
    """

    find: Callable[[], Iterable[Record]]
    read: Callable[[str], Record | None]
    _seen: dict[str, Record] = field(default_factory=dict[str, "Record"])
    _has_looked: bool = False

    def look(self) -> list[Change]:
        """What has changed, in the order of the records' times. The first look changes nothing.

        Raises:
            StoreError: the store did not answer.
        """
        looked_at = {record.pk: record for record in self.find()}
        found = dict(looked_at)
        for pk in self._seen.keys() - found.keys():
            record = self.read(pk)
            if record is not None:
                found[pk] = record
        changes = [
            Change(before, record)
            for pk, record in found.items()
            if (before := self._seen.get(pk)) is None or before != record
        ]
        # The end of a record that was read alone has been told.
        self._seen = looked_at
        if not self._has_looked:
            self._has_looked = True
            return []
        return sorted(changes, key=lambda each: each.after.created_at_ms)


def open_records(store: OpenRecords, most: int) -> list[Record]:
    """Up to `most` open records, by the index; those that are due first come first in a shard."""
    found: list[Record] = []
    for pk in due_keys(store, until_ms=_END_OF_TIME_MS, shards=0):
        record = readable(pk, partial(store.read, pk), not_told)
        if record is not None:
            found.append(record)
        if len(found) >= most:
            break
    return found


def all_records(client: Any, table: str) -> list[Record]:
    """Every record of a table that is small enough to be read whole."""
    pages = client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True)
    records = (
        readable(item["pk"]["S"], partial(record_from_item, item), not_told)
        for page in pages
        for item in page["Items"]
        if "status" in item
    )
    return [record for record in records if record is not None]
