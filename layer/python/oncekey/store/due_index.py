"""The `due` index: the records that somebody must look at. It contains open records only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from oncekey.settings import DUE_SHARDS
from oncekey.store.store import Store
from oncekey.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ON_PAGE = 100


class DuePage(Value, kw_only=True):
    """Keys of records that are due, in order of their due time.

    `after` asks for the next page; None on the last page. `read` is the number of index entries
    that were read.
    """

    keys: tuple[str, ...]
    after: Any = None
    read: int = 0


class OpenRecords(Store, Protocol):
    """A store whose due records can be found."""

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> DuePage:
        """Up to `MOST_ON_PAGE` records of `shard` that are due at `until_ms`, from the index.

        The index lags behind the records, so each record must be read before any decision.

        Raises:
            StoreError: the store did not answer.
        """
        ...

    def put_off(self, pk: str, *, due_by_ms: int, to_ms: int, counts: bool = True) -> int | None:
        """Make the item, if it is due by `due_by_ms`, due at `to_ms`, without reading it.

        For items that a visit can do nothing with. It is not a transition: it changes no field that
        a decision depends on. It returns how often the item was put off, including this time if it
        `counts`; None if the item is not due by then, because another process has visited it.

        Raises:
            StoreError: the store did not answer, or does not permit it; the item may have been put
                off.
        """
        ...

    def most_due_shards(self, at_least: int) -> int:
        """The largest number of shards that this table's records have ever been spread over.

        When it returns, this number on record is not less than `at_least`.

        Raises:
            StoreError: the store did not answer.
        """
        ...


def due_keys(store: OpenRecords, *, until_ms: int, shards: int, first: int = 0) -> Iterator[str]:
    """The keys of all records that are due at `until_ms`, one page of each shard in turn.

    It also reads the shards of a larger number that was configured earlier, so lowering the number
    hides no record. No shard waits until another is finished. `first` is the shard to begin with.

    Raises:
        StoreError: the store did not answer; the remaining records are still due.
    """
    number = max(store.most_due_shards(shards), DUE_SHARDS)
    names = [str((first + each) % number) for each in range(number)]
    turn: dict[str, Any] = dict.fromkeys(names)
    while turn:
        for shard, after in list(turn.items()):
            page = store.due(shard, until_ms, after=after)
            if page.after is None:
                del turn[shard]
            else:
                turn[shard] = page.after
            yield from page.keys
