"""The contract of a store, as a class of tests that any store is held against."""

from __future__ import annotations

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.engine.store_state import state_of
from oncekey.record.commit import Commit, ConditionsFailed
from oncekey.record.counter import Counter
from oncekey.record.pause import Pause, PauseScope
from oncekey.record.record import Due, Effects, Status
from oncekey.record.rules import permitted
from oncekey.record.stored_answer import LARGEST_COMPANION_BYTES, Blob, Place, StoredRef
from oncekey.record.transitions import Complete, FinishStep, Reserve, StartStep
from oncekey.store.due_index import MOST_ON_PAGE
from oncekey.store.store import Refused, Written
from oncekey.testing.contract_samples import (
    ANSWERS,
    CHARGED,
    DUE,
    ENDING,
    KNOWN,
    NOW_MS,
    PK,
    RECORD,
    SEEN,
    STARTED,
    count,
    fresh_token,
    message,
    records,
    transitions,
    whole_records,
)
from oncekey.testing.memory import MemoryStore
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.business_write import BusinessWrite
    from oncekey.store.store import Store


class StoreContract:
    """Tests of what oncekey needs of a store.

    Subclass it, and give it your store:

        class TestMyStore(StoreContract):
            @pytest.fixture
            def store(self):
                return MyStore(...)

    Each test gets an empty store. A store may also find records that are due, for the reconciler
    (`OpenRecords`); it is tested for that if it has a method `due`. It may change its pauses
    (`Pausable`); it is tested for that if it has a method `pause`. If it has an outbox, override
    `published`. What handlers write to tables of their own is in your store's language, and is
    tested if you override `own_write` and `has_written`.
    """

    @pytest.fixture
    def store(self) -> Store:
        """An empty store: yours."""
        raise NotImplementedError("give the class a fixture `store`, which returns your store")

    def published(self, store: Any) -> list[str]:
        """The ids of the messages in the outbox: by default, of those in `store.messages`."""
        if not hasattr(store, "messages"):
            raise NotImplementedError(
                "your store has an outbox: override `published`, which returns the ids of the"
                " messages in it"
            )
        return [each.id for each in store.messages]

    def own_write(self) -> BusinessWrite | None:
        """A write to a table of a handler's own, which an empty store applies."""
        return None

    def has_written(self, store: Any) -> bool:
        """Whether `store` has applied `own_write()`."""
        raise NotImplementedError(f"override it to find `own_write` in {store!r}")

    def test_a_store_can_be_shared(self, store: Store) -> None:
        """It says how long a call takes, and can be the key of a weak dictionary."""
        assert state_of(store) is state_of(store)
        assert store.call_timeout_ms >= 0
        assert isinstance(store.has_outbox, bool)
        assert isinstance(store.has_bucket, bool)

    def test_nothing_is_none_and_no_error(self, store: Store) -> None:
        """An absent record, answer and counter are None."""
        assert store.read(PK) is None
        assert store.fetch(StoredRef(place=Place.ITEM, name=f"{PK}#owner", digest="")) is None
        assert store.counter("q1#nothing") is None
        assert store.pauses() == ()

    def test_what_is_paused_is_read_until_it_is_resumed(self, store: Store) -> None:
        """Each pause stands alone, and the last writer of one decides; a store may be read-only."""
        if not hasattr(store, "pause"):
            pytest.skip("this store has no method `pause`: its pauses are made in another way")
        pausable: Any = store
        of_operation = Pause(
            scope=PauseScope.OPERATION,
            name="POST /a#b/{id}",
            reason="provider down",
            by="arn:aws:iam::1:user/ops",
            since_ms=NOW_MS,
        )
        of_tenant = replace(of_operation, scope=PauseScope.TENANT, reason="a leaked key")
        later = replace(of_operation, reason="still down", since_ms=NOW_MS + 1)

        assert pausable.pause(of_operation) is None
        assert pausable.pause(of_tenant) is None
        assert pausable.pause(later) == of_operation
        assert set(store.pauses()) == {later, of_tenant}
        assert pausable.resume(PauseScope.OPERATION, of_operation.name) == later
        assert pausable.resume(PauseScope.OPERATION, of_operation.name) is None
        assert store.pauses() == (of_tenant,)

    def test_a_reserved_record_is_read_as_it_was_written(self, store: Store) -> None:
        """Every field of every record survives."""
        for number, record in enumerate(itertools.chain(records(), whole_records())):
            written = replace(record, pk=f"{PK}-{number}")

            assert store.write(Reserve(record=written, now_ms=NOW_MS)) == Written()
            assert store.read(written.pk) == written

    def test_an_answer_is_recorded_in_each_of_its_forms(self, store: Store) -> None:
        """A large answer or result is a reference, and one that is lost says so."""
        reference = MemoryStore()
        for number, answer in enumerate(ANSWERS):
            pk = f"{PK}-{number}"
            step = replace(CHARGED, result=answer, is_final=True)
            ending = replace(ENDING, response=answer, response_version=2)
            for each in (
                Reserve(record=replace(RECORD, pk=pk, effects=Effects.RECORDED), now_ms=NOW_MS),
                FinishStep(pk=pk, owner="owner-1", step=step, mark=None),
                Complete(pk=pk, owner="owner-1", ending=ending),
            ):
                assert store.write(each) == reference.write(each) == Written(), answer
                assert store.read(pk) == reference.read(pk), answer

    def test_a_read_shows_the_last_write(self, store: Store) -> None:
        """A read is consistent, however soon it comes after a write."""
        reference = MemoryStore()
        for each in (
            Reserve(record=replace(RECORD, effects=Effects.RECORDED), now_ms=NOW_MS),
            StartStep(pk=PK, owner="owner-1", step=STARTED),
            FinishStep(pk=PK, owner="owner-1", step=CHARGED, mark=STARTED.mark),
            Complete(pk=PK, owner="owner-1", ending=ENDING),
        ):
            assert store.write(each) == reference.write(each) == Written()
            assert store.read(PK) == reference.read(PK)

    def test_a_refusal_shows_the_record_and_writes_nothing(self, store: Store) -> None:
        """The second reserve of a key gets the record of the first, in the same call."""
        store.write(Reserve(record=RECORD, now_ms=NOW_MS))
        second = Reserve(record=replace(RECORD, owner="owner-2"), now_ms=NOW_MS)

        assert store.write(second) == Refused(RECORD)
        assert store.read(PK) == RECORD
        assert store.write(Complete(pk="v1#absent", owner="owner-1", ending=ENDING)) == Refused(
            None
        )

    @pytest.mark.parametrize("known", list(KNOWN))
    def test_a_transition_is_permitted_exactly_when_the_rules_permit_it(
        self, store: Store, known: str
    ) -> None:
        """Each transition of each record does what it does in the store in memory."""
        reference = MemoryStore()
        numbers = itertools.count()
        samples = list(records())
        if KNOWN[known] != SEEN:
            # A writer that knows another version is refused by it alone.
            samples = [replace(RECORD, status=each, lease_until_ms=NOW_MS - 1) for each in Status]
        for record, which in itertools.product(samples, range(len(transitions(PK, SEEN)))):
            pk = f"{PK}-{next(numbers)}"
            begun = Reserve(record=replace(record, pk=pk), now_ms=NOW_MS)
            transition = transitions(pk, KNOWN[known])[which]
            for each in (reference, store):
                each.write(begun)

            expected, actual = reference.write(transition), store.write(transition)

            assert actual == expected, (transition, record)
            assert store.read(pk) == reference.read(pk), (transition, record)

    def test_of_simultaneous_reserves_one_is_applied(self, store: Store) -> None:
        """The condition and its write are one step, also between threads."""

        def reserve(number: int) -> Any:
            return store.write(_reserve(PK, f"owner-{number}"))

        replies = _at_once(reserve)

        winner = store.read(PK)
        assert replies.count(Written()) == 1
        assert replies.count(Refused(winner)) == len(replies) - 1

    def test_of_simultaneous_commits_one_is_applied(self, store: Store) -> None:
        """The condition and all writes of a commit are one step, also between threads."""

        def commit(number: int) -> Any:
            owner = f"owner-{number}"
            return store.commit(
                Commit(
                    transition=_reserve(PK, owner),
                    token=fresh_token(),
                    messages=(message(owner),) if store.has_outbox else (),
                    counts=(count(limit=10),),
                )
            )

        replies = _at_once(commit)

        winner, counter = store.read(PK), store.counter("q1#contract")
        assert winner is not None
        assert counter is not None
        assert replies.count(Written()) == 1
        assert replies.count(Refused(winner)) == len(replies) - 1
        assert counter.count == 1
        assert not store.has_outbox or self.published(store) == [winner.owner]

    def test_a_commit_applies_its_transition(self, store: Store) -> None:
        """A transition does the same in a commit as alone, whatever its kind."""
        reference = MemoryStore()
        for number, each in enumerate(transitions(PK, SEEN)):
            pk = f"{PK}-{number}"
            transition = transitions(pk, SEEN)[number]
            begun = next((known for known in records() if permitted(each, known)), None)
            commit = Commit(transition=transition, token=fresh_token())
            for either in (reference, store):
                if begun is not None:
                    either.write(Reserve(record=replace(begun, pk=pk), now_ms=NOW_MS))

            assert store.commit(commit) == reference.commit(commit) == Written(), transition
            assert store.read(pk) == reference.read(pk), transition

    def test_a_commit_is_applied_whole_and_once(self, store: Store) -> None:
        """All its writes are applied together, however often it is sent."""
        store.write(Reserve(record=RECORD, now_ms=NOW_MS))
        at = StoredRef(place=Place.ITEM, name=f"{PK}#owner-1", digest="d")
        own = self.own_write()
        commit = Commit(
            transition=Complete(pk=PK, owner="owner-1", ending=ENDING),
            token=fresh_token(),
            writes=() if own is None else (own,),
            messages=(message("message-1"),) if store.has_outbox else (),
            companion=Blob(at=at, data=b"\x00answer", expires_at_s=ENDING.expires_at_s),
            counts=(count(limit=10),),
        )

        assert store.commit(commit) == Written()
        completed = store.read(PK)
        again = store.commit(commit)

        assert completed is not None
        assert completed.status is Status.COMPLETED
        assert store.read(PK) == completed
        # A database may recognise the repeat by its token.
        assert again in (Written(), Refused(completed))
        assert store.fetch(at) == b"\x00answer"
        assert store.counter("q1#contract") == Counter(
            count=1, buckets={NOW_MS // 1000 + 60: 1}, expires_at_s=NOW_MS // 1000 + 90
        )
        assert not store.has_outbox or self.published(store) == ["message-1"]
        assert own is None or self.has_written(store)

    def test_a_refused_commit_writes_nothing(self, store: Store) -> None:
        """It is refused by its record, or else by a counter, and names which."""
        reserve = Reserve(record=RECORD, now_ms=NOW_MS)
        at = StoredRef(place=Place.ITEM, name=f"{PK}#owner-1", digest="d")
        own = self.own_write()
        full = Commit(
            transition=reserve,
            token=fresh_token(),
            writes=() if own is None else (own,),
            messages=(message("message-1"),) if store.has_outbox else (),
            companion=Blob(at=at, data=b"answer", expires_at_s=ENDING.expires_at_s),
            counts=(count(limit=1),),
        )
        store.commit(Commit(transition=None, token=fresh_token(), counts=(count(limit=1),)))
        counted = store.counter("q1#contract")

        failed = store.commit(full)
        assert isinstance(failed, ConditionsFailed)
        assert [each.count for each in failed.counts] == [count(limit=1)]
        assert store.read(PK) is None
        store.write(reserve)
        assert store.commit(full) == Refused(RECORD)
        other = replace(full, token=fresh_token(), counts=(count(limit=9),))
        assert store.commit(other) == Refused(RECORD)
        assert store.counter("q1#contract") == counted
        assert store.fetch(at) is None
        assert not store.has_outbox or self.published(store) == []
        assert own is None or not self.has_written(store)

    def test_a_message_is_committed_without_a_record(self, store: Store) -> None:
        """A store with an outbox takes messages; one without is never asked to."""
        if not store.has_outbox:
            pytest.skip("the store has no outbox")
        commit = Commit(transition=None, token=fresh_token(), messages=(message("message-1"),))

        assert store.commit(commit) == Written()
        assert self.published(store) == ["message-1"]

    def test_saved_bytes_are_fetched(self, store: Store) -> None:
        """What is saved is read back, and a second save replaces it."""
        places = [Place.ITEM, *([Place.OBJECT] if store.has_bucket else [])]
        for place in places:
            at = StoredRef(place=place, name=f"{PK}#owner-1", digest="d")
            for data in (b"first", bytes(range(256)), bytes(LARGEST_COMPANION_BYTES)):
                store.save(Blob(at=at, data=data, expires_at_s=0))

                assert store.fetch(at) == data

    def test_open_records_are_found_when_they_are_due(self, store: Any) -> None:
        """The index holds what somebody must look at, in order of time, and nothing settled."""
        if not hasattr(store, "due"):
            pytest.skip("the store finds no due records")
        for number in (3, 1, 2):
            due = Due(shard="5", at_ms=NOW_MS + number)
            record = replace(RECORD, pk=f"{PK}-{number}", due=due)
            store.write(Reserve(record=record, now_ms=NOW_MS))
        store.write(Complete(pk=f"{PK}-1", owner="owner-1", ending=ENDING))

        assert store.due("5", NOW_MS + 9).keys == (f"{PK}-2", f"{PK}-3")
        assert store.due("5", NOW_MS + 2).keys == (f"{PK}-2",)
        assert store.due("6", NOW_MS + 9).keys == ()
        assert store.put_off(f"{PK}-2", due_by_ms=NOW_MS + 2, to_ms=NOW_MS + 8) == 1
        assert store.put_off(f"{PK}-2", due_by_ms=NOW_MS + 2, to_ms=NOW_MS + 8) is None
        assert store.due("5", NOW_MS + 9).keys == (f"{PK}-3", f"{PK}-2")
        assert [store.most_due_shards(number) for number in (4, 16, 8)] == [4, 16, 16]

    def test_all_due_records_are_found_page_by_page(self, store: Any) -> None:
        """Records beyond the first page are found with `after`, each once."""
        if not hasattr(store, "due"):
            pytest.skip("the store finds no due records")
        written = [f"{PK}-{number}" for number in range(MOST_ON_PAGE + 1)]
        for pk in written:
            # Many are due in the same millisecond.
            store.write(Reserve(record=replace(RECORD, pk=pk), now_ms=NOW_MS))

        found: list[str] = []
        page = store.due(DUE.shard, DUE.at_ms)
        while page.after is not None and len(found) <= len(written):
            found += page.keys
            page = store.due(DUE.shard, DUE.at_ms, after=page.after)

        assert sorted([*found, *page.keys]) == sorted(written)


def _reserve(pk: str, owner: str) -> Reserve:
    return Reserve(record=replace(RECORD, pk=pk, owner=owner), now_ms=NOW_MS)


def _at_once(work: Callable[[int], Any]) -> list[Any]:
    """What `work` returns in several threads that begin together."""
    threads = 8
    ready = threading.Barrier(threads)

    def begin(number: int) -> Any:
        ready.wait()
        return work(number)

    interval = sys.getswitchinterval()
    # Threads take turns as often as they can, so that a gap between condition and write is found.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(begin, range(threads)))
    finally:
        sys.setswitchinterval(interval)
