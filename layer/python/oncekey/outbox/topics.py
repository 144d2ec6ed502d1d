"""Sends each message of a worker to the handler of its topic.

    from oncekey.outbox import Topics, Worker

    handler = Worker(Topics({"order.placed": confirm, "order.cancelled": refund}))

A queue has one worker, so one worker handles all topics of an outbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from oncekey.engine.job import TOPIC as JOB
from oncekey.errors import ConfigurationError, TopicUnknown
from oncekey.outbox.inbox import delivered
from oncekey.outbox.plain_function import plain_function_faults, refuse_unfinished
from oncekey.telemetry import outbox as relay_telemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.outbox.inbox import Delivered


class JobRunner(Protocol):
    """What runs accepted requests: `oncekey.queued.Jobs`."""

    def takes(self, message: Delivered) -> bool:
        """Whether it has the handler of this job."""
        ...

    def perform(self, message: Delivered, context: Any) -> None:
        """Run the job."""
        ...


class Topics:
    """The work of a `Worker`: each message goes to the handler of its topic, each job to `jobs`.

    A message of a topic without a handler raises `TopicUnknown`, and the log says what to do. The
    queue delivers it again, because a newer release may know the topic, until it becomes a dead
    letter. The other messages of the batch are not affected.

    A message may be delivered twice. So a handler should be an `idempotent_function` whose key is
    `message.id`, or make conditional writes.

    Args:
        handlers: the handlers by topic, as in `op.outbox.publish(topic, ...)`. Each is called with
            the message (`Delivered`) and the Lambda context.
        jobs: the accepted requests that this worker runs, `oncekey.queued.Jobs(...)`.

    Raises:
        ConfigurationError: there is nothing to handle, a topic is not a text, a handler is no plain
            function, or `jobs` cannot run jobs, or has an `async def` handler.
    """

    def __init__(
        self,
        handlers: Mapping[str, Callable[[Delivered, Any], object]],
        *,
        jobs: JobRunner | None = None,
    ) -> None:
        faults = [*_faults(handlers)]
        if jobs is not None:
            faults += _job_faults(jobs)
        if not handlers and jobs is None and not faults:
            faults.append("name a handler for each topic, or pass jobs=")
        if faults:
            raise ConfigurationError("oncekey.outbox.Topics", faults)
        self._handlers = dict(handlers)
        self._jobs = jobs

    def __call__(self, record: Mapping[str, Any], context: Any) -> None:
        """Handle the message in an SQS record.

        Raises:
            EnvelopeUnreadable: the record is not a message of an outbox.
            TopicUnknown: nothing handles the message.
            WorkNotRun: the handler returned an awaitable or a generator.
            BaseException: what the handler raised.
        """
        message = delivered(record["body"])
        if self._jobs is not None and self._jobs.takes(message):
            self._jobs.perform(message, context)
            return
        handler = self._handlers.get(message.topic)
        if handler is None:
            unknown = TopicUnknown(_advice(message))
            relay_telemetry.topic_unknown(message.id, message.topic, unknown)
            raise unknown
        refuse_unfinished(handler(message, context))


def _faults(handlers: Mapping[str, Callable[[Delivered, Any], object]]) -> Iterator[str]:
    given: object = handlers
    if not isinstance(given, Mapping):
        yield f"the handlers are a {type(given).__name__}: pass a dictionary of them by topic"
        return
    for topic, handler in given.items():
        if not isinstance(topic, str) or not topic:
            yield f"{topic!r} is no topic: a topic is a text"
        elif topic == JOB:
            yield f"{topic!r} is the topic of accepted requests: pass jobs=Jobs(...) instead"
        else:
            yield from plain_function_faults(f"the handler of {topic!r}", handler)


def _job_faults(jobs: object) -> Iterator[str]:
    if isinstance(jobs, type) or not hasattr(jobs, "takes"):
        yield "jobs= is no Jobs(...)"
        return
    # None of their messages could be handled, and all would become dead letters.
    for name in getattr(jobs, "async_operations", ()):
        yield (
            f"jobs= has the async def handler of {name!r}, and Topics calls plain functions: pass"
            " an object whose perform runs jobs.perform_async with asyncio.run"
        )


def _advice(message: Delivered) -> str:
    if message.topic == JOB:
        return (
            f"no handler runs the accepted requests of {message.operation!r}: name it in"
            " Jobs(...), pass that to Topics(..., jobs=), and move the dead letters back"
        )
    return (
        f"topic {message.topic!r}, published by {message.operation!r}, has no handler: add it to"
        " Topics({...}), and move the dead letters back; or stop publishing it"
    )
