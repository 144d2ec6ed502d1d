"""The alarms of a described service: what it cannot repair by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import Duration

from ..alarm_set import MINUTE
from ..metrics import SERVICE_VARIABLE, service_variable
from ..observability import Observability
from .names import pascal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_sns as sns
    from constructs import Construct

    from oncekey_local.description import Function, ScheduleTrigger, Service

    from ..http_api import IdempotentHttpApi
    from ..idempotent_function import IdempotentFunction
    from ..rest_api import IdempotentRestApi
    from .service_resources import ServiceResources

# The dimension `service` of a function that is told no name, as Powertools calls it.
_UNNAMED = "service_undefined"
_OF_STREAMS = (
    "Lambda gave up records of a stream. Fix the cause shown in the function's log. The reconciler"
    " sends messages that are still in the outbox; put the items of another table into it again."
)
_OF_RECONCILERS = (
    "An operation could not be settled. Ask the provider what happened, then settle it (oncekey"
    " resolve)."
)
_OF_SCHEDULES = (
    "A scheduled run failed. Fix the cause shown in its log; the next run continues. If there is"
    " no next run soon, invoke the function with the event in the message."
)


def create_alarms(
    scope: Construct,
    *,
    service: Service,
    resources: ServiceResources,
    functions: Mapping[str, IdempotentFunction],
    api: IdempotentHttpApi | IdempotentRestApi | None,
    topic: sns.ITopic | None,
) -> Observability:
    """Create the alarms of the functions, tables, API, schedules, streams, ledgers and queues.

    A queue without a worker holds dead letters or escalations. Only a person takes messages from
    it, so its alarm is on from the first message.
    """
    alarms = Observability(
        scope,
        "Alarms",
        functions=[
            functions[function.name] for function in service.functions if not function.is_canary
        ],
        tables=[*resources.tables.values()],
        apis=[api] if api else [],
        topic=topic,
    )
    for function in service.functions:
        created = functions[function.name]
        if function.is_canary:
            alarms.watch_canary(created)
        if function.schedule and function.reconciles:
            alarms.watch_reconciling(created, every=_period(function.schedule))
        elif function.schedule:
            alarms.watch_schedule(created, every=_period(function.schedule))
        if function.relays_from and function.streams:
            alarms.watch_stream(created)
        if function.relays_from and function.reconciles:
            every = _period(function.schedule) if function.schedule else MINUTE
            alarms.watch_leftovers(created, every=every)
        for ledger in function.compares:
            name = f"{pascal(function.name)}{pascal(ledger)}"
            alarms.watch_ledger(name, ledger=ledger, service=_told_as(scope, function))
    dead_letters = {queue.dead_letters for queue in service.queues}
    for name in unattended(service):
        alarms.watch_depth(
            pascal(name),
            resources.queues[name],
            advice=_advice(name, service),
            section="DeadLetters" if name in dead_letters else "Escalated",
        )
    attended = {trigger.queue for function in service.functions for trigger in function.queues}
    for name in sorted(attended):
        alarms.watch_queue(resources.queues[name], name=pascal(name))
    return alarms


def _told_as(scope: Construct, function: Function) -> str:
    """The dimension `service` of a function's own metrics, whether the layer emits any or not."""
    variables = {**service_variable(scope), **function.environment}
    names = (variables.get(SERVICE_VARIABLE), variables.get("POWERTOOLS_SERVICE_NAME"))
    return next((name for name in names if isinstance(name, str) and name), _UNNAMED)


def _period(schedule: ScheduleTrigger) -> Duration:
    if schedule.every_minutes is None:
        return Duration.days(1)
    return Duration.minutes(schedule.every_minutes)


def _advice(name: str, service: Service) -> str:
    if any(name == queue.dead_letters for queue in service.queues):
        return (
            f"Queue {name} holds dead letters. Look at them and at the worker's log, fix the cause,"
            " then move them back (oncekey redrive --dead-letters)."
        )
    streams = {trigger.on_failure for one in service.functions for trigger in one.streams}
    reconcilers = {to for one in service.functions if one.reconciles for to in one.sends_to}
    schedules = {one.schedule.on_failure for one in service.functions if one.schedule}
    return " ".join(
        [
            f"Queue {name} holds messages for a person.",
            *([_OF_RECONCILERS] if name in reconcilers else []),
            *([_OF_STREAMS] if name in streams else []),
            *([_OF_SCHEDULES] if name in schedules else []),
        ]
    )


def unattended(service: Service) -> list[str]:
    """The names of the queues, in the description, that no function works on."""
    attended = {trigger.queue for function in service.functions for trigger in function.queues}
    names = [name for queue in service.queues for name in (queue.name, queue.dead_letters)]
    return [name for name in names if name not in attended]
