"""The contract of a store, as a class of tests that any store is held against."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.engine.store_state import state_of
from oncekey.record.commit import Commit, ConditionsFailed, token
from oncekey.record.counter import Count, Counter
from oncekey.record.message import Message
from oncekey.record.pause import Pause, PauseScope
from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.steps import NO_STEPS, FinishedStep, StartedStep, Steps
from oncekey.record.stored_answer import Blob, Place, StoredRef
from oncekey.record.transitions import (
    Begin,
    ClearStep,
    Complete,
    Doubt,
    Ending,
    Enqueue,
    ExpireLease,
    FinishStep,
    LateEffect,
    Lease,
    MarkUnknown,
    Release,
    Reschedule,
    Reserve,
    Resume,
    Retry,
    Seen,
    Settle,
    SettlePending,
    SettleStep,
    StartStep,
    TakeOver,
    TimeOut,
    Transition,
    Waiting,
)
from oncekey.store.store import Refused, Written
from oncekey.testing.memory import MemoryStore
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.store.store import Store

_PK = "v1#contract"
_NOW_MS = 1_700_000_000_000
_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
_DUE = Due(shard="5", at_ms=_NOW_MS + 60_000)
_STARTED = StartedStep(name="charge", position=1, mark=3, at_ms=_NOW_MS)
_FINISHED = FinishedStep(name="order", position=0, at_ms=_NOW_MS, result='{"id":1}')
_CHARGED = FinishedStep(name="charge", position=1, at_ms=_NOW_MS, result='{"id":2}')
_RECORD = Record(
    pk=_PK,
    status=Status.IN_PROGRESS,
    rev=1,
    tenant="tenant-1",
    operation="POST /payments",
    key="a-key-of-sixteen",
    operation_id=_ID,
    fingerprint="f1:asked",
    owner="owner-1",
    attempt=1,
    effects=Effects.UNRECORDED,
    created_at_ms=_NOW_MS,
    lease_until_ms=_NOW_MS + 30_000,
    due=_DUE,
    policy=Policy(encoding=Encoding.HTTP, retention_s=86_400),
)
_SEEN = Seen(owner="owner-1", rev=1)
_LEASE = Lease(owner="owner-9", until_ms=_NOW_MS + 40_000, due=_DUE, effects=Effects.RECORDED)
_ENDING = Ending(
    response='{"statusCode":201}',
    completed_at_ms=_NOW_MS,
    expires_at_s=_NOW_MS // 1000 + 86_400,
)
_RETRY = Retry(reason="NotExecuted", expires_at_s=_NOW_MS // 1000 + 3_600)
_DOUBT = Doubt(reason="lease-expired", due=_DUE)
_WAITING = Waiting(owner="owner-9", due=_DUE, effects=Effects.RECORDED, request_digest="digest")
# The owner and the version that a writer knows: the record's, or others.
_KNOWN = {
    "its owner": _SEEN,
    "another owner": Seen(owner="owner-2", rev=1),
    "another revision": Seen(owner="owner-1", rev=2),
}


def _transitions(pk: str, seen: Seen) -> list[Transition]:
    """One of each, by a writer that knows the record as `seen`."""
    owner = seen.owner
    return [
        Reserve(record=replace(_RECORD, pk=pk, owner="owner-9"), now_ms=_NOW_MS),
        Resume(pk=pk, seen=seen, lease=_LEASE),
        TakeOver(pk=pk, seen=seen, lease=_LEASE, now_ms=_NOW_MS),
        ExpireLease(pk=pk, seen=seen, now_ms=_NOW_MS, to=_DOUBT),
        ExpireLease(pk=pk, seen=seen, now_ms=_NOW_MS, to=_RETRY),
        Complete(pk=pk, owner=owner, ending=_ENDING),
        Release(pk=pk, owner=owner, retry=_RETRY),
        MarkUnknown(pk=pk, owner=owner, doubt=_DOUBT),
        Settle(pk=pk, seen_owner=owner, new_owner="owner-9", to=_ENDING),
        Settle(pk=pk, seen_owner=owner, new_owner="owner-9", to=_RETRY),
        SettleStep(pk=pk, seen_owner=owner, new_owner="owner-9", retry=_RETRY, finished=_CHARGED),
        SettleStep(pk=pk, seen_owner=owner, new_owner="owner-9", retry=_RETRY, cleared="charge"),
        LateEffect(pk=pk, seen=seen, new_owner="owner-9", ending=_ENDING),
        Enqueue(pk=pk, seen=seen, waiting=_WAITING),
        Begin(pk=pk, seen_owner=owner, lease=_LEASE),
        TimeOut(pk=pk, seen_owner=owner, ending=_ENDING),
        SettlePending(pk=pk, seen=seen, new_owner="owner-9", ending=_ENDING),
        StartStep(pk=pk, owner=owner, step=_STARTED),
        FinishStep(pk=pk, owner=owner, step=_CHARGED, mark=_STARTED.mark),
        FinishStep(pk=pk, owner=owner, step=_CHARGED, mark=None),
        ClearStep(pk=pk, owner=owner, step=_STARTED),
        Reschedule(pk=pk, seen=seen, due=_DUE, attempts=3),
    ]


def _records() -> Iterator[Record]:
    """Records in every state that makes a difference to a condition."""
    for status, lease_ms, effects in itertools.product(
        Status, (_NOW_MS + 30_000, _NOW_MS - 1), (Effects.UNRECORDED, Effects.REPEATABLE)
    ):
        yield replace(_RECORD, status=status, lease_until_ms=lease_ms, effects=effects)
    for status, steps in itertools.product(
        Status,
        (NO_STEPS, Steps(finished=(_FINISHED,)), Steps(finished=(_FINISHED,), started=_STARTED)),
    ):
        yield replace(
            _RECORD,
            status=status,
            lease_until_ms=_NOW_MS - 1,
            effects=Effects.RECORDED,
            steps=steps,
        )
    for status, expires_at_s in itertools.product(
        (Status.COMPLETED, Status.FAILED_RETRYABLE), (_NOW_MS // 1000, _NOW_MS // 1000 + 1)
    ):
        yield replace(
            _RECORD, status=status, expires_at_s=expires_at_s, due=None, lease_until_ms=None
        )
    for status in (Status.PENDING, Status.FAILED_RETRYABLE):
        yield replace(_RECORD, status=status, attempt=2, effects=Effects.RECORDED)


class StoreContract:
    """Tests of what oncekey needs of a store.

    Subclass it, and give it your store:

        class TestMyStore(StoreContract):
            @pytest.fixture
            def store(self):
                return MyStore(...)

    Each test gets an empty store. A store may also find records that are due, for the reconciler
    (`OpenRecords`); it is tested for that if it has a method `due`. It may change its pauses
    (`Pausable`); it is tested for that if it has a method `pause`. The conditions of the author's
    own writes are not tested here, because they are in your store's language.
    """

    @pytest.fixture
    def store(self) -> Store:
        """An empty store: yours."""
        raise NotImplementedError("give the class a fixture `store`, which returns your store")

    def test_a_store_can_be_shared(self, store: Store) -> None:
        """It says how long a call takes, and can be the key of a weak dictionary."""
        assert state_of(store) is state_of(store)
        assert store.call_timeout_ms >= 0
        assert isinstance(store.has_outbox, bool)
        assert isinstance(store.has_bucket, bool)

    def test_nothing_is_none_and_no_error(self, store: Store) -> None:
        """An absent record, answer and counter are None."""
        assert store.read(_PK) is None
        assert store.fetch(StoredRef(place=Place.ITEM, name=f"{_PK}#owner", digest="")) is None
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
            since_ms=_NOW_MS,
        )
        of_tenant = replace(of_operation, scope=PauseScope.TENANT, reason="a leaked key")
        later = replace(of_operation, reason="still down", since_ms=_NOW_MS + 1)

        assert pausable.pause(of_operation) is None
        assert pausable.pause(of_tenant) is None
        assert pausable.pause(later) == of_operation
        assert set(store.pauses()) == {later, of_tenant}
        assert pausable.resume(PauseScope.OPERATION, of_operation.name) == later
        assert pausable.resume(PauseScope.OPERATION, of_operation.name) is None
        assert store.pauses() == (of_tenant,)

    def test_a_reserved_record_is_read_as_it_was_written(self, store: Store) -> None:
        """Every field of every record survives."""
        for number, record in enumerate(_records()):
            written = replace(record, pk=f"{_PK}-{number}")

            assert store.write(Reserve(record=written, now_ms=_NOW_MS)) == Written()
            assert store.read(written.pk) == written

    def test_a_refusal_shows_the_record_and_writes_nothing(self, store: Store) -> None:
        """The second reserve of a key gets the record of the first, in the same call."""
        store.write(Reserve(record=_RECORD, now_ms=_NOW_MS))
        second = Reserve(record=replace(_RECORD, owner="owner-2"), now_ms=_NOW_MS)

        assert store.write(second) == Refused(_RECORD)
        assert store.read(_PK) == _RECORD
        assert store.write(Complete(pk="v1#absent", owner="owner-1", ending=_ENDING)) == Refused(
            None
        )

    @pytest.mark.parametrize("known", list(_KNOWN))
    def test_a_transition_is_permitted_exactly_when_the_rules_permit_it(
        self, store: Store, known: str
    ) -> None:
        """Each transition of each record does what it does in the store in memory."""
        reference = MemoryStore()
        numbers = itertools.count()
        records = list(_records())
        if _KNOWN[known] != _SEEN:
            # A writer that knows another version is refused by it alone.
            records = [replace(_RECORD, status=each, lease_until_ms=_NOW_MS - 1) for each in Status]
        for record, which in itertools.product(records, range(len(_transitions(_PK, _SEEN)))):
            pk = f"{_PK}-{next(numbers)}"
            begun = Reserve(record=replace(record, pk=pk), now_ms=_NOW_MS)
            transition = _transitions(pk, _KNOWN[known])[which]
            for each in (reference, store):
                each.write(begun)

            expected, actual = reference.write(transition), store.write(transition)

            assert actual == expected, (transition, record)
            assert store.read(pk) == reference.read(pk), (transition, record)

    def test_of_simultaneous_reserves_one_is_applied(self, store: Store) -> None:
        """The condition and its write are one step, also between threads."""
        threads = 8
        ready = threading.Barrier(threads)

        def reserve(number: int) -> Any:
            ready.wait()
            record = replace(_RECORD, owner=f"owner-{number}")
            return store.write(Reserve(record=record, now_ms=_NOW_MS))

        with ThreadPoolExecutor(threads) as pool:
            replies = list(pool.map(reserve, range(threads)))

        winner = store.read(_PK)
        assert [isinstance(each, Written) for each in replies].count(True) == 1
        assert replies.count(Refused(winner)) == threads - 1

    def test_a_commit_is_applied_whole_and_once(self, store: Store) -> None:
        """The record, its answer and its counter are written together, however often it is sent."""
        store.write(Reserve(record=_RECORD, now_ms=_NOW_MS))
        at = StoredRef(place=Place.ITEM, name=f"{_PK}#owner-1", digest="d")
        commit = Commit(
            transition=Complete(pk=_PK, owner="owner-1", ending=_ENDING),
            token=token(_ID, "owner-1", 0),
            companion=Blob(at=at, data=b"\x00answer", expires_at_s=_ENDING.expires_at_s),
            counts=(_count(limit=10),),
        )

        assert store.commit(commit) == Written()
        completed = store.read(_PK)
        again = store.commit(commit)

        assert completed is not None
        assert completed.status is Status.COMPLETED
        assert store.read(_PK) == completed
        # A database may recognise the repeat by its token.
        assert again in (Written(), Refused(completed))
        assert store.fetch(at) == b"\x00answer"
        assert store.counter("q1#contract") == Counter(
            count=1, buckets={_NOW_MS // 1000 + 60: 1}, expires_at_s=_NOW_MS // 1000 + 90
        )

    def test_a_refused_commit_writes_nothing(self, store: Store) -> None:
        """It is refused by its record, or else by a counter, and names which."""
        reserve = Reserve(record=_RECORD, now_ms=_NOW_MS)
        full = Commit(transition=reserve, token=token(_ID, "a", 0), counts=(_count(limit=1),))
        store.commit(Commit(transition=None, token=token(_ID, "b", 0), counts=(_count(limit=1),)))
        counted = store.counter("q1#contract")

        failed = store.commit(full)
        assert isinstance(failed, ConditionsFailed)
        assert [each.count for each in failed.counts] == [_count(limit=1)]
        assert store.read(_PK) is None
        store.write(reserve)
        assert store.commit(full) == Refused(_RECORD)
        other = Commit(transition=reserve, token=token(_ID, "c", 0), counts=(_count(limit=9),))
        assert store.commit(other) == Refused(_RECORD)
        assert store.counter("q1#contract") == counted

    def test_a_message_is_committed_with_or_without_a_record(self, store: Store) -> None:
        """A store with an outbox takes messages; one without is never asked to."""
        if not store.has_outbox:
            pytest.skip("the store has no outbox")
        message = Message(
            id="message-1",
            topic="payment.requested",
            payload='{"n":1}',
            operation_id=_ID,
            operation="POST /payments",
            tenant="acme",
            created_at_ms=_NOW_MS,
        )
        commit = Commit(transition=None, token=token(_ID, "message", 0), messages=(message,))

        assert store.commit(commit) == Written()

    def test_saved_bytes_are_fetched(self, store: Store) -> None:
        """What is saved is read back, and a second save replaces it."""
        places = [Place.ITEM, *([Place.OBJECT] if store.has_bucket else [])]
        for place in places:
            at = StoredRef(place=place, name=f"{_PK}#owner-1", digest="d")
            for data in (b"first", bytes(range(256))):
                store.save(Blob(at=at, data=data, expires_at_s=0))

                assert store.fetch(at) == data

    def test_open_records_are_found_when_they_are_due(self, store: Any) -> None:
        """The index holds what somebody must look at, in order of time, and nothing settled."""
        if not hasattr(store, "due"):
            pytest.skip("the store finds no due records")
        for number in (3, 1, 2):
            due = Due(shard="5", at_ms=_NOW_MS + number)
            record = replace(_RECORD, pk=f"{_PK}-{number}", due=due)
            store.write(Reserve(record=record, now_ms=_NOW_MS))
        store.write(Complete(pk=f"{_PK}-1", owner="owner-1", ending=_ENDING))

        assert store.due("5", _NOW_MS + 9).keys == (f"{_PK}-2", f"{_PK}-3")
        assert store.due("5", _NOW_MS + 2).keys == (f"{_PK}-2",)
        assert store.due("6", _NOW_MS + 9).keys == ()
        assert store.put_off(f"{_PK}-2", due_by_ms=_NOW_MS + 2, to_ms=_NOW_MS + 8) == 1
        assert store.put_off(f"{_PK}-2", due_by_ms=_NOW_MS + 2, to_ms=_NOW_MS + 8) is None
        assert store.due("5", _NOW_MS + 9).keys == (f"{_PK}-3", f"{_PK}-2")
        assert [store.most_due_shards(number) for number in (4, 16, 8)] == [4, 16, 16]


def _count(*, limit: int) -> Count:
    now_s = _NOW_MS // 1000
    return Count(
        name="q1#contract",
        tenant="tenant-1",
        limit=limit,
        expires_at_s=now_s + 90,
        runs_out_at_s=now_s + 60,
    )
