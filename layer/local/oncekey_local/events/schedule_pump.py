"""Calls a function by the clock, as EventBridge's rules do."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey_local.events.outages import until_answered
from oncekey_local.events.pumps import NEVER
from oncekey_local.events.schedule_event import event_bytes, failed_run
from oncekey_local.functions.runtime_api import OutcomeKind
from oncekey_local.identifiers import new_id, now_ms
from oncekey_local.log import log

if TYPE_CHECKING:
    from oncekey_local.description import ScheduleTrigger
    from oncekey_local.events.pumps import Target
    from oncekey_local.functions.runtime_api import Outcome
    from oncekey_local.store.client import StoreClient

_HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class ScheduleSource:
    """When a pump calls, and how it goes about it.

    `every_s` takes the place of the description's minutes; `NEVER` switches the schedule off. So
    many runs go on at once as `concurrency` says. `on_failure_url` is the queue that is told of
    runs that have failed.
    """

    rule_arn: str
    trigger: ScheduleTrigger
    every_s: float | None
    concurrency: int
    retry_s: float
    on_failure_url: str | None


class SchedulePump:
    """Calls whether the run before is over or not, as EventBridge does.

    A call for which no sandbox is free is not made, as Lambda gives up one that has waited until
    the next was due: a function that is always too slow has no queue that grows for ever.
    """

    def __init__(self, client: StoreClient, source: ScheduleSource, target: Target) -> None:
        self._client = client
        self._source = source
        self._target = target
        self._slots = asyncio.Semaphore(source.concurrency)
        self._label = f"schedule -> {target.name}"

    async def run(self) -> None:
        """Goes on until it is cancelled, however its runs end."""
        if self._source.every_s == NEVER:
            await asyncio.Event().wait()
        async with asyncio.TaskGroup() as runs:
            while True:
                await asyncio.sleep(next_call_in_s(self._source.trigger, self.every_s, now_ms()))
                if self._slots.locked():
                    log(f"[{self._label}] not called: {self._source.concurrency} runs go on")
                    continue
                await self._slots.acquire()  # free: nobody else takes one
                task = runs.create_task(self._work(self._event()))
                task.add_done_callback(lambda _: self._slots.release())

    async def call_now(self) -> Outcome:
        """Calls once, beside the schedule, and returns how that run has ended."""
        return await self._target.invoke(self._event())

    @property
    def every_s(self) -> float | None:
        """The time between two calls; None for one call a day."""
        minutes = self._source.trigger.every_minutes
        return None if minutes is None else self._source.every_s or 60.0 * minutes

    def told(self) -> str:
        """When it calls, in words."""
        if self._source.every_s == NEVER:
            return "off"
        if self.every_s is not None:
            return f"every {self.every_s:g} s"
        return f"daily at {self._source.trigger.daily_at_hour_utc}:00 UTC"

    def _event(self) -> bytes:
        return event_bytes(rule_arn=self._source.rule_arn, event_id=new_id(), time_ms=now_ms())

    async def _work(self, event: bytes) -> None:
        attempts = self._source.trigger.max_attempts
        outcome = await self._target.invoke(event)
        for attempt in range(1, attempts + 1):
            if outcome.kind is OutcomeKind.RESULT:
                return
            log(f"[{self._label}] attempt {attempt} of {attempts} failed: {outcome.kind}")
            if attempt < attempts:
                await asyncio.sleep(self._source.retry_s)
                outcome = await self._target.invoke(event)
        await self._give_up(event, outcome)

    async def _give_up(self, event: bytes, outcome: Outcome) -> None:
        if self._source.on_failure_url is None:
            return
        told = failed_run(
            event,
            outcome,
            function_arn=self._target.arn,
            attempts=self._source.trigger.max_attempts,
            request_id=new_id(),
            time_ms=now_ms(),
        )
        request = {"QueueUrl": self._source.on_failure_url, "MessageBody": json.dumps(told)}
        await until_answered(
            lambda: self._client.sqs("SendMessage", request),
            label=self._label,
            retry_s=self._source.retry_s,
        )


def next_call_in_s(trigger: ScheduleTrigger, every_s: float | None, time_ms: int) -> float:
    """How long after this time the next call is due: after a whole period, or on the hour."""
    if every_s is not None:
        return every_s
    hour = trigger.daily_at_hour_utc
    assert hour is not None
    left_ms = (hour * _HOUR_MS - time_ms) % (24 * _HOUR_MS)
    return (left_ms or 24 * _HOUR_MS) / 1000
