"""One turn of the relay: messages go to the queue in batches, and leave the table once they are in.

A turn is one invocation, or one sweep of the outbox.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from oncekey.errors import StoreError
from oncekey.outbox.envelope import sealed
from oncekey.record.message_text import queue_name
from oncekey.store.sqs import MOST_BATCH_BYTES, MOST_ENTRIES, Entry, Rejected, refuses_entries
from oncekey.telemetry import outbox as relay_telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from oncekey.clock import Clock
    from oncekey.record.message import Message
    from oncekey.store.dynamodb.outbox import OutboxTable
    from oncekey.store.sqs import SqsQueue

    Group = Callable[[Message], str]

# How often a refusal is met that may be the configuration's fault as well as the message's (a FIFO
# queue that is sent no group, say), until the message is set aside.
_MOST_REFUSALS = 5
# The same of failures that the queue calls its own, while it takes other messages.
_MOST_FAILURES = 100
# How often the stream is stopped for one message whose failure is the queue's own. Then it is left
# to the sweep, which sends the others first.
_MOST_REPORTS = 3
# A queue that has failed so often in a row is down: each further call would only cost its time.
_MOST_FAILURES_IN_A_ROW = 3


class Turn:
    """What becomes of the messages of one turn.

    With a `group`, messages of one group are sent one after the other, in the order in which they
    are given: after a failure nothing later of that group goes out in this turn. So no batch has
    two of one group, because a queue may refuse the first and take the second.

    Attributes:
        gone: the ids that have left the table: the queue has them, or somebody else sent them.
        failed: those that could not be sent, or not be deleted afterwards.
        again: those that are to be sent again soon; what else has failed is left to the sweep.
        set_aside: those that wait for a person.
        is_complete: whether nothing was left for want of time.
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
        # The groups of which something has failed, and whether that is to be sent again soon.
        self._held: dict[str, bool] = {}

    @property
    def is_queue_down(self) -> bool:
        """Whether the queue has failed so often that this turn sends nothing more."""
        return self._failures_in_a_row >= _MOST_FAILURES_IN_A_ROW

    def send(self, messages: Iterable[Message]) -> None:
        """Send `messages`, which are in the table, and delete those that the queue has taken."""
        lines = self._lines(messages)
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
            self._send([entry for entry, _ in batch])
            for _, line in batch:
                self._line_up(line, lines)

    def put_aside(self, message_id: str, reason: str) -> None:
        """Set aside what can never be sent, for a person; nothing waits for it any longer."""
        relay_telemetry.message_set_aside(message_id, reason)
        if not message_id:
            return
        try:
            is_there = self._table.set_aside(message_id, reason, self._clock.now_ms())
        except StoreError as error:
            # It is still in the table, and will be met again.
            relay_telemetry.relay_failed(1, error)
            self.failed.add(message_id)
            return
        (self.set_aside if is_there else self.gone).add(message_id)

    def _may_call(self) -> bool:
        # The first one always: however short the time is, every turn gets something done.
        return not self._calls or self._is_time_left()

    def _lines(self, messages: Iterable[Message]) -> deque[deque[Entry]]:
        """The entries, those of a group in one line; without groups each is a line of its own."""
        lines: dict[str, deque[Entry]] = {}
        for message in messages:
            entry = self._entry(message)
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

    def _entry(self, message: Message) -> Entry | None:
        """The message as the queue takes it; None for one that it does not take."""
        try:
            group = None if self._group is None else queue_name(self._group(message))
        except Exception as fault:  # noqa: BLE001 -- of the author's; one message holds nothing up
            # Another release may know its group.
            reason = f"group= {type(fault).__name__}"
            relay_telemetry.message_rejected(message.id, reason, is_final=True)
            self._refused(message.id, None, reason, is_final=True)
            return None
        try:
            entry = Entry(id=message.id, body=sealed(message), group=group)
        except UnicodeEncodeError:
            self.put_aside(message.id, "it has a lone surrogate, which no queue takes")
            return None
        if entry.size_bytes > MOST_BATCH_BYTES:
            self.put_aside(message.id, "it is larger than the queue takes")
            return None
        return entry

    @staticmethod
    def _next_batch(lines: deque[deque[Entry]]) -> list[tuple[Entry, deque[Entry]]]:
        """The first of each line, as many as one request takes, and the lines that they left."""
        batch: list[tuple[Entry, deque[Entry]]] = []
        size_bytes = 0
        while lines and len(batch) < MOST_ENTRIES:
            size_bytes += lines[0][0].size_bytes
            if batch and size_bytes > MOST_BATCH_BYTES:
                break
            line = lines.popleft()
            batch.append((line.popleft(), line))
        return batch

    def _send(self, batch: Sequence[Entry]) -> None:
        self._calls += 1
        try:
            rejected = self._queue.send(batch)
        except StoreError as error:
            if not refuses_entries(error):
                self._not_answered(batch, error)
                return
            if len(batch) > 1:
                self._send_singly(batch)
                return
            rejected = [Rejected(batch[0].id, error.reason, is_final=True)]
        self._failures_in_a_row = 0
        refused = {each.id: each for each in rejected}
        self._delete([entry.id for entry in batch if entry.id not in refused])
        for entry in batch:
            if entry.id in refused:
                each = refused[entry.id]
                relay_telemetry.message_rejected(each.id, each.reason, is_final=each.is_final)
                if each.is_certain:
                    self.put_aside(each.id, each.reason)
                else:
                    self._refused(each.id, entry.group, each.reason, is_final=each.is_final)

    def _send_singly(self, batch: Sequence[Entry]) -> None:
        """Send entry by entry what was refused as a whole, which may be for one of them."""
        for entry in batch:
            if self._is_time_left():
                self._send([entry])
            else:
                self.is_complete = False
                self._leave([entry], again=True, is_failure=False)

    def _not_answered(self, batch: Sequence[Entry], error: StoreError) -> None:
        relay_telemetry.relay_failed(len(batch), error)
        self._failures_in_a_row += 1
        for entry in batch:
            self._leave([entry], again=True, is_failure=True)

    def _refused(self, message_id: str, group: str | None, reason: str, *, is_final: bool) -> None:
        """Count a refusal that may have another cause than the message; set it aside at last.

        What the queue has refused is not sent again soon: the sweep tries it, after all others.
        """
        try:
            tries = self._table.count_try(message_id)
        except StoreError as error:
            relay_telemetry.relay_failed(1, error)
            self._leave_one(message_id, group, again=not is_final)
            return
        if tries is None:
            self.gone.add(message_id)
        elif tries >= (_MOST_REFUSALS if is_final else _MOST_FAILURES):
            self.put_aside(message_id, f"{reason} ({tries} times)")
        else:
            self._leave_one(message_id, group, again=not is_final and tries <= _MOST_REPORTS)

    def _delete(self, sent: Sequence[str]) -> None:
        if not sent:
            return
        try:
            left = self._table.delete(sorted(sent))
        except StoreError as error:
            relay_telemetry.relay_failed(len(sent), error)
            left = set(sent)
        # They are in the queue, so that nothing of their groups waits for them.
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
