"""Finding many records: open ones by the index `due`, all of them by a scan of the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from oncekey.record.record import Status
from oncekey.store.due_index import due_keys
from oncekey.store.dynamodb.codec import RecordUnreadable, record_from_item
from oncekey_operator.records.views import is_told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from oncekey.record.record import Record
    from oncekey.store.due_index import OpenRecords
    from oncekey_operator.targets import Target

# Far beyond every due time: all records of the index are wanted, not those that are due now.
_EVER_MS = 10**15
_READ_AT_ONCE = 8
_READ_AHEAD = 100
_SEGMENTS = 8
# An eventually consistent read of 4 KB takes half a read unit.
_BYTES_PER_UNIT = 8_192
# The key of a record begins so. Companions have the same beginning and no status.
_VERSION = "v1#"
_ESCALATED = "escalated"
# What `Wanted.states` may have.
STATES = (*(each.value.lower().replace("_", "-") for each in Status), _ESCALATED)
# They wait for nobody, so the index of open records has few of them, or none.
NOT_IN_INDEX = frozenset({"failed-retryable", "completed"})
# Hears the key of an item that cannot be read as a record, and why.
LeftOut: TypeAlias = "Callable[[str, RecordUnreadable], object]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records are listed. Without `states`, each state is; empty texts are no condition."""

    states: frozenset[str] = field(default_factory=frozenset)
    tenant: str = ""
    operation: str = ""
    operation_id: str = ""

    def fits(self, record: Record) -> bool:
        """Whether `record` is listed."""
        return (
            (not self.states or bool(self.states & _states(record)))
            and self.tenant in {"", record.tenant}
            and self.operation in {"", record.operation}
            and self.operation_id in {"", record.operation_id}
        )


def _states(record: Record) -> set[str]:
    found = {record.status.value.lower().replace("_", "-")}
    if record.status is Status.UNKNOWN and is_told(record):
        found.add(_ESCALATED)
    return found


def not_told(_pk: str, _error: RecordUnreadable) -> None:
    """Leave an item out, and say nothing: the reconciler escalates it."""


def readable(pk: str, read: Callable[[], Record | None], left_out: LeftOut) -> Record | None:
    """What `read` returns. An item that is no record hides no other: it is left out."""
    try:
        return read()
    except RecordUnreadable as error:
        left_out(pk, error)
        return None


def open_records(
    store: OpenRecords, wanted: Wanted, left_out: LeftOut = not_told
) -> Iterator[Record]:
    """The open records that are wanted: one query for each page of the index, and a read of each.

    Raises:
        StoreError: the store did not answer.
    """

    def read(pk: str) -> Record | None:
        return readable(pk, partial(store.read, pk), left_out)

    keys = iter(due_keys(store, until_ms=_EVER_MS, shards=0))
    with ThreadPoolExecutor(_READ_AT_ONCE) as readers:
        while page := list(islice(keys, _READ_AHEAD)):
            for record in readers.map(read, page):
                if record is not None and record.due is not None and wanted.fits(record):
                    yield record


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanCost:
    """What a scan reads, by DynamoDB's own figures, which are up to six hours old."""

    items: int
    size_bytes: int

    @property
    def read_units(self) -> int:
        """The read units that a scan takes."""
        return max(1, -(-self.size_bytes // _BYTES_PER_UNIT))


@dataclass(frozen=True, slots=True)
class RecordsTable:
    """The whole table of records. It is scanned in so many `segments` at once."""

    client: Any
    table: str
    segments: int = _SEGMENTS

    def described(self) -> tuple[bool, ScanCost]:
        """Whether the table has the index `due`, and what a scan costs."""
        found = self.client.describe_table(TableName=self.table)["Table"]
        indexes = {each["IndexName"] for each in found.get("GlobalSecondaryIndexes", [])}
        cost = ScanCost(items=found.get("ItemCount", 0), size_bytes=found.get("TableSizeBytes", 0))
        return "due" in indexes, cost

    def scanned(
        self, wanted: Wanted, progress: Callable[[int], None], left_out: LeftOut = not_told
    ) -> Iterator[Record]:
        """The records that are wanted, by a parallel scan. `progress` is told the items read."""
        read = 0
        with ThreadPoolExecutor(self.segments) as pool:
            after: dict[int, Any] = dict.fromkeys(range(self.segments))
            while after:
                pages = pool.map(self._page, after.keys(), after.values())
                for segment, page in zip(list(after), list(pages), strict=True):
                    read += page["ScannedCount"]
                    progress(read)
                    if "LastEvaluatedKey" in page:
                        after[segment] = page["LastEvaluatedKey"]
                    else:
                        del after[segment]
                    yield from filter(wanted.fits, _records(page["Items"], left_out))

    def _page(self, segment: int, after: Any) -> Any:
        start = {} if after is None else {"ExclusiveStartKey": after}
        return self.client.scan(
            TableName=self.table,
            Segment=segment,
            TotalSegments=self.segments,
            FilterExpression="begins_with(pk, :version) AND attribute_exists(#status)",
            ExpressionAttributeNames={"#status": "status"},
            ExpressionAttributeValues={":version": {"S": _VERSION}},
            **start,
        )


def table_of(target: Target) -> RecordsTable:
    """The table of records of a target. That of the local runtime is small, and scanned in one."""
    if target.local is not None:
        return RecordsTable(target.dynamodb, target.table, segments=1)
    return RecordsTable(target.dynamodb, target.table)


def _records(items: Iterable[Any], left_out: LeftOut) -> Iterator[Record]:
    for item in items:
        record = readable(item["pk"]["S"], partial(record_from_item, item), left_out)
        if record is not None:
            yield record
