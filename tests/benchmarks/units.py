"""What a request costs in DynamoDB's read and write units, by the published rules.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.store.dynamodb.sizes import item_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    Item = Mapping[str, Any]

WRITE_UNIT_BYTES, READ_UNIT_BYTES = 1024, 4096
# The keys of the index `due`, and that of its table.
_INDEX_KEYS = ("due_shard", "due_at")
_PROJECTED = (*_INDEX_KEYS, "pk")


@dataclass(frozen=True, slots=True)
class Units:
    """Read units, write units of tables, and write units of their index."""

    read: int = 0
    write: int = 0
    index: int = 0

    def __add__(self, other: Units) -> Units:
        return Units(self.read + other.read, self.write + other.write, self.index + other.index)


def read(item: Item | None) -> Units:
    """A strongly consistent read of one item; nothing found costs one unit."""
    return Units(read=_units(item, READ_UNIT_BYTES))


def written(before: Item | None, after: Item | None, *, times: int = 1) -> Units:
    """A write of one item; the same with `before` twice for a failed condition.

    A transaction writes everything twice (`times`), but for the index.
    """
    larger = max(_units(before, WRITE_UNIT_BYTES), _units(after, WRITE_UNIT_BYTES))
    return Units(write=times * larger, index=_index(before, after))


def _index(before: Item | None, after: Item | None) -> int:
    old, new = _entry(before), _entry(after)
    if old == new:
        return 0
    # A changed key deletes one entry and puts another.
    return sum(_units(entry, WRITE_UNIT_BYTES) for entry in (old, new) if entry is not None)


def _entry(item: Item | None) -> Item | None:
    if item is None or not all(name in item for name in _INDEX_KEYS):
        return None
    return {name: item[name] for name in _PROJECTED}


def _units(item: Item | None, unit_bytes: int) -> int:
    return max(1, -(-item_bytes(item or {}) // unit_bytes))
