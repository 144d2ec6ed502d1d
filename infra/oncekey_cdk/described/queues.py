"""A queue of the description as an SQS queue, with the queue of its dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration

from oncekey_local.description.event_faults import DEAD_LETTER_RETENTION_DAYS

from ..safe_queue import create_queue
from ..schedule import let_events_send
from .names import pascal

if TYPE_CHECKING:
    from aws_cdk import aws_sqs as sqs
    from constructs import Construct

    from oncekey_local.description import Queue, Service


def create_queues(
    scope: Construct, queue: Queue, service: Service, *, keeps_data: bool
) -> dict[str, sqs.Queue]:
    """The queue and that of its dead letters, by their names in the description."""
    dead_letters = create_queue(
        scope,
        f"{pascal(queue.dead_letters)}Queue",
        retention=Duration.days(DEAD_LETTER_RETENTION_DAYS),
        fifo=queue.fifo,
        keeps_data=keeps_data,
    )
    created = create_queue(
        scope,
        f"{pascal(queue.name)}Queue",
        retention=Duration.days(service.retention_days(queue)),
        fifo=queue.fifo,
        visibility_timeout=Duration.seconds(service.visibility_timeout_s(queue)),
        dead_letters=dead_letters,
        max_receives=queue.max_receives,
        keeps_data=keeps_data,
    )
    queues = {queue.name: created, queue.dead_letters: dead_letters}
    for name in {*queues} & _told_of_failed_schedules(service):
        let_events_send(queues[name])
    return queues


def _told_of_failed_schedules(service: Service) -> set[str | None]:
    return {function.schedule.on_failure for function in service.functions if function.schedule}
