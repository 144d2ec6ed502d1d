"""The event sources of a service on this machine: queues, streams and schedules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from oncekey_local.events.pumps import Target
from oncekey_local.events.queue_pump import QueuePump, QueueSource
from oncekey_local.events.schedule_pump import SchedulePump, ScheduleSource
from oncekey_local.events.stream_pump import StreamPump, StreamSource
from oncekey_local.functions.environment import (
    function_arn,
    queue_arn,
    queue_url,
    rule_arn,
    table_name,
)
from oncekey_local.store.queues import count_messages, redrive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from oncekey_local.description import (
        Function,
        QueueTrigger,
        ScheduleTrigger,
        Service,
        StreamTrigger,
    )
    from oncekey_local.events.pumps import Invoke, PumpSettings
    from oncekey_local.functions.runtime_api import Outcome
    from oncekey_local.store.client import StoreClient

Pump = QueuePump | StreamPump | SchedulePump


class EventSources:
    """The pumps of a service, from their start to their end.

    `sandboxes` is how many invocations of a function can run at once.
    """

    def __init__(
        self, service: Service, client: StoreClient, settings: PumpSettings, *, sandboxes: int
    ) -> None:
        self.pumps: set[asyncio.Task[None]] = set()
        self._schedules: dict[str, SchedulePump] = {}
        self._service = service
        self._client = client
        self._settings = settings
        self._sandboxes = sandboxes

    def start(self, invoke: Mapping[str, Invoke]) -> None:
        """Starts a pump for every trigger. None of them ends by itself, unless it fails."""
        for function in self._service.functions:
            target = Target(
                name=function.name,
                arn=function_arn(self._service, function),
                invoke=invoke[function.name],
            )
            for pump in self._pumps(function, target):
                self.pumps.add(asyncio.create_task(pump.run()))

    async def stop(self) -> None:
        """Returns when no pump is left. Their unfinished work is not done."""
        for pump in self.pumps:
            pump.cancel()
        await asyncio.gather(*self.pumps, return_exceptions=True)

    async def queues(self) -> dict[str, dict[str, int]]:
        """How many messages each queue has.

        Raises what a call of the store raises.
        """
        return await count_messages(self._client, self._service)

    async def redrive(self, name: str) -> int:
        """Sends the dead letters of a queue to it again, and returns how many.

        Raises `KeyError` for a queue that is not there, and what a call of the store raises.
        """
        queue = {queue.name: queue for queue in self._service.queues}[name]
        return await redrive(self._client, self._service, queue)

    def schedules(self) -> dict[str, str]:
        """The schedule of each scheduled function, in words."""
        return {name: pump.told() for name, pump in self._schedules.items()}

    async def call_now(self, function: str) -> Outcome:
        """Calls a function as its schedule does, and returns the outcome of the run.

        Raises `KeyError` for a function that has no schedule.
        """
        return await self._schedules[function].call_now()

    def _pumps(self, function: Function, target: Target) -> Iterator[Pump]:
        for trigger in function.queues:
            yield QueuePump(self._client, self._queue_source(trigger), target)
        for stream in function.streams:
            yield StreamPump(self._client, self._stream_source(stream), target)
        if function.schedule:
            source = self._schedule_source(function, function.schedule)
            schedule = SchedulePump(self._client, source, target)
            self._schedules[function.name] = schedule
            yield schedule

    def _queue_source(self, trigger: QueueTrigger) -> QueueSource:
        service, settings = self._service, self._settings
        [queue] = [queue for queue in service.queues if queue.name == trigger.queue]
        return QueueSource(
            url=queue_url(service, queue.name, self._client.url),
            arn=queue_arn(service, queue.name),
            fifo=queue.fifo,
            trigger=trigger,
            window_s=self._window_s(trigger),
            visibility_timeout_s=(
                settings.visibility_timeout_s or service.visibility_timeout_s(queue)
            ),
            concurrency=min(trigger.max_concurrency or self._sandboxes, self._sandboxes),
            retry_s=settings.retry_s,
        )

    def _stream_source(self, trigger: StreamTrigger) -> StreamSource:
        return StreamSource(
            table_name=table_name(self._service, trigger.table),
            trigger=trigger,
            window_s=self._window_s(trigger),
            retry_s=self._settings.retry_s,
            on_failure_url=self._on_failure_url(trigger),
        )

    def _schedule_source(self, function: Function, trigger: ScheduleTrigger) -> ScheduleSource:
        return ScheduleSource(
            rule_arn=rule_arn(self._service, function),
            trigger=trigger,
            every_s=self._settings.schedule_s,
            concurrency=self._sandboxes,
            retry_s=self._settings.retry_s,
            on_failure_url=self._on_failure_url(trigger),
        )

    def _on_failure_url(self, trigger: ScheduleTrigger | StreamTrigger) -> str | None:
        name = trigger.on_failure
        return queue_url(self._service, name, self._client.url) if name else None

    def _window_s(self, trigger: QueueTrigger | StreamTrigger) -> float:
        given_s = self._settings.window_s
        return trigger.window_s if given_s is None else given_s
