"""The `due` index: which records somebody must look at now. It holds open records alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.settings import DUE_SHARDS
from oncekey.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ON_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DuePage:
    """Keys of records that are due, the longest due first.

    `after` asks for the next page, and is None on the last one. `read` is how many index entries
    the page has cost.
    """

    keys: tuple[str, ...]
    after: Any = None
    read: int = 0


class OpenRecords(Store, Protocol):
    """A store whose due records can be found."""

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> DuePage:
        """Up to `MOST_ON_PAGE` records of `shard` that are due at `until_ms`, from the index.

        The index lags behind the records, so each must be read before anything follows from it.

        Raises:
            StoreError: the store did not answer.
        """
        ...

    def put_off(self, pk: str, *, due_by_ms: int, to_ms: int, counts: bool = True) -> int | None:
        """Let what is due by `due_by_ms` be due at `to_ms`, whatever it is, without reading it.

        No transition, for what a visit can do nothing with: it changes nothing that a decision is
        made from. How often that was done, this time included if it `counts`; None if it is not due
        by then, because somebody was here.

        Raises:
            StoreError: the store did not answer, or does not permit it; it may have been put off.
        """
        ...

    def most_due_shards(self, at_least: int) -> int:
        """The most shards that this table's records have ever been spread over.

        When it returns, `at_least` is on record as used.

        Raises:
            StoreError: the store did not answer.
        """
        ...


def due_keys(store: OpenRecords, *, until_ms: int, shards: int, first: int = 0) -> Iterator[str]:
    """The keys of all records that are due at `until_ms`, a page of each shard in turn.

    Also of shards that a higher number had once: no record is hidden when it is lowered. No shard
    waits for the end of another. `first` is where the round begins.

    Raises:
        StoreError: the store did not answer; what was not given is still due.
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
