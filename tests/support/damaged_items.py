"""Stored items that are damaged: every change of one attribute, at any depth."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from oncekey.errors import StoreError
from oncekey.store.dynamodb.codec import attribute_values, record_from_item
from tests.support.replacing import replace
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from oncekey.record.record import Record
    from oncekey.store.dynamodb.codec import Item

Path = tuple[str, ...]

# One value of each type that DynamoDB has.
_OTHER_TYPES: list[dict[str, Any]] = [
    *({"S": "x"}, {"S": ""}, {"N": "7"}, {"N": "7.5"}, {"B": b"\xff"}, {"BOOL": True}),
    *({"BOOL": False}, {"NULL": True}, {"M": {}}, {"L": []}, {"SS": ["x"]}, {}),
]


def damages(item: Item) -> Iterator[tuple[str, Item]]:
    """`item` with one attribute dropped, of another type, cut short or of a newer version.

    Each with its name. The primary key is what the item was found by, so it stays.
    """
    for path, value in _attributes(item):
        if path == ("pk",):
            continue
        name = ".".join(path)
        yield f"{name} dropped", _changed(item, path, None)
        for other in _OTHER_TYPES:
            if other.keys() != value.keys():
                yield f"{name} is {other}", _changed(item, path, other)
        ((kind, content),) = value.items()
        if kind in {"S", "N", "B"} and len(content) > 1:
            cut = {kind: content[: len(content) // 2]}
            yield f"{name} cut short", _changed(item, path, cut)
        if kind == "S":
            yield f"{name} of a newer version", _changed(item, path, {"S": f"{content}@v2"})


def _attributes(item: Mapping[str, Any], above: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    for name, value in item.items():
        yield (*above, name), value
        yield from _attributes(value.get("M", {}), (*above, name))


def _changed(item: Item, path: Path, value: dict[str, Any] | None) -> Item:
    changed = copy.deepcopy(item)
    inner: Any = changed
    for name in path[:-1]:
        inner = inner[name]["M"]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return changed


class ItemStore(FaultyStore):
    """A store in memory one of whose records can be replaced by an item, as DynamoDB returns it.

    While the item cannot be read, no condition holds for it, and each call raises, as it does on
    DynamoDB.
    """

    def __init__(self) -> None:
        super().__init__()
        self._unreadable: set[str] = set()

    def item(self) -> Item:
        """The only record, as an item."""
        (record,) = self.records.values()
        return attribute_values(record)

    def restore(self, records: Mapping[str, Record]) -> None:
        """Hold these records, whole, and nothing else."""
        self._unreadable.clear()
        self.records = dict(records)

    def put(self, item: Item) -> None:
        """Replace the record by `item`."""
        (pk,) = self.records
        try:
            self.records[pk] = replace(record_from_item(item), pk=pk)
        except StoreError:
            self._unreadable.add(pk)

    def write(self, transition: Any) -> Any:
        """Write, unless the record cannot be read."""
        self._refuse(transition.record.pk if hasattr(transition, "record") else transition.pk)
        return super().write(transition)

    def read(self, pk: str) -> Any:
        """Read, unless the record cannot be read."""
        self._refuse(pk)
        return super().read(pk)

    def commit(self, commit: Any) -> Any:
        """Commit, unless the record cannot be read."""
        if commit.transition is not None:
            self._refuse(commit.transition.pk)
        return super().commit(commit)

    def _refuse(self, pk: str) -> None:
        if pk in self._unreadable:
            raise StoreError("the stored record cannot be read", transient=False)
