"""What calls a function by itself: the streams and queues that the description names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration

from ..event_sources import connect_queue, connect_stream
from .names import pascal

if TYPE_CHECKING:
    from oncekey_local.description import Function

    from ..idempotent_function import IdempotentFunction
    from .resources import ServiceResources


def add_event_sources(
    created: IdempotentFunction, function: Function, resources: ServiceResources
) -> None:
    """Let streams and queues call the function, with the exact grants that they need."""
    for stream in function.streams:
        connect_stream(
            created,
            f"{pascal(stream.table)}Stream",
            table=resources.tables[stream.table].table,
            batch_size=stream.batch_size,
            window=Duration.seconds(stream.window_s),
            event_names=stream.event_names,
            max_attempts=stream.max_attempts,
            on_failure=resources.queues[stream.on_failure] if stream.on_failure else None,
            partial_batch_answers=stream.partial_batch_answers,
        )
    for trigger in function.queues:
        connect_queue(
            created,
            f"{pascal(trigger.queue)}Queue",
            queue=resources.queues[trigger.queue],
            batch_size=trigger.batch_size,
            window=Duration.seconds(trigger.window_s),
            max_concurrency=trigger.max_concurrency,
            partial_batch_answers=trigger.partial_batch_answers,
        )
