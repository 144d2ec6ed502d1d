"""A worker: a Lambda function on a queue that handles a batch message by message, within its time.

    from oncekey.outbox import Worker

    def work(record: Mapping[str, Any], context: LambdaContext) -> None:
        message = delivered(record["body"])
        ...

    handler = Worker(work)

ONCEKEY_QUEUE_URL names the queue. The event source must have `ReportBatchItemFailures`.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oncekey.effects.raised import is_cancelled
from oncekey.engine.request import remaining_ms
from oncekey.errors import (
    ConfigurationError,
    InProgress,
    OutcomeUnknown,
    Paused,
    QuotaExceeded,
    ResultUnavailable,
    StoreError,
    StoreUnavailable,
)
from oncekey.flow.retry import delay_ms
from oncekey.options import clock_faults, part_faults
from oncekey.outbox.batch import Received, records_of
from oncekey.outbox.inbox import has_none, own_queue
from oncekey.outbox.plain_function import plain_function_faults, refuse_unfinished
from oncekey.record.outcome import whole_seconds
from oncekey.store import defaults, in_use
from oncekey.store.aws_errors import is_passing
from oncekey.store.sqs import LONGEST_DELAY_S
from oncekey.telemetry import outbox as relay_telemetry
from oncekey.telemetry import watching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from oncekey.clock import Clock
    from oncekey.outbox.batch import Record
    from oncekey.store.sqs import SqsQueue

# The time reserved for returning messages to the queue; a quarter of a short invocation.
_MARGIN_MS = 2_000
_MARGIN_FRACTION = 4
# The assumed length of an invocation outside Lambda, which has no deadline.
_WITHOUT_CONTEXT_MS = 10_000
# The expected time for one message, until a message has taken longer.
_EXPECTED_MS = 10_000
_EXPECTED_FRACTION = 4
# A message of a killed attempt can be taken up again only after the attempt's lease.
_AFTER_LEASE_MS = 1_000
_SHORTEST_DELAY_S = 2
# AWS recommends a visibility timeout of this many timeouts of the function.
_RECOMMENDED_TIMEOUTS = 6
_MOST_DOUBLINGS = 16
# SQS counts each delivery, also of work that is paused. With this first delay, which doubles up to
# `LONGEST_DELAY_S`, ten receives last for a pause of a day.
_PAUSED_S = 300


class Worker:
    """A Lambda handler that calls `work` for each record of an SQS event, one after the other.

    If `work` raises, is cancelled, or returns an awaitable or a generator, its message stays in the
    queue. A message may be delivered twice, so `work` should call an idempotent function or make
    conditional writes.

    - Each message is hidden until shortly after the invocation's end. After a kill, it is delivered
      again at that time, and not after the queue's visibility timeout.
    - While the store does not answer, the worker waits and retries the same message.
    - The worker begins no message that it may be unable to finish in time. It returns such messages
      to the queue, which delivers them again at once. Those received most often are begun first.
    - A failed message is delivered again after a delay of at least two seconds, which doubles with
      each receive. It is at most the time since the first receive, and the queue's visibility
      timeout. If another attempt is running, the outcome is unknown or the tenant's quota is used
      up, the error states the delay.
    - The message of paused work is delivered again after five minutes, and then after as long as it
      has waited already, up to ten and a half hours. With ten receives, it waits for more than a
      day before it becomes a dead letter.
    - After a failure in a FIFO group, no later message of that group is begun.

    Each delivery counts as a receive of the message, even if the worker returns it, and SQS cannot
    undo that. So permit ten receives or more (`max_receives`).

    Args:
        work: is called with the record of the event and the Lambda context.
        queue: by default the one that ONCEKEY_QUEUE_URL names. Without one, only the queue's
            visibility timeout applies, and that is logged.
        clock: for tests.

    Raises:
        ConfigurationError: `work` is no plain function, or another argument is wrong.
    """

    def __init__(
        self,
        work: Callable[[Record, Any], object],
        *,
        queue: SqsQueue | None = None,
        clock: Clock | None = None,
    ) -> None:
        parts = {"queue=": (queue, "hide_all", "SqsQueue(url)")}
        faults = [*plain_function_faults("its work", work), *part_faults(parts)]
        faults += clock_faults(clock)
        if faults:
            raise ConfigurationError("oncekey.outbox.Worker", faults)
        self._work = work
        self._queue = queue
        self._given_clock = clock
        self._visibility_timeout_s: int | None = None

    def __call__(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Work on the event's records, and return those that the queue must deliver again.

        Raises:
            ConfigurationError: the event is none of a queue; nothing was begun.
        """
        records = records_of(event, "messageId", "oncekey.outbox.Worker", "an SQS queue")
        received = [Received.of(record) for record in records]
        if not received:
            return {"batchItemFailures": []}
        watching.look_again()
        try:
            return self._worked(received, context)
        finally:
            watching.flush(self._clock.now_ms())

    def _worked(self, received: list[Received], context: Any) -> dict[str, Any]:
        turn = self._turn(context, received)
        for each in _in_turn(received):
            if not turn.may_begin(each, self._clock.now_ms()):
                turn.leave(each)
                continue
            turn.has_begun = True
            self._hold(turn)
            fault = self._carried_out(each, turn, context)
            if fault is not None:
                self._failed(each, fault, turn)
        self._give_back(turn)
        failed = [each.id for each in received if each.id in turn.again_in_s]
        return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}

    @property
    def _clock(self) -> Clock:
        return in_use.clock_or(self._given_clock)

    def _turn(self, context: Any, received: list[Received]) -> _Turn:
        settings = defaults.settings({})
        now_ms, left_ms = self._clock.now_ms(), remaining_ms(context)
        if left_ms is None:
            left_ms = _WITHOUT_CONTEXT_MS
        usable_ms = left_ms - min(_MARGIN_MS, left_ms // _MARGIN_FRACTION)
        expected_ms = min(usable_ms // len(received), left_ms // _EXPECTED_FRACTION, _EXPECTED_MS)
        return _Turn(
            whole_ms=left_ms,
            until_ms=now_ms + usable_ms,
            expected_ms=expected_ms,
            hidden_until_ms=now_ms + left_ms + settings.lease_margin_ms + _AFTER_LEASE_MS,
            held=received,
        )

    def _hold(self, turn: _Turn) -> None:
        """Hide the whole batch until shortly after the invocation, or retry the calls that failed.

        Messages that are already done may be hidden as well, which has no effect.
        """
        if turn.held:
            hidden_s = whole_seconds(turn.hidden_until_ms - self._clock.now_ms())
            if self._hide((each, hidden_s) for each in turn.held):
                turn.held = []

    def _carried_out(self, received: Received, turn: _Turn, context: Any) -> BaseException | None:
        """None if the message is done; otherwise the error."""
        tries = 0
        while True:
            begun_ms = self._clock.now_ms()
            try:
                with _traced(received):
                    refuse_unfinished(self._work(received.record, context))
            except BaseException as error:
                if isinstance(error, ResultUnavailable) and error.completed:
                    # It was done before, and only its result is unavailable.
                    return None
                # One message must not stop the others. `asyncio.run` raises the cancellation of
                # its coroutine, which is no `Exception`, and no exit.
                if not isinstance(error, Exception) and not is_cancelled(error):
                    raise
                if not _is_outage(error):
                    return error
                tries += 1
                wait_ms = max(delay_ms(tries, self._clock.random_fraction()), _told_ms(error))
                if not turn.has_time(self._clock.now_ms() + wait_ms):
                    turn.is_store_down = True
                    return error
                if tries == 1:
                    relay_telemetry.worker_waits(error)
                self._clock.pause(wait_ms)
                self._hold(turn)
            else:
                turn.took(self._clock.now_ms() - begun_ms)
                return None

    def _failed(self, received: Received, fault: BaseException, turn: _Turn) -> None:
        now_ms = self._clock.now_ms()
        relay_telemetry.message_failed(received.id, received.receives, fault)
        if isinstance(fault, InProgress | OutcomeUnknown | Paused | QuotaExceeded):
            is_paused = isinstance(fault, Paused)
            after_s = _PAUSED_S if is_paused else fault.retry_after_s or 0
            delay_s = _not_now_s(received, after_s, now_ms)
            turn.fail(received, delay_s)
            # It is hidden now and not with the others: a kill must not lengthen its delay.
            if self._told(lambda queue: queue.hide(received.handle, delay_s)):
                turn.again_said.add(received.id)
            return
        turn.fail(received, _again_s(received, now_ms, self._longest_s(turn)))

    def _give_back(self, turn: _Turn) -> None:
        now_ms = self._clock.now_ms()
        for each in turn.left:
            delay_s = turn.delay_of_group.get(each.group or "", 0)
            if turn.is_store_down:
                delay_s = max(delay_s, _again_s(each, now_ms, self._longest_s(turn)))
            turn.again_in_s[each.id] = delay_s
        if turn.left:
            relay_telemetry.messages_given_back(len(turn.left))
        everything = [*turn.failed, *turn.left]
        self._hide(
            (each, turn.again_in_s[each.id])
            for each in everything
            if each.id not in turn.again_said
        )

    def _hide(self, delays: Iterable[tuple[Received, int]]) -> bool:
        handles = [(each.handle, delay_s) for each, delay_s in delays if each.handle]
        return not handles or self._told(lambda queue: queue.hide_all(handles))

    def _told(self, call: Callable[[SqsQueue], object]) -> bool:
        """Call the queue. If it does not answer, its visibility timeout applies."""
        if defaults.is_disabled() or has_none(self._queue):
            return True
        try:
            call(own_queue(self._queue))
        except (ConfigurationError, StoreError) as error:
            relay_telemetry.message_not_postponed(error)
            return False
        return True

    def _longest_s(self, turn: _Turn) -> int:
        if turn.longest_s is None:
            if self._visibility_timeout_s is None:
                self._told(self._learn_visibility_timeout)
            recommended_s = whole_seconds(_RECOMMENDED_TIMEOUTS * turn.whole_ms)
            turn.longest_s = self._visibility_timeout_s or recommended_s
        return turn.longest_s

    def _learn_visibility_timeout(self, queue: SqsQueue) -> None:
        self._visibility_timeout_s = queue.visibility_timeout_s()


@dataclass(slots=True, kw_only=True)
class _Turn:
    """One invocation: its time, and the state of its messages."""

    whole_ms: int
    until_ms: int
    expected_ms: int
    hidden_until_ms: int
    # The messages that the queue has not confirmed to be hidden.
    held: list[Received]
    longest_s: int | None = None
    has_begun: bool = False
    is_store_down: bool = False
    failed: list[Received] = field(default_factory=list)
    left: list[Received] = field(default_factory=list)
    again_said: set[str] = field(default_factory=set)
    again_in_s: dict[str, int] = field(default_factory=dict)
    delay_of_group: dict[str, int] = field(default_factory=dict)

    def may_begin(self, received: Received, now_ms: int) -> bool:
        """Whether a message may be begun. The first always may, so that there is progress."""
        if self.is_store_down or received.group in self.delay_of_group:
            return False
        return not self.has_begun or self.has_time(now_ms)

    def has_time(self, now_ms: int) -> bool:
        """Whether there is time for a message as slow as expected, or as the slowest so far."""
        return now_ms + self.expected_ms <= self.until_ms

    def took(self, duration_ms: int) -> None:
        """A message took this time."""
        self.expected_ms = max(self.expected_ms, duration_ms)

    def fail(self, received: Received, delay_s: int) -> None:
        """A message failed; it is delivered again after `delay_s`."""
        self.failed.append(received)
        self.again_in_s[received.id] = delay_s
        if received.group is not None:
            self.delay_of_group[received.group] = delay_s

    def leave(self, received: Received) -> None:
        """A message was not begun."""
        self.left.append(received)


def _traced(received: Received) -> AbstractContextManager[object]:
    """The span of a message that is worked on, if traces are on."""
    tracing = watching.tracing()
    if tracing is None:
        return nullcontext()
    from oncekey.telemetry.tracing import traceparent_in

    return tracing.span(
        "oncekey work",
        parent=traceparent_in(received.record.get("body", "")),
        kind="CONSUMER",
        attributes={"messaging.message.id": received.id},
    )


def _in_turn(received: Sequence[Received]) -> list[Received]:
    """The messages that were received most often first, before they become dead letters.

    The messages of a FIFO queue keep their order.
    """
    if any(each.group is not None for each in received):
        return list(received)
    return sorted(received, key=lambda each: -each.receives)


def _again_s(received: Received, now_ms: int, longest_s: int) -> int:
    """The delay in seconds until a failed message is delivered again.

    It doubles with each receive, up to the time since the first receive and up to `longest_s`. So
    after an outage, the message waits at most as long as the outage lasted. During a long outage
    the delay grows, so that the message does not use up its receives. Several receives within a
    short time do not lengthen it.
    """
    doubled_s = _SHORTEST_DELAY_S << min(max(received.receives - 1, 0), _MOST_DOUBLINGS)
    tried_for_s = max(_SHORTEST_DELAY_S, received.tried_for_s(now_ms))
    return min(doubled_s, tried_for_s, longest_s)


def _not_now_s(received: Received, after_s: int, now_ms: int) -> int:
    """The delay in seconds for a message that must wait for another attempt or another time.

    It doubles each time, because the message would otherwise become a dead letter before a lease
    ends. It is at most the time since the first receive.
    """
    doubled_s = after_s << min(max(received.receives - 1, 0), _MOST_DOUBLINGS)
    return min(doubled_s, max(after_s, received.tried_for_s(now_ms)), LONGEST_DELAY_S)


def _is_outage(error: BaseException) -> bool:
    """Whether the same message may succeed after a wait."""
    if isinstance(error, StoreError):
        return error.transient
    return isinstance(error, StoreUnavailable) or is_passing(error)


def _told_ms(error: BaseException) -> int:
    # While the breaker is open, no call is made. Its error says for how long.
    after_s = error.retry_after_s if isinstance(error, StoreUnavailable) else None
    return 1000 * (after_s or 0)
