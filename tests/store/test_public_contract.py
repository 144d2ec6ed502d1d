"""Our own stores are held against the contract that users hold theirs against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.transitions import Reserve
from oncekey.store.store import Refused, Written
from oncekey.testing import MemoryStore, StoreContract, dynamodb_tables
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.commit import Commit
    from oncekey.store.store import Store


class TestMemoryStore(StoreContract):
    """The store in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        """An empty store."""
        return MemoryStore()


class TestDynamoDBStore(StoreContract):
    """The store on DynamoDB, on moto."""

    # tests/store/test_store_contract.py compares more transitions, and all their conditions.
    test_a_transition_is_permitted_exactly_when_the_rules_permit_it = None  # type: ignore[assignment]

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """A store on empty tables."""
        with dynamodb_tables() as tables:
            yield tables.store


class Unconditional(MemoryStore):
    """Applies every transition."""

    def write(self, transition: Any) -> Any:
        """As if the rules permitted it."""
        if isinstance(transition, Reserve):
            self.records[transition.pk] = transition.record
            return Written()
        return super().write(transition)


class Uncounted(MemoryStore):
    """Leaves the counters of a commit out."""

    def commit(self, commit: Commit) -> Any:
        """As if it counted nothing."""
        return super().commit(replace(commit, counts=()))


class Unindexed(MemoryStore):
    """Lists records that are not due yet."""

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> Any:
        """As if it were later."""
        return super().due(shard, until_ms + 60_000, after=after)


class Blind(MemoryStore):
    """Does not show the record that a write met."""

    def write(self, transition: Any) -> Any:
        """As a conditional write that returns nothing."""
        reply = super().write(transition)
        return Refused(None) if isinstance(reply, Refused) else reply


@pytest.mark.parametrize(
    ("store", "requirement"),
    [
        (Unconditional(), StoreContract.test_a_refusal_shows_the_record_and_writes_nothing),
        (Unconditional(), StoreContract.test_of_simultaneous_reserves_one_is_applied),
        (Blind(), StoreContract.test_a_refusal_shows_the_record_and_writes_nothing),
        (Uncounted(), StoreContract.test_a_commit_is_applied_whole_and_once),
        (Uncounted(), StoreContract.test_a_refused_commit_writes_nothing),
        (Unindexed(), StoreContract.test_open_records_are_found_when_they_are_due),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_a_store_that_breaks_the_contract_fails(store: Store, requirement: Any) -> None:
    """Each of these stores breaks one promise, and the test of that promise is red."""
    with pytest.raises(AssertionError):
        requirement(StoreContract(), store)
