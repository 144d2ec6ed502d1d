"""The sweep: it sends messages that stayed in the outbox because a relay was killed or gave up."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError, StoreError
from oncekey.flow.driver import NO_STORE, drive
from oncekey.options import part_faults
from oncekey.outbox.relay import OutboxRelay
from oncekey.outbox.relay_commands import MarkTold, ReadPage, Send
from oncekey.outbox.relay_order import group_of, published
from oncekey.store.sqs import MOST_ENTRIES, Entry, SqsQueue, refuses_entries
from oncekey.telemetry import outbox as relay_telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from oncekey.outbox.relay_turn import Turn
    from oncekey.record.message import Message
    from oncekey.record.set_aside import SetAside
    from oncekey.store.dynamodb.outbox import OutboxPage, OutboxTable

_VARIABLES = ("ONCEKEY_OUTBOX_TABLE", "ONCEKEY_QUEUE_URL")
# How many bytes of messages are held in memory to be sent later. A reconciler has 256 MB.
_MOST_KEPT_BYTES = 16_000_000
# One run escalates at most this many messages. Later runs escalate the others.
_MOST_TOLD = 100


@dataclass(slots=True, kw_only=True)
class Swept:
    """The result of a sweep, in numbers of messages.

    `resent` are in the queue now, `failed` could not be sent, `set_aside` were set aside, and
    `told` were escalated. `oldest_at_ms` is when the oldest unsent message was written.
    `is_complete`: all due messages were read.
    """

    resent: int = 0
    failed: int = 0
    set_aside: int = 0
    told: int = 0
    oldest_at_ms: int | None = field(default=None, compare=False)
    is_complete: bool = True


@dataclass(slots=True)
class Place:
    """Where the next sweep continues: after this key, or at the beginning of the table."""

    after: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSweep:
    """Sends the messages in the table of `relay` again.

    Sent messages are deleted, so the table contains open messages only, and reading all of it is
    cheap.

    Messages that were refused before are sent last. A sweep that ran out of time continues where it
    stopped, in the same sandbox. So no message prevents others from being sent. If the relay keeps
    groups in order, the whole table is read first, and the earliest messages are sent first.
    """

    relay: OutboxRelay
    table: OutboxTable | None = None
    place: Place = field(default_factory=Place)

    def __post_init__(self) -> None:
        given: object = self.relay
        faults = ["relay= is None: pass OutboxRelay(...)"] if given is None else []
        faults += part_faults(
            {
                "relay=": (given, "turn", "OutboxRelay(...)"),
                "table=": (self.table, "waiting", "OutboxTable(name)"),
            }
        )
        if faults:
            raise ConfigurationError("OutboxSweep", faults)

    @classmethod
    def from_environment(cls) -> OutboxSweep | None:
        """The sweep of ONCEKEY_OUTBOX_TABLE to ONCEKEY_QUEUE_URL; None if one is not set.

        For a FIFO queue, a message's group is its tenant. If the relay has other groups, give the
        sweep the same ones: `Reconciler(outbox=OutboxSweep(relay=OutboxRelay(group=...)))`. A
        reconciler without a queue may still write messages, which the relay sends.
        """
        names = tuple(os.environ.get(name, "").strip() for name in _VARIABLES)
        if not all(names):
            return None
        return cls(relay=OutboxRelay(), place=_places.setdefault(names, Place()))

    def run(
        self,
        *,
        before_ms: int,
        is_time_left: Callable[[], bool],
        escalations: SqsQueue | None = None,
    ) -> Swept:
        """Send every message that was written before `before_ms`, and delete it.

        The remaining time is checked before each page and each call of the queue, except the first,
        because a call without an answer takes seconds. `escalations` is the escalation queue for
        messages set aside; without it, they are logged.

        Raises:
            StoreError: the table did not answer; messages that were not sent are still there.
            ConfigurationError: the relay has no table or no queue.
        """
        sweeping = self.sweep_flow(
            before_ms=before_ms, is_time_left=is_time_left, escalations=escalations
        )
        return drive(sweeping, store=NO_STORE, clock=self.relay.clock)

    async def sweep_flow(
        self,
        *,
        before_ms: int,
        is_time_left: Callable[[], bool],
        escalations: SqsQueue | None = None,
    ) -> Swept:
        """The flow of `run`, for drivers of flows."""
        turn = self.relay.turn(is_time_left)
        run = _Run(turn=turn, told_at_ms=before_ms)
        if self.relay.group is None:
            await self._send_page_by_page(run, before_ms, is_time_left)
        else:
            await self._send_in_order(run, before_ms, is_time_left, self.relay.group)
        told = await self._tell(run, escalations)
        return Swept(
            resent=len(turn.gone),
            failed=len(turn.failed),
            set_aside=len(turn.set_aside),
            told=told,
            oldest_at_ms=run.oldest_at_ms,
            is_complete=run.is_complete and turn.is_complete,
        )

    @property
    def _table(self) -> OutboxTable:
        return self.table or self.relay.table

    async def _send_page_by_page(
        self, run: _Run, before_ms: int, is_time_left: Callable[[], bool]
    ) -> None:
        turn, began_after = run.turn, self.place.after
        async for page in self._pages(before_ms, is_time_left, began_after):
            await run.take(page)
            await turn.send(each for each in page.messages if each.id not in page.tries)
            if turn.is_queue_down or not turn.is_complete:
                # The next sweep continues with this page.
                break
            self.place.after = page.after
            if page.after is None:
                run.is_complete = began_after is None
                break
        await turn.send(sorted(run.kept, key=run.refused_least))

    async def _send_in_order(
        self,
        run: _Run,
        before_ms: int,
        is_time_left: Callable[[], bool],
        group: Callable[[Message], str],
    ) -> None:
        async for page in self._pages(before_ms, is_time_left, None):
            await run.take(page, in_order=True)
            if page.after is None:
                run.is_complete = not run.is_cut
                # Groups with a message that was refused before are sent after the others.
                slow = {group_of(each, group) for each in run.kept if each.id in run.tries}
                run.kept.sort(key=lambda each: (group_of(each, group) in slow, published(each)))
                await run.turn.send(run.kept)

    async def _pages(
        self, before_ms: int, is_time_left: Callable[[], bool], after: Any
    ) -> AsyncIterator[OutboxPage]:
        while True:
            page = await ReadPage(table=self._table, before_ms=before_ms, after=after)
            yield page
            after = page.after
            if after is None or not is_time_left():
                return

    async def _tell(self, run: _Run, escalations: SqsQueue | None) -> int:
        """Escalate the messages set aside, and note that. Returns their number."""
        told = 0
        for start in range(0, len(run.set_aside), MOST_ENTRIES):
            batch = run.set_aside[start : start + MOST_ENTRIES]
            try:
                for each in await _told(batch, escalations):
                    await MarkTold(table=self._table, message_id=each.id, at_ms=run.told_at_ms)
                    told += 1
            except StoreError as error:
                # The next run escalates them again. A queue that times out is called once in a run.
                relay_telemetry.person_not_told(len(batch), error)
                break
        return told


async def _told(batch: list[SetAside], escalations: SqsQueue | None) -> list[SetAside]:
    """Those messages of `batch` that were escalated now."""
    for each in batch:
        relay_telemetry.message_waits_for_a_person(each)
    return batch if escalations is None else await _sent(batch, escalations)


async def _sent(batch: list[SetAside], escalations: SqsQueue) -> list[SetAside]:
    try:
        entries = tuple(Entry(id=each.id, body=each.escalation()) for each in batch)
        rejected = await Send(queue=escalations, entries=entries)
    except StoreError as error:
        if not refuses_entries(error):
            raise
        if len(batch) > 1:
            # One bad entry must not prevent the others from being escalated.
            return [sent for each in batch for sent in await _sent([each], escalations)]
        relay_telemetry.person_not_told(1, error)
        return []
    left = {each.id for each in rejected}
    return [each for each in batch if each.id not in left]


@dataclass(slots=True, kw_only=True)
class _Run:
    """The messages that a sweep has read."""

    turn: Turn
    told_at_ms: int
    kept: list[Message] = field(default_factory=list)
    kept_bytes: int = 0
    tries: dict[str, int] = field(default_factory=dict)
    set_aside: list[SetAside] = field(default_factory=list)
    oldest_at_ms: int | None = None
    is_cut: bool = False
    is_complete: bool = False

    async def take(self, page: OutboxPage, *, in_order: bool = False) -> None:
        """Hold the messages to be sent later: all if `in_order`, otherwise those refused before."""
        for message_id, reason in page.unreadable.items():
            await self.turn.put_aside(message_id, reason)
        self.set_aside += page.set_aside[: _MOST_TOLD - len(self.set_aside)]
        times = [each.created_at_ms for each in page.messages]
        if self.oldest_at_ms is not None:
            times.append(self.oldest_at_ms)
        self.oldest_at_ms = min(times, default=None)
        later = [each for each in page.messages if in_order or each.id in page.tries]
        self.kept += later
        self.kept_bytes += sum(message.size_bytes for message in later)
        self.tries |= page.tries
        if self.kept_bytes > _MOST_KEPT_BYTES:
            # Those to be sent first are held; a later run sends the others.
            self.is_cut = True
            self.kept.sort(key=published if in_order else self.refused_least)
            while self.kept_bytes > _MOST_KEPT_BYTES:
                self.kept_bytes -= self.kept.pop().size_bytes

    def refused_least(self, message: Message) -> tuple[Any, ...]:
        """The sort key that gives each refused message its turn: the fewest refusals first."""
        return self.tries[message.id], published(message)


# Where a sandbox's next sweep continues, by table and queue.
_places: dict[tuple[str, ...], Place] = {}
