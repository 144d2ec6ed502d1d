"""Runs jobs in a worker: the requests that handlers with `mode="queued"` have accepted.

The half-done operations of handlers with `on_abandoned="complete"` are finished in the same way.

    from oncekey.outbox import delivered
    from oncekey.queued import Jobs

    jobs = Jobs(create_report)

    def on_message(body: str, context: LambdaContext) -> None:
        message = delivered(body)
        if jobs.takes(message):
            jobs.perform(message, context)

If `perform` raises, pass the exception on, so that the queue keeps the message.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from oncekey.engine.execution import run, run_async
from oncekey.engine.job import TOPIC, job_message_in
from oncekey.engine.kept_event import without_sender
from oncekey.errors import (
    ConfigurationError,
    InProgress,
    JobUnfinished,
    KeyMissing,
    NotExecuted,
    OutcomeUnknown,
    Paused,
    RequestRefused,
    StoreUnavailable,
)
from oncekey.http.job import HttpJob, job_of
from oncekey.record.outcome import Failed, Ran, Reason, Refusal, whole_seconds
from oncekey.telemetry import jobs as job_telemetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.engine.job import JobMessage
    from oncekey.errors import CallNotAnswered
    from oncekey.outbox.inbox import Delivered
    from oncekey.record.outcome import Outcome

_EXCEPTIONS: dict[Reason, type[CallNotAnswered]] = {
    Reason.KEY_MISSING: KeyMissing,
    Reason.RUNNING: InProgress,
    Reason.OUTCOME_UNKNOWN: OutcomeUnknown,
    Reason.STORE_UNAVAILABLE: StoreUnavailable,
    Reason.UNFINISHED: JobUnfinished,
    Reason.PAUSED: Paused,
}


class Jobs:
    """The jobs that one worker runs.

    Args:
        handlers: the handlers, each decorated with `@idempotent(mode="queued")`, or with
            `on_abandoned="complete"`.

    Raises:
        ConfigurationError: a handler is decorated with neither, two handlers share an operation,
            or no handler is given.
    """

    def __init__(self, *handlers: Callable[[Any, Any], Any]) -> None:
        self._jobs: dict[str, HttpJob] = {}
        faults: list[str] = []
        for handler in handlers:
            job = job_of(handler)
            name = getattr(handler, "__name__", "a handler")
            if job is None:
                faults.append(
                    f"{name} is decorated with neither @idempotent(mode='queued') nor"
                    " on_abandoned='complete'"
                )
            elif job.name in self._jobs:
                faults.append(f"{name} is a second handler of {job.name!r}")
            else:
                self._jobs[job.name] = job
        if faults or not handlers:
            raise ConfigurationError("oncekey.queued.jobs.Jobs", faults or ["name the handlers"])

    @property
    def async_operations(self) -> list[str]:
        """The operations whose handlers are `async def`, which `perform` does not run."""
        return [name for name, job in self._jobs.items() if job.is_coroutine]

    def takes(self, message: Delivered) -> bool:
        """Whether `message` is a job for one of these handlers."""
        return message.topic == TOPIC and message.operation in self._jobs

    def perform(self, message: Delivered, context: Any) -> None:
        """Run the job of `message`. It takes effect once, however often the queue delivers it.

        When it returns, the request is answered, by this run or another one, or the message is
        outdated. Acknowledge the message. When it raises, let the queue deliver the message again.
        The next run then continues from the record. The lease ends with the invocation of
        `context`, the worker's Lambda context.

        Raises:
            JobUnfinished: the handler's answer is not final, or its end was not recorded. Or this
                attempt ended without an answer, and some of its steps may have taken effect.
            InProgress: another worker runs the job. `retry_after_s` says when to try again.
            OutcomeUnknown: the job was interrupted and may have had an effect. It must be settled.
            StoreUnavailable: the store did not answer, or did not confirm the end.
            Paused: an operator has paused the operation or the tenant; the job was not begun.
            NotExecuted: nothing was done, neither by this attempt nor by a step on record.
            ValueError: no handler here takes the message, the request does not fit this release, or
                the message's request is not the one that was accepted.
            BaseException: the handler's exception. The end was recorded first, if possible.
        """
        job = self._job(message)
        if job.is_coroutine:
            raise TypeError(f"{job.name} is an async def handler: use perform_async")
        found = job_message_in(message.payload, message.operation_id)
        handle = partial(job.handler, without_sender(found.event), context)
        flow = _work(job, found, message, context)
        run(flow, handle, job.operation.find_store, job.operation.clock)

    async def perform_async(self, message: Delivered, context: Any) -> None:
        """The same for an `async def` handler. Calls of the store do not block the event loop."""
        job = self._job(message)
        if not job.is_coroutine:
            raise TypeError(f"{job.name} is no async def handler: use perform")
        found = job_message_in(message.payload, message.operation_id)
        handle = partial(job.handler, without_sender(found.event), context)
        flow = _work(job, found, message, context)
        await run_async(flow, handle, job.operation.find_store, job.operation.clock)

    def _job(self, message: Delivered) -> HttpJob:
        if not self.takes(message):
            raise ValueError(
                f"no handler takes {message!r} of {message.operation!r}: name it in Jobs(...)"
            )
        return self._jobs[message.operation]


async def _work(job: HttpJob, found: JobMessage, message: Delivered, context: Any) -> Failed | None:
    """None if the request is answered or the message outdated; `Failed` if the handler raised."""
    try:
        outcome = await job.operation.work(found, context)
    except RequestRefused as refusal:
        raise ValueError(
            f"an accepted request of {job.name!r} does not fit this release ({refusal.code}):"
            " key, tenant and principal must be found in it as when it was accepted"
        ) from refusal
    if isinstance(outcome, Failed):
        return outcome
    _check(outcome, message)
    return None


def _check(outcome: Outcome, message: Delivered) -> None:
    """Return if the request is answered or the message is outdated. Otherwise raise."""
    match outcome:
        case Refusal(reason=Reason.NOT_EXECUTED):
            raise NotExecuted(f"{message.operation}: this attempt did nothing; deliver it again")
        case Refusal(reason=reason) if reason in _EXCEPTIONS:
            wait_ms = outcome.retry_after_ms
            raise _EXCEPTIONS[reason](
                operation=message.operation,
                operation_id=message.operation_id,
                retry_after_s=None if wait_ms is None else whole_seconds(wait_ms),
                detail=outcome.detail or "",
            )
        case Refusal(reason=Reason.KEY_REUSED):
            raise ValueError(
                f"the message carries another request than {message.operation!r} accepted as"
                f" {message.operation_id}: it is not carried out"
            )
        case Refusal(reason=Reason.SUPERSEDED, record=None):
            job_telemetry.forgotten(message.operation, message.operation_id)
        case Refusal(reason=Reason.SUPERSEDED):
            job_telemetry.superseded(message.operation, message.operation_id)
        case Ran(expires_at_s=None, is_done=False):
            # The answer is not final, or was not recorded. The next delivery reads which from the
            # record.
            raise JobUnfinished(
                operation=message.operation, operation_id=message.operation_id, retry_after_s=1
            )
        case _:
            return
