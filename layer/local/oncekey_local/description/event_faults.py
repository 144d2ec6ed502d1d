"""The faults of the queues and triggers in a description.

The limits are those of SQS, of EventBridge's rules, and of Lambda's event source mappings and
asynchronous invocations.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from oncekey_local.description.faults import PLAIN_NAME
from oncekey_local.description.functions import safe_visibility_timeout_s
from oncekey_local.description.resources import QueueUrl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from oncekey_local.description import Service
    from oncekey_local.description.functions import (
        Function,
        QueueTrigger,
        ScheduleTrigger,
        StreamTrigger,
    )
    from oncekey_local.description.resources import Queue

EVENT_NAMES = ("INSERT", "MODIFY", "REMOVE")
_QUEUE_NAME_MAX = 80
_VISIBILITY_TIMEOUT_S_MAX = 43_200
# Dead letters are kept for SQS's longest time, counted from when they were first sent.
DEAD_LETTER_RETENTION_DAYS = 14
_BATCH_SIZE_MAX = 10_000
# SQS returns at most this many messages at once. A larger batch must wait for more, and a FIFO
# queue has no such wait.
_RECEIVED_AT_ONCE_MAX = 10
_WINDOW_S_MAX = 300
_CONCURRENCY_MIN, _CONCURRENCY_MAX = 2, 1000
# At least once a day.
_EVERY_MINUTES_MAX = 24 * 60
# Lambda tries a run that has failed again after one minute, then after two, and then no more.
_RUN_ATTEMPTS_MAX = 3
_EVERY_MINUTES_WITH_RETRIES = 5


def faults(service: Service) -> list[str]:
    """All faults, one sentence each."""
    return [
        *_unknown_queues(service),
        *(fault for queue in service.queues for fault in _of_queue(service, queue)),
        *(
            f"function {function.name!r} {fault}"
            for function in service.functions
            for fault in _of_triggers(service, function)
        ),
    ]


def least_visibility_timeout_s(service: Service, queue: Queue) -> int:
    """The shortest safe visibility timeout for the function that the queue triggers, or 0."""
    return max(
        (
            safe_visibility_timeout_s(timeout_s=function.timeout_s, window_s=trigger.window_s)
            for function, trigger in _triggered_by(service, queue)
        ),
        default=0,
    )


def is_worked_on(service: Service, queue: Queue) -> bool:
    """Whether the queue triggers a function. Otherwise its messages wait for a person."""
    return any(True for _ in _triggered_by(service, queue))


def _triggered_by(service: Service, queue: Queue) -> Iterator[tuple[Function, QueueTrigger]]:
    for function in service.functions:
        for trigger in function.queues:
            if trigger.queue == queue.name:
                yield function, trigger


def _unknown_queues(service: Service) -> list[str]:
    known = {name for queue in service.queues for name in (queue.name, queue.dead_letters)}
    return [
        f"function {function.name!r} names queue {name!r}, which the service does not have"
        for function in service.functions
        for name in sorted(_queues_named_by(function))
        if name not in known
    ]


def _queues_named_by(function: Function) -> set[str]:
    return {
        *function.sends_to,
        *(trigger.queue for trigger in function.queues),
        *(name for name in _told_of_failures_by(function) if name),
        *(value.queue for value in function.environment.values() if isinstance(value, QueueUrl)),
        *(one.on.queue for one in function.allows if isinstance(one.on, QueueUrl)),
    }


def _told_of_failures_by(function: Function) -> list[str | None]:
    of_streams = [trigger.on_failure for trigger in function.streams]
    return [*of_streams, function.schedule.on_failure if function.schedule else None]


def _of_queue(service: Service, queue: Queue) -> Iterator[str]:
    name = f"queue {queue.name!r}"
    longest = f"{service.name}-local-{queue.dead_letters}{'.fifo' if queue.fifo else ''}"
    if not PLAIN_NAME.fullmatch(queue.name) or len(longest) > _QUEUE_NAME_MAX:
        yield (
            f"{name} has a name that SQS would refuse: use lower-case letters, digits and hyphens, "
            f"and not many ({longest!r} may have {_QUEUE_NAME_MAX})"
        )
    if not 1 <= queue.max_receives <= 1000:
        yield f"{name} gives up after {queue.max_receives} receives: 1 to 1000"
    yield from (f"{name} keeps messages for {fault}" for fault in _of_retention(service, queue))
    functions = [function.name for function, _ in _triggered_by(service, queue)]
    if len(functions) > 1:
        yield (
            f"{name} triggers {_listed(functions)}: each message would reach one of them only; let"
            " one worker handle all topics (oncekey.outbox.Topics), or use a queue for each"
        )
    yield from _of_visibility_timeout(service, queue)


def _of_retention(service: Service, queue: Queue) -> Iterator[str]:
    days = queue.retention_days
    if days is None:
        return
    if not is_worked_on(service, queue):
        if days != DEAD_LETTER_RETENTION_DAYS:
            yield (
                f"{days} days, and no function works on them: they wait for a person, so leave"
                f" retention_days out, which keeps them for {DEAD_LETTER_RETENTION_DAYS}"
            )
    elif not 1 <= days < DEAD_LETTER_RETENTION_DAYS:
        yield (
            f"{days} days: 1 to {DEAD_LETTER_RETENTION_DAYS - 1}, because dead letters live for "
            f"{DEAD_LETTER_RETENTION_DAYS} from when they were sent"
        )


def _of_visibility_timeout(service: Service, queue: Queue) -> Iterator[str]:
    given_s = queue.visibility_timeout_s
    if given_s is None:
        return
    if not 0 <= given_s <= _VISIBILITY_TIMEOUT_S_MAX:
        yield (
            f"queue {queue.name!r} has a visibility timeout of {given_s} s: "
            f"0 to {_VISIBILITY_TIMEOUT_S_MAX}"
        )
    for function, trigger in _triggered_by(service, queue):
        least_s = safe_visibility_timeout_s(timeout_s=function.timeout_s, window_s=trigger.window_s)
        if given_s < least_s:
            yield (
                f"queue {queue.name!r} has a visibility timeout of {given_s} s: at least {least_s},"
                f" six times the timeout of function {function.name!r} ({function.timeout_s} s) and"
                f" the window ({trigger.window_s} s), or it hands out messages that are being"
                " worked on"
            )


def _of_triggers(service: Service, function: Function) -> Iterator[str]:
    sources = Counter(
        [
            *(f"table {trigger.table!r}" for trigger in function.streams),
            *(f"queue {trigger.queue!r}" for trigger in function.queues),
        ]
    )
    yield from (f"is triggered by {name} twice" for name, times in sources.items() if times > 1)
    for stream in function.streams:
        yield from (f"and table {stream.table!r}: {fault}" for fault in _of_stream(service, stream))
    for trigger in function.queues:
        yield from (
            f"and queue {trigger.queue!r}: {fault}" for fault in _of_trigger(service, trigger)
        )
    if function.schedule:
        yield from (
            f"and its schedule: {fault}" for fault in _of_schedule(service, function.schedule)
        )


def _of_stream(service: Service, trigger: StreamTrigger) -> Iterator[str]:
    without = [table.name for table in service.tables if not table.stream]
    if trigger.table in without:
        yield "the table has no stream; say stream=True"
    if not trigger.event_names or not {*trigger.event_names} <= {*EVENT_NAMES}:
        yield f"event_names are some of {', '.join(EVENT_NAMES)}"
    if not 1 <= trigger.max_attempts <= _BATCH_SIZE_MAX:
        yield f"max_attempts={trigger.max_attempts} must be 1 to {_BATCH_SIZE_MAX}"
    yield from _of_on_failure(service, trigger.on_failure)
    yield from _of_batch(trigger.batch_size, trigger.window_s)


def _of_schedule(service: Service, trigger: ScheduleTrigger) -> Iterator[str]:
    every, hour = trigger.every_minutes, trigger.daily_at_hour_utc
    if (every is None) is (hour is None):
        yield "say one of every_minutes and daily_at_hour_utc"
    if every is not None and not 1 <= every <= _EVERY_MINUTES_MAX:
        yield f"every_minutes={every} must be 1 to {_EVERY_MINUTES_MAX}"
    if hour is not None and not 0 <= hour <= 23:
        yield f"daily_at_hour_utc={hour} must be 0 to 23"
    if not 1 <= trigger.max_attempts <= _RUN_ATTEMPTS_MAX:
        yield f"max_attempts={trigger.max_attempts} must be 1 to {_RUN_ATTEMPTS_MAX}"
    elif trigger.max_attempts > 1 and every and every < _EVERY_MINUTES_WITH_RETRIES:
        yield (
            f"max_attempts={trigger.max_attempts} every {every} minutes: the next run is there"
            f" first; say 1, or every_minutes={_EVERY_MINUTES_WITH_RETRIES} or more"
        )
    yield from _of_on_failure(service, trigger.on_failure)


def _of_on_failure(service: Service, on_failure: str | None) -> Iterator[str]:
    if on_failure in {
        name for queue in service.queues if queue.fifo for name in (queue.name, queue.dead_letters)
    }:
        yield f"Lambda sends what has failed to no FIFO queue, such as {on_failure!r}"


def _of_trigger(service: Service, trigger: QueueTrigger) -> Iterator[str]:
    if trigger.queue in {queue.dead_letters for queue in service.queues}:
        yield "dead letters trigger nothing; redrive them into their queue"
    most = trigger.max_concurrency
    if most is not None and not _CONCURRENCY_MIN <= most <= _CONCURRENCY_MAX:
        yield f"max_concurrency={most} must be {_CONCURRENCY_MIN} to {_CONCURRENCY_MAX}, or None"
    yield from _of_batch(trigger.batch_size, trigger.window_s)
    if trigger.queue in {queue.name for queue in service.queues if queue.fifo}:
        if trigger.batch_size > _RECEIVED_AT_ONCE_MAX:
            yield f"batch_size={trigger.batch_size} must be {_RECEIVED_AT_ONCE_MAX} at the most"
        if trigger.window_s:
            yield "a FIFO queue has no window; say window_s=0"
    elif trigger.batch_size > _RECEIVED_AT_ONCE_MAX and not trigger.window_s:
        yield f"a batch_size of more than {_RECEIVED_AT_ONCE_MAX} needs a window_s"


def _of_batch(batch_size: int, window_s: int) -> Iterator[str]:
    if not 1 <= batch_size <= _BATCH_SIZE_MAX:
        yield f"batch_size={batch_size} must be 1 to {_BATCH_SIZE_MAX}"
    if not 0 <= window_s <= _WINDOW_S_MAX:
        yield f"window_s={window_s} must be 0 to {_WINDOW_S_MAX}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
