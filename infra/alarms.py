"""Alarms: somebody is told of what a service cannot repair by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import CfnOutput, Duration

from infra.names import pascal
from infra.oncekey_cdk import Observability

if TYPE_CHECKING:
    from constructs import Construct

    from infra.oncekey_cdk import IdempotentFunction, IdempotentHttpApi
    from infra.resources import Resources
    from oncekey_local.description import ScheduleTrigger, Service

_OF_STREAMS = (
    "Of what a stream has given up: look which records it names, remove the cause, and put their"
    " items into the table again."
)
_OF_RECONCILERS = (
    "Of an operation that nobody could settle: find out from the provider what happened, and settle"
    " it (oncekey.settle) by the reference that the message holds."
)
_OF_SCHEDULES = (
    "Of a scheduled run that has failed: remove the cause, and invoke the function with the event"
    " that the message holds, unless the next run has made up for it."
)


def add_alarms(
    scope: Construct,
    *,
    service: Service,
    resources: Resources,
    functions: list[IdempotentFunction],
    api: IdempotentHttpApi,
) -> None:
    """Create an alarm for each queue that nothing is triggered by, and for what has become slow.

    Those queues hold dead letters, and what was given up. One message in them is one too many: it
    stays there until a person has looked at it.
    """
    alarms = Observability(
        scope, "Alarms", functions=functions, tables=[*resources.tables.values()], apis=[api]
    )
    for function, created in zip(service.functions, functions, strict=True):
        if function.schedule:
            alarms.watch_schedule(created, every=_period(function.schedule))
        if function.relays_from and function.streams:
            alarms.watch_stream(created)
        if function.relays_from and function.reconciles:
            alarms.watch_leftovers(created)
        if function.compares:
            told_as = str(function.environment["POWERTOOLS_SERVICE_NAME"])
            for ledger in function.compares:
                name = f"{pascal(function.name)}{pascal(ledger)}"
                alarms.watch_ledger(name, ledger=ledger, service=told_as)
    for name in unattended(service):
        alarms.watch_depth(pascal(name), resources.queues[name], advice=_advice(name, service))
    # An output of the stack, whose name is what a person looks for.
    CfnOutput(alarms, "TopicArn", value=alarms.topic.topic_arn).override_logical_id("AlarmTopicArn")


def _period(schedule: ScheduleTrigger) -> Duration:
    if schedule.every_minutes is None:
        return Duration.days(1)
    return Duration.minutes(schedule.every_minutes)


def _advice(name: str, service: Service) -> str:
    if any(name == queue.dead_letters for queue in service.queues):
        return (
            f"Queue {name} holds messages that nobody works on: look at them, remove the cause, and"
            " redrive them."
        )
    streams = {trigger.on_failure for one in service.functions for trigger in one.streams}
    reconcilers = {to for one in service.functions if one.reconciles for to in one.sends_to}
    schedules = {one.schedule.on_failure for one in service.functions if one.schedule}
    return " ".join(
        [
            f"Queue {name} holds what waits for a person.",
            *([_OF_RECONCILERS] if name in reconcilers else []),
            *([_OF_STREAMS] if name in streams else []),
            *([_OF_SCHEDULES] if name in schedules else []),
        ]
    )


def unattended(service: Service) -> list[str]:
    """The queues, by their names in the description, whose messages wait for a person."""
    attended = {trigger.queue for function in service.functions for trigger in function.queues}
    names = [name for queue in service.queues for name in (queue.name, queue.dead_letters)]
    return [name for name in names if name not in attended]
