"""One turn of the relay. It sends messages in batches, and deletes those that the queue accepted.

A turn is one invocation, or one sweep of the outbox. Its methods are flows.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.outbox.envelope import sealed
from oncekey.outbox.relay_commands import CountTry, Delete, PutAside, Send
from oncekey.record.message_text import queue_name
from oncekey.store.sqs import MOST_BATCH_BYTES, MOST_ENTRIES, Entry, Rejected, refuses_entries
from oncekey.telemetry import outbox as relay_telemetry
from oncekey.telemetry import watching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from oncekey.clock import Clock
    from oncekey.record.message import Message
    from oncekey.store.dynamodb.outbox import OutboxTable
    from oncekey.store.sqs import SqsQueue

    Group = Callable[[Message], str]

# A message is set aside after this many refusals whose cause may be the message or the
# configuration, for example a message without a group for a FIFO queue.
_MOST_REFUSALS = 5
# The same for failures that the queue reports as its own, while it accepts other messages.
_MOST_FAILURES = 100
# How often one message may stop the stream, if the queue reports the failure as its own. After that
# the sweep sends it, after all other messages.
_MOST_REPORTS = 3
# After this many failures in a row, the queue counts as down. Further calls would only cost time.
_MOST_FAILURES_IN_A_ROW = 3


class Turn:
    """Sends messages, and records what happened to each.

    With a `group`, the messages of one group are sent one after the other, in the given order.
    After a failure, no later message of that group is sent in this turn. A batch never has two
    messages of one group, because the queue may refuse the first and accept the second.

    Attributes:
        gone: the ids of messages that have left the table: they were sent by this or another relay.
        failed: those that could not be sent, or could not be deleted after sending.
        again: those of the failed ones to be sent again soon. The sweep sends the others.
        set_aside: those that wait for a person.
        is_complete: whether there was time for all messages.
    """

    def __init__(
        self,
        *,
        table: OutboxTable,
        queue: SqsQueue,
        group: Group | None,
        clock: Clock,
        is_time_left: Callable[[], bool],
    ) -> None:
        self.gone: set[str] = set()
        self.failed: set[str] = set()
        self.again: set[str] = set()
        self.set_aside: set[str] = set()
        self.is_complete = True
        self._table = table
        self._queue = queue
        self._group = group
        self._clock = clock
        self._is_time_left = is_time_left
        self._calls = 0
        self._failures_in_a_row = 0
        # The groups with a failed message, and whether that message is to be sent again soon.
        self._held: dict[str, bool] = {}

    @property
    def is_queue_down(self) -> bool:
        """Whether the queue has failed so often that this turn sends no more messages."""
        return self._failures_in_a_row >= _MOST_FAILURES_IN_A_ROW

    async def send(self, messages: Iterable[Message]) -> None:
        """Send `messages`, which are in the table, and delete those that the queue accepted."""
        lines = await self._lines(messages)
        while lines:
            if self.is_queue_down:
                for line in lines:
                    self._leave(line, again=True, is_failure=True)
                return
            if not self._may_call():
                self.is_complete = False
                for line in lines:
                    self._leave(line, again=True, is_failure=False)
                return
            batch = self._next_batch(lines)
            await self._send([entry for entry, _ in batch])
            for _, line in batch:
                self._line_up(line, lines)

    async def put_aside(self, message_id: str, reason: str) -> None:
        """Set aside a message that can never be sent. Later messages no longer wait for it."""
        relay_telemetry.message_set_aside(message_id, reason)
        if not message_id:
            return
        try:
            at_ms = self._clock.now_ms()
            is_there = await PutAside(
                table=self._table, message_id=message_id, reason=reason, at_ms=at_ms
            )
        except StoreError as error:
            # It is still in the table, so a later turn or sweep reads it again.
            relay_telemetry.relay_failed(1, error)
            self.failed.add(message_id)
            return
        (self.set_aside if is_there else self.gone).add(message_id)

    def _may_call(self) -> bool:
        # The first call is always made, so that every turn makes progress.
        return not self._calls or self._is_time_left()

    async def _lines(self, messages: Iterable[Message]) -> deque[deque[Entry]]:
        """The entries, one line for each group; without groups, one line for each entry."""
        lines: dict[str, deque[Entry]] = {}
        for message in messages:
            entry = await self._entry(message)
            if entry is not None:
                name = entry.id if entry.group is None else entry.group
                lines.setdefault(name, deque()).append(entry)
        waiting: deque[deque[Entry]] = deque()
        for line in lines.values():
            self._line_up(line, waiting)
        return waiting

    def _line_up(self, line: deque[Entry], lines: deque[deque[Entry]]) -> None:
        if not line:
            return
        group = line[0].group
        if group in self._held:
            self._leave(line, again=self._held[group], is_failure=True)
        else:
            lines.append(line)

    async def _entry(self, message: Message) -> Entry | None:
        """The message as an entry for the queue; None if it cannot be sent."""
        try:
            group = None if self._group is None else queue_name(self._group(message))
        except Exception as fault:  # noqa: BLE001 -- one message must not stop the others
            # Another release of the code may return its group.
            reason = f"group= {type(fault).__name__}"
            relay_telemetry.message_rejected(message.id, reason, is_final=True)
            await self._refused(message.id, None, reason, is_final=True)
            return None
        try:
            entry = Entry(
                id=message.id,
                body=sealed(message),
                group=group,
                traceparent=message.traceparent,
            )
        except UnicodeEncodeError:
            await self.put_aside(message.id, "it has a lone surrogate, which no queue takes")
            return None
        if entry.size_bytes > MOST_BATCH_BYTES:
            await self.put_aside(message.id, "it is larger than the queue takes")
            return None
        return entry

    @staticmethod
    def _next_batch(lines: deque[deque[Entry]]) -> list[tuple[Entry, deque[Entry]]]:
        """The first entry of each line, up to the size of one request, each with its line."""
        batch: list[tuple[Entry, deque[Entry]]] = []
        size_bytes = 0
        while lines and len(batch) < MOST_ENTRIES:
            size_bytes += lines[0][0].size_bytes
            if batch and size_bytes > MOST_BATCH_BYTES:
                break
            line = lines.popleft()
            batch.append((line.popleft(), line))
        return batch

    async def _send(self, batch: Sequence[Entry]) -> None:
        self._calls += 1
        try:
            with _traced(batch):
                rejected = await Send(queue=self._queue, entries=tuple(batch))
        except StoreError as error:
            if not refuses_entries(error):
                self._not_answered(batch, error)
                return
            if len(batch) > 1:
                await self._send_singly(batch)
                return
            rejected = [Rejected(batch[0].id, error.reason, is_final=True)]
        self._failures_in_a_row = 0
        refused = {each.id: each for each in rejected}
        await self._delete([entry.id for entry in batch if entry.id not in refused])
        for entry in batch:
            if entry.id in refused:
                each = refused[entry.id]
                relay_telemetry.message_rejected(each.id, each.reason, is_final=each.is_final)
                if each.is_certain:
                    await self.put_aside(each.id, each.reason)
                else:
                    await self._refused(each.id, entry.group, each.reason, is_final=each.is_final)

    async def _send_singly(self, batch: Sequence[Entry]) -> None:
        """Send the entries of a refused request one by one: one entry may be the cause."""
        for entry in batch:
            if self._is_time_left():
                await self._send([entry])
            else:
                self.is_complete = False
                self._leave([entry], again=True, is_failure=False)

    def _not_answered(self, batch: Sequence[Entry], error: StoreError) -> None:
        relay_telemetry.relay_failed(len(batch), error)
        self._failures_in_a_row += 1
        for entry in batch:
            self._leave([entry], again=True, is_failure=True)

    async def _refused(
        self, message_id: str, group: str | None, reason: str, *, is_final: bool
    ) -> None:
        """Count a refusal, and set the message aside after too many.

        The cause may not be the message. A refused message is not sent again soon: the sweep sends
        it, after all others.
        """
        try:
            tries = await CountTry(table=self._table, message_id=message_id)
        except StoreError as error:
            relay_telemetry.relay_failed(1, error)
            self._leave_one(message_id, group, again=not is_final)
            return
        if tries is None:
            self.gone.add(message_id)
        elif tries >= (_MOST_REFUSALS if is_final else _MOST_FAILURES):
            await self.put_aside(message_id, f"{reason} ({tries} times)")
        else:
            self._leave_one(message_id, group, again=not is_final and tries <= _MOST_REPORTS)

    async def _delete(self, sent: Sequence[str]) -> None:
        if not sent:
            return
        try:
            left = await Delete(table=self._table, ids=tuple(sorted(sent)))
        except StoreError as error:
            relay_telemetry.relay_failed(len(sent), error)
            left = set(sent)
        # They are in the queue, so later messages of their groups need not wait.
        self.failed |= left
        self.again |= left
        self.gone |= set(sent) - left

    def _leave(self, entries: Iterable[Entry], *, again: bool, is_failure: bool) -> None:
        for entry in entries:
            if is_failure:
                self._leave_one(entry.id, entry.group, again=again)
            else:
                self.again.add(entry.id)
                if entry.group is not None:
                    self._held.setdefault(entry.group, again)

    def _leave_one(self, message_id: str, group: str | None, *, again: bool) -> None:
        self.failed.add(message_id)
        if again:
            self.again.add(message_id)
        if group is not None:
            self._held.setdefault(group, again)


def _traced(batch: Sequence[Entry]) -> AbstractContextManager[None]:
    """The spans of the messages in `batch`, if traces are on."""
    tracing = watching.tracing()
    parents = {entry.id: entry.traceparent for entry in batch if entry.traceparent}
    return nullcontext() if tracing is None else tracing.sending(parents)
