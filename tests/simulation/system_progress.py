"""The second phase of a service's run: all is well, and everything comes to its end in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.outcome import Ran, Reason, Refusal, Replayed
from oncekey.record.pause import EVERYTHING, PauseScope
from oncekey.webhooks.acceptance import Receipt
from tests.simulation.explorer import run
from tests.simulation.history import Answer, Told
from tests.simulation.scenario import SCHEDULE_MS, Plan, progress_ms
from tests.simulation.story import IN_DOUBT, Violation
from tests.simulation.system_actors import Client, Sender, Worker
from tests.support.replacing import replace

if TYPE_CHECKING:
    from tests.simulation.system import Service


def recover(service: Service) -> Violation | None:
    """End all faults, and let the service go on as it does when all is well.

    Each minute the relay and the workers do all that there is, every client without an answer asks
    once, and the reconciler runs once. Everything must have come to its end within the stated time.
    """
    service.heal()
    service.is_old = False
    service.store.resume(PauseScope.ALL, EVERYTHING)
    healed_ms, limit_ms = service.time.now_ms(), progress_ms(service.scenario)
    callers = service.scenario.callers
    requests = {(each.identity.pk, each.body): each for each in callers if isinstance(each, Client)}
    events = {each.event: each for each in callers if isinstance(each, Sender)}
    number = 0
    while True:
        for name, client in list(requests.items()):
            if _is_answered(service, _again(service, client, number)):
                del requests[name]
        for event, sender in list(events.items()):
            if service.actors[_again(service, sender, number)].outcome in _TAKEN:
                del events[event]
        _pump(service, number)
        run(service, service.add(f"reconciler-again{number}").name)
        if not (requests or events or _waits(service)):
            return None
        waited_ms = service.time.now_ms() - healed_ms
        if waited_ms > limit_ms:
            what = [*(f"{each.name}'s answer" for each in requests.values()), *_waits(service)]
            return Violation(f"after {limit_ms} ms something still waits: {what[0]}", ())
        service.advance(SCHEDULE_MS)
        number += 1


_TAKEN = (Receipt.ACCEPTED, Receipt.REPEAT)


def _again(service: Service, who: Client | Sender, number: int) -> str:
    again = replace(who, name=f"{who.name}-again{number}", plan=Plan.SUCCEED)
    run(service, service.add(again).name)
    return again.name


def _pump(service: Service, number: int) -> None:
    if service.stream.waiting:
        run(service, service.add(f"relay-again{number}").name)
    turn = 0
    while service.queue.visible:
        worker = Worker(name=f"worker-again{number}.{turn}")
        run(service, service.add(worker).name)
        turn += 1


def _is_answered(service: Service, name: str) -> bool:
    outcome = next(
        event.outcome
        for event in reversed(service.events)
        if isinstance(event, Told) and event.actor == name
    )
    match outcome:
        case Replayed() | Refusal(reason=Reason.KEY_REUSED):
            return True
        case Ran(value=Answer(is_final=is_final)):
            return is_final
    return False


def _waits(service: Service) -> list[str]:
    """What somebody must still see to."""
    waits = [f"message {name} in the outbox" for name in service.outbox.messages]
    waits += [f"message {each.body} in the queue" for each in service.queue.messages]
    waits += [f"{each!r}" for each in service.records if each.status in IN_DOUBT]
    return waits
