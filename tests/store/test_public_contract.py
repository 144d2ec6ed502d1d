"""Our own stores are held against the contract that users hold theirs against."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record.business_write import BusinessWrite
from oncekey.record.rules import applied, permitted
from oncekey.record.transitions import FinishStep, Reserve
from oncekey.store.store import Refused, Written
from oncekey.testing import MemoryStore, StoreContract, dynamodb_tables
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.commit import Commit
    from oncekey.store.store import Store
    from oncekey.testing import Tables


class InMemory(StoreContract):
    """The contract, with what handlers write in memory."""

    def own_write(self) -> BusinessWrite:
        """A put, as `op.transaction` collects it."""
        return BusinessWrite(number=1, kind="put", table="orders", size_bytes=1, parameters={})

    def has_written(self, store: Any) -> bool:
        """Whether it is on the list."""
        return bool(store.writes == [self.own_write()])


class TestMemoryStore(InMemory):
    """The store in memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        """An empty store."""
        return MemoryStore()


class TestDynamoDBStore(StoreContract):
    """The store on DynamoDB, on moto."""

    # tests/store/test_store_contract.py compares more transitions, and all their conditions.
    test_a_transition_is_permitted_exactly_when_the_rules_permit_it = None  # type: ignore[assignment]

    tables: Tables

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """A store on empty tables."""
        with dynamodb_tables() as tables:
            self.tables = tables
            yield tables.store

    def published(self, store: Store) -> list[str]:
        """The ids in the outbox table."""
        del store
        items = self.tables.client.scan(TableName=self.tables.outbox)["Items"]
        return [item["id"]["S"] for item in items]


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


class Silent(MemoryStore):
    """Drops the messages of a commit."""

    def commit(self, commit: Commit) -> Any:
        """As if it published nothing."""
        return super().commit(replace(commit, messages=()))


class Forgetful(MemoryStore):
    """Drops what a handler writes to its own tables."""

    def commit(self, commit: Commit) -> Any:
        """As if there were no writes."""
        return super().commit(replace(commit, writes=()))


class Stepless(MemoryStore):
    """Applies the writes of a recovery point, and not the point itself."""

    def commit(self, commit: Commit) -> Any:
        """As if only a reserve and a completion had a record."""
        if isinstance(commit.transition, FinishStep):
            return super().commit(replace(commit, transition=None))
        return super().commit(commit)


class Hasty(MemoryStore):
    """Publishes messages before the condition of the record is checked."""

    def commit(self, commit: Commit) -> Any:
        """Publish, and then apply the rest."""
        self.messages += commit.messages
        return super().commit(replace(commit, messages=()))


class Partial(MemoryStore):
    """Keeps no request of an operation that is completed without its client."""

    def read(self, pk: str) -> Any:
        """As a table without a column for it."""
        record = super().read(pk)
        return None if record is None else replace(record, request=None)


class Inline(MemoryStore):
    """Keeps an answer only if it is text, as a small one is."""

    def write(self, transition: Any) -> Any:
        """As a column that takes nothing else."""
        reply, record = super().write(transition), self.records[transition.pk]
        if not isinstance(record.response, str):
            self.records[transition.pk] = replace(record, response=None)
        return reply


class Stale(MemoryStore):
    """Reads from a replica that has the first state of each record."""

    def __init__(self) -> None:
        super().__init__()
        self._replica: dict[str, Any] = {}

    def read(self, pk: str) -> Any:
        """As a read that is not consistent."""
        return self._replica.setdefault(pk, super().read(pk))


class OnePage(MemoryStore):
    """Lists the first due records of a shard, and no others."""

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> Any:
        """As if the first page were the last."""
        return replace(super().due(shard, until_ms, after=after), after=None)


class Narrow(MemoryStore):
    """Cuts off what its column does not hold."""

    def save(self, blob: Any) -> None:
        """As a text of 64 KB at most."""
        super().save(replace(blob, data=blob.data[:65_535]))


class CheckThenAct(MemoryStore):
    """Checks the condition of a commit, and applies its writes later. All threads check first."""

    def __init__(self) -> None:
        super().__init__()
        self._checked = threading.Barrier(8)

    def commit(self, commit: Commit) -> Any:
        """Between the two, other threads may come."""
        assert commit.transition is not None
        record = self.records.get(commit.transition.pk)
        if not permitted(commit.transition, record):
            return Refused(record)
        self._checked.wait()
        self.records[commit.transition.pk] = applied(commit.transition, record)
        return super().commit(replace(commit, transition=None))


@pytest.mark.parametrize(
    ("store", "requirement"),
    [
        (Silent(), StoreContract.test_a_message_is_committed_without_a_record),
        (Silent(), StoreContract.test_a_commit_is_applied_whole_and_once),
        (Forgetful(), StoreContract.test_a_commit_is_applied_whole_and_once),
        (Stepless(), StoreContract.test_a_commit_applies_its_transition),
        (Hasty(), StoreContract.test_a_refused_commit_writes_nothing),
        (CheckThenAct(), StoreContract.test_of_simultaneous_commits_one_is_applied),
        (Unconditional(), StoreContract.test_a_refusal_shows_the_record_and_writes_nothing),
        (Unconditional(), StoreContract.test_of_simultaneous_reserves_one_is_applied),
        (Blind(), StoreContract.test_a_refusal_shows_the_record_and_writes_nothing),
        (Uncounted(), StoreContract.test_a_commit_is_applied_whole_and_once),
        (Uncounted(), StoreContract.test_a_refused_commit_writes_nothing),
        (Unindexed(), StoreContract.test_open_records_are_found_when_they_are_due),
        (Partial(), StoreContract.test_a_reserved_record_is_read_as_it_was_written),
        (Inline(), StoreContract.test_an_answer_is_recorded_in_each_of_its_forms),
        (Stale(), StoreContract.test_a_read_shows_the_last_write),
        (Narrow(), StoreContract.test_saved_bytes_are_fetched),
        (OnePage(), StoreContract.test_all_due_records_are_found_page_by_page),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_a_store_that_breaks_the_contract_fails(store: Store, requirement: Any) -> None:
    """Each of these stores breaks one promise, and the test of that promise is red."""
    with pytest.raises(AssertionError):
        requirement(InMemory(), store)


def test_a_store_with_an_outbox_must_show_its_messages() -> None:
    """A contract that cannot see the messages says what to override, and passes nothing."""
    with pytest.raises(NotImplementedError, match="override `published`"):
        StoreContract().published(object())
