"""The store in memory and the manual clock."""

from __future__ import annotations

import threading
from collections import Counter as Counts
from typing import TYPE_CHECKING, Any

from oncekey.errors import RefusedWrite
from oncekey.options import hook_faults
from oncekey.record.commit import ConditionsFailed
from oncekey.record.counter import RefusedCount, admits, counted
from oncekey.record.rules import applied, permitted
from oncekey.store.due_index import MOST_ON_PAGE, DuePage
from oncekey.store.store import Refused, Written
from oncekey.value import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.outbox.inbox import Delivered
    from oncekey.record.business_write import BusinessWrite
    from oncekey.record.commit import Commit
    from oncekey.record.counter import Counter
    from oncekey.record.message import Message
    from oncekey.record.pause import Pause, PauseScope
    from oncekey.record.record import Record
    from oncekey.record.stored_answer import Blob, StoredRef
    from oncekey.record.transitions import Transition


class MemoryStore:
    """A store in memory that applies the transitions directly.

    It serves one process, and its records are lost when the process ends. The DynamoDB store is
    tested against it.

    It does not have your tables. `writes` lists the committed business writes in their order, and
    `messages` the published messages; `take_messages` and `take_delivered` hand them to a worker.
    `holds` says whether the condition of a write holds; by default, every condition does. To test
    your expressions, use moto and `DynamoDBStore`.
    """

    call_timeout_ms = 0
    has_bucket = True
    has_outbox = True

    def __init__(self, *, holds: Callable[[BusinessWrite], bool] = lambda _write: True) -> None:
        given: object = holds
        faults = ["holds is None"] if given is None else hook_faults({"holds": given})
        if faults:
            raise TypeError(f"MemoryStore: {'; '.join(faults)}")
        self.records: dict[str, Record] = {}
        self.writes: list[BusinessWrite] = []
        self.messages: list[Message] = []
        self._holds = holds
        # A condition and its write are one atomic step between threads, too.
        self._lock = threading.Lock()
        self.blobs: dict[str, bytes] = {}
        self._messages_taken = 0
        self._most_due_shards = 0
        self._put_off: Counts[str] = Counts()
        self.counters: dict[str, Counter] = {}
        self._pauses: dict[tuple[PauseScope, str], Pause] = {}

    def write(self, transition: Transition) -> Written | Refused:
        """See `oncekey.store.store.Store.write`."""
        with self._lock:
            record = self.records.get(transition.pk)
            if not permitted(transition, record):
                return Refused(record)
            self.records[transition.pk] = applied(transition, record)
            return Written()

    def commit(self, commit: Commit) -> Written | Refused | ConditionsFailed:
        """See `oncekey.store.store.Store.commit`."""
        transition = commit.transition
        with self._lock:
            record = None if transition is None else self.records.get(transition.pk)
            if transition is not None and not permitted(transition, record):
                return Refused(record)
            failed = [write for write in commit.writes if not self._holds(write)]
            full = tuple(
                RefusedCount(count, counter)
                for count in commit.counts
                if not admits(counter := self.counters.get(count.name), count)
            )
            if failed or full:
                return ConditionsFailed(
                    tuple(
                        RefusedWrite(each.number, each.kind, each.table, None) for each in failed
                    ),
                    full,
                )
            if transition is not None:
                self.records[transition.pk] = applied(transition, record)
            for count in commit.counts:
                self.counters[count.name] = counted(self.counters.get(count.name), count)
            self.writes += commit.writes
            self.messages += commit.messages
            if commit.companion is not None:
                self.blobs[commit.companion.at.name] = commit.companion.data
            return Written()

    def take_messages(self) -> list[Message]:
        """The messages that were published since the last call, for `sqs_event(...)`."""
        with self._lock:
            taken = self.messages[self._messages_taken :]
            self._messages_taken += len(taken)
            return taken

    def take_delivered(self) -> list[Delivered]:
        """The same as a worker's function gets them: for `Jobs.perform`, or a function of yours."""
        from oncekey.outbox.inbox import with_payload

        return [with_payload(each, each.payload) for each in self.take_messages()]

    def read(self, pk: str) -> Record | None:
        """See `oncekey.store.store.Store.read`."""
        return self.records.get(pk)

    def counter(self, name: str) -> Counter | None:
        """See `oncekey.store.store.Store.counter`."""
        return self.counters.get(name)

    def pauses(self) -> tuple[Pause, ...]:
        """See `oncekey.store.store.Store.pauses`."""
        return tuple(self._pauses.values())

    def pause(self, pause: Pause) -> Pause | None:
        """See `oncekey.store.pauses.Pausable.pause`."""
        with self._lock:
            former = self._pauses.get((pause.scope, pause.name))
            self._pauses[pause.scope, pause.name] = pause
            return former

    def resume(self, scope: PauseScope, name: str) -> Pause | None:
        """See `oncekey.store.pauses.Pausable.resume`."""
        with self._lock:
            return self._pauses.pop((scope, name), None)

    def save(self, blob: Blob) -> None:
        """See `oncekey.store.store.Store.save`."""
        self.blobs[blob.at.name] = blob.data

    def fetch(self, at: StoredRef) -> bytes | None:
        """See `oncekey.store.store.Store.fetch`."""
        return self.blobs.get(at.name)

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> DuePage:
        """See `oncekey.store.due_index.OpenRecords.due`."""
        with self._lock:
            records = tuple(self.records.values())
        entries = sorted(
            (due.at_ms, record.pk)
            for record in records
            if (due := record.due) is not None and due.shard == shard and due.at_ms <= until_ms
        )
        entries = [entry for entry in entries if after is None or entry > after]
        page, rest = entries[:MOST_ON_PAGE], entries[MOST_ON_PAGE:]
        keys = tuple(pk for _, pk in page)
        return DuePage(keys=keys, after=page[-1] if rest else None, read=len(page))

    def put_off(self, pk: str, *, due_by_ms: int, to_ms: int, counts: bool = True) -> int | None:
        """See `oncekey.store.due_index.OpenRecords.put_off`."""
        with self._lock:
            record = self.records.get(pk)
            if record is None or record.due is None or record.due.at_ms > due_by_ms:
                return None
            self.records[pk] = replace(record, due=replace(record.due, at_ms=to_ms))
            self._put_off[pk] += counts
            return self._put_off[pk]

    def most_due_shards(self, at_least: int) -> int:
        """See `oncekey.store.due_index.OpenRecords.most_due_shards`."""
        self._most_due_shards = max(self._most_due_shards, at_least)
        return self._most_due_shards

    def __repr__(self) -> str:
        return f"MemoryStore({len(self.records)} records)"


def _check_ms(given: object) -> None:
    # A record would hold a fraction or a `timedelta`, and DynamoDB's store would fail later.
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"a ManualClock counts whole milliseconds, and {given!r} is no int")


class ManualClock:
    """A clock that moves only when `advance` or `pause` is called.

    Its owners and operation ids are numbered in sequence. Threads may share it.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        _check_ms(now_ms)
        self._now_ms = now_ms
        self._drawn = 0
        self._lock = threading.Lock()

    def advance(self, duration_ms: int) -> None:
        """Let `duration_ms` milliseconds pass. A negative number sets the clock back.

        Raises:
            TypeError: it is no whole number.
        """
        _check_ms(duration_ms)
        with self._lock:
            self._now_ms += duration_ms

    def now_ms(self) -> int:
        """See `oncekey.clock.Clock.now_ms`."""
        return self._now_ms

    def pause(self, duration_ms: int) -> None:
        """Let the time pass, without waiting."""
        self.advance(duration_ms)

    def random_fraction(self) -> float:
        """Always a half."""
        return 0.5

    def new_owner(self) -> str:
        """`owner-1`, `owner-2`, ..."""
        return f"owner-{self._next()}"

    def new_operation_id(self) -> str:
        """UUIDs that end in the sequence's next number."""
        return f"00000000-0000-4000-8000-{self._next():012d}"

    def _next(self) -> int:
        with self._lock:
            self._drawn += 1
            return self._drawn
