"""Lets time pass for a store in memory: its messages are delivered, and what is due is visited."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from oncekey.store import in_use
from oncekey.testing.batch_events import sqs_event
from oncekey.testing.replacement import use_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from oncekey.record.message import Message
    from oncekey.record.record import Record
    from oncekey.testing.memory import ManualClock, MemoryStore

    Handler = Callable[[Any, Any], object]

# As many receives as the documentation recommends before a message becomes a dead letter.
_MOST_RECEIVES = 10
# The reconciler's schedule.
_EACH_MS = 60_000
_MS = timedelta(milliseconds=1)
# For messages of messages; a worker that answers messages with messages never ends.
_MOST_DELIVERIES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """What happened while time passed.

    Attributes:
        duration: how far the clock was moved.
        dead_letters: messages that the worker never accepted.
        waiting: messages that are delivered in the next call of `let_time_pass` for this store.
        open_records: the records that are still open at the end. With a reconciler, a person must
            settle them.
        errors: the exceptions that worker and reconciler raised, in order.
    """

    duration: timedelta
    dead_letters: Sequence[Message] = field(repr=False)
    waiting: Sequence[Message] = field(repr=False)
    open_records: Sequence[Record] = field(repr=False)
    errors: Sequence[Exception] = field(repr=False)


def let_time_pass(
    store: MemoryStore,
    clock: ManualClock,
    *,
    worker: Handler | None = None,
    reconciler: Handler | None = None,
    timeout: timedelta = timedelta(seconds=30),
    at_most: timedelta = timedelta(days=1),
) -> TimePassed:
    """Move `clock` until no message waits and no record is due, and return what happened.

        answer = handler(event, None)  # 202
        let_time_pass(store, clock, worker=worker, reconciler=Reconciler())
        assert handler(event, None)["statusCode"] == 201

    Each message of `store` is delivered to `worker`, one in an event. A message that it does not
    accept is delivered again after the delay that the worker asked the queue for, or after six
    times `timeout`; after ten receives it is a dead letter. `reconciler` runs in each minute in
    which a record is due: after a lease and its grace, or after the delay between two turns. So
    resolvers are asked, half-done work is completed, and jobs that no worker began end.

    Nothing waits: the clock jumps from one event to the next. `store` and `clock` are in use
    meanwhile, as by `use_store`.

    Args:
        store: the store whose messages are delivered and whose records are visited.
        clock: the clock that is moved.
        worker: the Lambda handler of the queue. Without one, messages wait.
        reconciler: the Lambda handler on a schedule, `Reconciler(...)`. Without one, no record is
            visited.
        timeout: the timeout of both functions.
        at_most: stop before the clock is moved further than this. A record that only a person can
            settle stays due forever.

    Raises:
        RuntimeError: the worker answers messages with messages, without an end.
    """
    passing = _Passing(store, clock, timeout // _MS)
    begun_ms = clock.now_ms()
    with use_store(store, clock=clock):
        while True:
            if worker is not None:
                passing.deliver(worker)
            if reconciler is not None and passing.is_something_due():
                passing.run(reconciler, {"source": "aws.events"})
                # A visit may have published messages. The next visit comes a minute later.
                passing.visited_ms = clock.now_ms()
            next_ms = passing.next_ms(delivers=worker is not None, visits=reconciler is not None)
            if next_ms is None or next_ms > begun_ms + at_most // _MS:
                break
            clock.advance(max(0, next_ms - clock.now_ms()))
    return TimePassed(
        duration=(clock.now_ms() - begun_ms) * _MS,
        dead_letters=tuple(passing.dead),
        waiting=tuple(each.message for each in passing.waiting()),
        open_records=tuple(each for each in store.records.values() if each.due is not None),
        errors=tuple(passing.errors),
    )


@dataclass(slots=True)
class _Waiting:
    """A message in the queue."""

    message: Message
    visible_at_ms: int
    receives: int = 0
    first_received_ms: int | None = None


# A message may outlast the call in which it was taken from the store.
_queues: WeakKeyDictionary[MemoryStore, list[_Waiting]] = WeakKeyDictionary()


class _Queue:
    """The queue that a worker asks to hide messages, by their receipt handles."""

    def __init__(self, passing: _Passing) -> None:
        self._passing = passing

    def hide(self, receipt_handle: str, delay_s: int) -> None:
        """See `oncekey.outbox.SqsQueue.hide`."""
        self._passing.hide(receipt_handle, delay_s)

    def hide_all(self, delays: Sequence[tuple[str, int]]) -> None:
        """See `oncekey.outbox.SqsQueue.hide_all`."""
        for handle, delay_s in delays:
            self.hide(handle, delay_s)

    def visibility_timeout_s(self) -> int:
        """See `oncekey.outbox.SqsQueue.visibility_timeout_s`."""
        return self._passing.visibility_ms // 1000


class _Invocation:
    """The Lambda context of an invocation that begins now."""

    function_name = function_version = "test"
    memory_limit_in_mb = 128
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:test"
    aws_request_id = "00000000-0000-4000-8000-000000000000"

    def __init__(self, clock: ManualClock, timeout_ms: int) -> None:
        self._clock = clock
        self._until_ms = clock.now_ms() + timeout_ms

    def get_remaining_time_in_millis(self) -> int:
        """As in Lambda."""
        return self._until_ms - self._clock.now_ms()


class _Passing:
    """The queue and the schedule, while time passes."""

    def __init__(self, store: MemoryStore, clock: ManualClock, timeout_ms: int) -> None:
        self.dead: list[Message] = []
        self.errors: list[Exception] = []
        self.visited_ms: int | None = None
        # https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
        self.visibility_ms = 6 * timeout_ms
        self._store = store
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._waiting = _queues.setdefault(store, [])
        self._received: dict[str, _Waiting] = {}

    def deliver(self, worker: Handler) -> None:
        """Deliver each message that is visible now, also those that are published meanwhile."""
        self._receive()
        most, deliveries = len(self._waiting) + _MOST_DELIVERIES, 0
        while ready := [
            each for each in self._waiting if each.visible_at_ms <= self._clock.now_ms()
        ]:
            deliveries += 1
            if deliveries > most:
                raise RuntimeError(
                    f"{most} deliveries, and no time has passed: does the worker answer"
                    f" each message with another one? The last has the topic"
                    f" {ready[-1].message.topic!r}"
                )
            self._deliver(ready[0], worker)
            self._receive()

    def waiting(self) -> Sequence[_Waiting]:
        """The messages that are neither done nor dead letters."""
        self._receive()
        return self._waiting

    def is_something_due(self) -> bool:
        """Whether the reconciler runs now, and finds a record."""
        due_ms = self._visit_ms()
        return due_ms is not None and due_ms <= self._clock.now_ms()

    def next_ms(self, *, delivers: bool, visits: bool) -> int | None:
        """When the next message is visible or the next record is visited; None if neither is."""
        times = [each.visible_at_ms for each in self._waiting] if delivers else []
        due_ms = self._visit_ms() if visits else None
        return min([*times, *([] if due_ms is None else [due_ms])], default=None)

    def run(self, handler: Handler, event: Any) -> object:
        """Call a Lambda handler. An exception is noted, and `None` is returned."""
        try:
            return handler(event, _Invocation(self._clock, self._timeout_ms))
        except Exception as error:  # noqa: BLE001 -- as Lambda: the next event is delivered
            self.errors.append(error)
            return None

    def hide(self, receipt_handle: str, delay_s: int) -> None:
        """Hide a message that was received."""
        waiting = self._received.get(receipt_handle)
        if waiting is not None:
            waiting.visible_at_ms = self._clock.now_ms() + 1000 * delay_s

    def _receive(self) -> None:
        now_ms = self._clock.now_ms()
        self._waiting += [_Waiting(each, now_ms) for each in self._store.take_messages()]

    def _deliver(self, waiting: _Waiting, worker: Handler) -> None:
        now_ms = self._clock.now_ms()
        waiting.receives += 1
        waiting.first_received_ms = waiting.first_received_ms or now_ms
        waiting.visible_at_ms = now_ms + self.visibility_ms
        event = sqs_event([waiting.message], receives=waiting.receives)
        (record,) = event["Records"]
        record["attributes"].update(
            SentTimestamp=str(waiting.message.created_at_ms),
            ApproximateFirstReceiveTimestamp=str(waiting.first_received_ms),
        )
        self._received = {record["receiptHandle"]: waiting}
        raised = len(self.errors)
        in_use.queue = _Queue(self)
        try:
            answer = self.run(worker, event)
        finally:
            in_use.queue = None
        failed = isinstance(answer, dict) and bool(answer.get("batchItemFailures"))
        if len(self.errors) == raised and not failed:
            self._waiting.remove(waiting)
        elif waiting.receives >= _MOST_RECEIVES:
            self._waiting.remove(waiting)
            self.dead.append(waiting.message)
        else:
            # A message that is visible again at once would be received forever in no time.
            waiting.visible_at_ms = max(waiting.visible_at_ms, self._clock.now_ms() + 1000)

    def _visit_ms(self) -> int | None:
        """When the reconciler next runs and finds a record; None if nothing is ever due."""
        dues = [each.due.at_ms for each in self._store.records.values() if each.due is not None]
        if not dues:
            return None
        # A record is due from the millisecond after its time.
        due_ms = min(dues) + 1
        return due_ms if self.visited_ms is None else max(due_ms, self.visited_ms + _EACH_MS)
