"""A reconciler each minute, and what it depends on: alive, dead, hanging or slow, by a clock."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey import Completed, resolver
from oncekey.errors import StoreError
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.sweep import OutboxSweep
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.message import Message
from oncekey.record.record import Record, Status
from oncekey.store.dynamodb.outbox import OutboxPage
from oncekey.store.sqs import Entry, Rejected, SqsQueue
from oncekey.testing.memory import ManualClock
from tests.support.reconciled import GRACE_MS, PAID, Escalations, Unrecorded, reconciler
from tests.support.steps import LEASE_MS, FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oncekey.reconciler.report import Report

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
RUN_MS = 50_000
# What is well answers in that time.
WELL_MS = 20


@dataclass(slots=True)
class Dependency:
    """What a call of something takes, and whether it fails then."""

    clock: ManualClock
    takes_ms: int = WELL_MS
    fails: bool = False

    def is_called(self) -> None:
        """A call."""
        self.clock.advance(self.takes_ms)
        if self.fails:
            raise StoreError("no route to it", transient=True)

    def recovers(self) -> None:
        """From now on it is well."""
        self.takes_ms, self.fails = WELL_MS, False


class TimedStore(FaultyStore):
    """A store, with its bucket, whose calls take time."""

    def __init__(self, table: Dependency, bucket: Dependency) -> None:
        super().__init__()
        self.table, self.bucket = table, bucket

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> Any:
        """A page of the index."""
        self.table.is_called()
        return super().due(shard, until_ms, after=after)

    def put_off(self, pk: str, **options: Any) -> int | None:
        """Another call."""
        self.table.is_called()
        return super().put_off(pk, **options)

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        (self.bucket if call == "save" else self.table).is_called()
        return super()._asked(call, function, argument)


class TimedQueue(SqsQueue):
    """A queue whose calls take time."""

    def __init__(self, dependency: Dependency) -> None:
        super().__init__("https://sqs.example/work")
        self.dependency = dependency
        self.ids: list[str] = []

    def send(self, entries: Sequence[Entry]) -> list[Rejected]:
        """See `SqsQueue.send`."""
        self.dependency.is_called()
        self.ids += [each.id for each in entries]
        return []


@dataclass(slots=True)
class Outbox:
    """An outbox table in memory."""

    messages: dict[str, Message] = field(default_factory=dict)

    def waiting(self, before_ms: int, _after: Any = None) -> OutboxPage:
        """See `OutboxTable.waiting`."""
        found = [each for each in self.messages.values() if each.created_at_ms <= before_ms]
        return OutboxPage(messages=tuple(found))

    def delete(self, ids: Sequence[str]) -> set[str]:
        """See `OutboxTable.delete`."""
        for each in ids:
            del self.messages[each]
        return set()


class Service:
    """Operations that somebody has to settle, and a reconciler that is called each minute.

    `reports` are what its runs returned; None where one raised.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.table, self.bucket, self.queue, self.escalations, self.provider = (
            Dependency(self.clock) for _ in range(5)
        )
        self.store = TimedStore(self.table, self.bucket)
        self.people = Escalations()
        self.people.happens = self.escalations.is_called
        self.told: list[tuple[str, int]] = []
        self.work = TimedQueue(self.queue)
        self.outbox = Outbox()
        self.reports: list[Report | None] = []
        self._began_ms = self.clock.now_ms()

    def unknown(self, operation: str, number: int) -> set[str]:
        """So many operations that are unknown; their keys in the table."""
        before = set(self.store.records)
        self.table.takes_ms = 0
        handler = Unrecorded(store=self.store, clock=self.clock, operation=operation)
        for each in range(number):
            handler.fails(f"{operation}-{each:04d}".replace(" /", "-"))
        self.table.takes_ms = WELL_MS
        return set(self.store.records) - before

    def answers(self, operation: str, body: str = "") -> None:
        """Whose resolver asks the provider."""

        @resolver(operation)
        def ask(_question: object) -> Completed:
            self.provider.is_called()
            return Completed({**PAID, "body": body})

    def knows(self, operation: str) -> None:
        """Whose resolver needs nothing."""

        @resolver(operation)
        def ask(_question: object) -> Completed:
            self.clock.advance(WELL_MS)
            return Completed(PAID)

    def publishes(self, number: int) -> set[str]:
        """So many messages that the relay has left behind; their ids."""
        for each in range(number):
            one = Message(
                id=f"00000000-0000-4000-9000-{each:012d}",
                topic="t",
                payload="{}",
                operation_id="00000000-0000-4000-8000-000000000001",
                operation="POST /payments",
                tenant="tenant-1",
                created_at_ms=self.clock.now_ms(),
            )
            self.outbox.messages[one.id] = one
        return set(self.outbox.messages)

    def is_due(self) -> None:
        """Lease and grace are over."""
        self.clock.advance(LEASE_MS + GRACE_MS + 1)
        self._began_ms = self.clock.now_ms()

    def runs(self, times: int, *, every_ms: int = MINUTE_MS) -> None:
        """So many runs, each when its time has come."""
        relay = OutboxRelay(table=self.outbox, queue=self.work, clock=self.clock)  # type: ignore[arg-type]
        sweep = OutboxSweep(table=self.outbox, relay=relay)  # type: ignore[arg-type]
        for _ in range(times):
            began_ms, told = self.clock.now_ms(), len(self.people.bodies)
            run = reconciler(
                self, outbox=sweep, escalations=self.people, turns=ReconcilerSettings()
            )
            with contextlib.suppress(StoreError):
                self.reports.append(None)
                self.reports[-1] = run.run(self.clock.now_ms() + RUN_MS)
            ended_ms = self.clock.now_ms()
            for body in self.people.bodies[told:]:
                self.told.append((body["operation_id"], ended_ms))
            self.clock.advance(max(1, began_ms + every_ms - ended_ms))

    def runs_in_vain(self) -> list[Report]:
        """The runs that failed in all that they were to do, and did not say so."""
        return [
            each
            for each in self.reports
            if each is not None
            and each.failed
            and not (each.settled or each.escalated or each.resent or each.still_unknown)
        ]

    def settled(self, keys: set[str]) -> int:
        """How many of these are."""
        return sum(self._at(key).status is Status.COMPLETED for key in keys)

    def escalated(self, keys: set[str]) -> int:
        """Of how many of these a person was told."""
        told = {operation_id for operation_id, _ in self.told}
        return sum(self._at(key).operation_id in told for key in keys)

    def sent(self, ids: set[str]) -> int:
        """How many of these messages the queue has got."""
        return len(ids & set(self.work.ids))

    def told_twice_a_day(self) -> list[str]:
        """Of which operations somebody was told twice within a day."""
        last: dict[str, int] = {}
        found = []
        for operation_id, at_ms in self.told:
            if at_ms - last.get(operation_id, -DAY_MS) < DAY_MS:
                found.append(operation_id)
            last[operation_id] = at_ms
        return found

    def _at(self, key: str) -> Record:
        return self.store.records[key]
