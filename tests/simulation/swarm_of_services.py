"""Whole services drawn from a seed: who takes part in each, and what may go wrong in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.record import Effects
from tests.simulation.checkers_of_services import SERVICE
from tests.simulation.scenario import (
    ALL_FAULTS,
    MORE_FAULTS,
    ON_ITS_OWN,
    ONE_STEP,
    Caller,
    Kind,
    Plan,
    Step,
    Until,
    Work,
)
from tests.simulation.swarm import Swarm, drawn_reach_ms, settings_of
from tests.simulation.system import Service, ServiceScenario
from tests.simulation.system_actors import Client, Sender, Worker
from tests.simulation.system_progress import recover

if TYPE_CHECKING:
    import random

    from tests.simulation.story import Violation

_FAULTS = (*ALL_FAULTS, *MORE_FAULTS, Kind.FREEZE, Kind.REDELIVER, Kind.ROLL)
# Where all may happen, most have happened before the first message is in the queue.
_OF_QUEUES = (Kind.REDELIVER, Kind.KILL)
_KEYS = ("key-of-sixteen-1", "key-of-sixteen-2")
_SANDBOXES = ("sandbox-1", "sandbox-2", "")
_SERVING = ("relay-1", "relay-2", "reconciler-1", "reconciler-2", "operator", "bust", "resolve")


def drawn_service(chance: random.Random) -> ServiceScenario:
    """A service with two to five requests of one or two tenants, and some of all the others."""
    effects = chance.choice(list(Effects))
    settings = settings_of(
        pause_check_s=chance.choice([0, 5]), in_progress=chance.choice(["conflict", "wait"])
    )
    plans = list(Plan if effects is Effects.RECORDED else ON_ITS_OWN)
    is_queued = chance.random() < 0.5
    tenants, keys = ("acme", "zeta")[: chance.randint(1, 2)], _KEYS[: chance.randint(1, 2)]
    reach_ms = drawn_reach_ms(chance, settings)
    callers: list[Caller] = [
        Client(
            name=f"client-{number}",
            tenant=chance.choice(tenants),
            key=chance.choice(keys),
            body=chance.choice("aaab"),
            sandbox=chance.choice(_SANDBOXES),
            effects=effects,
            plan=_plan(chance, plans),
            remaining_ms=chance.choice([3_000, 10_000]),
            is_queued=is_queued,
        )
        for number in range(chance.randint(2, 5))
    ]
    callers += _workers(chance, effects, plans, 1 if is_queued else 0)
    callers += _senders(chance, tenants[0])
    relayed = 0.9 if is_queued else 0.5
    serving = tuple(
        name
        for name in _SERVING
        if chance.random() < (relayed if name.startswith("relay") else 0.5)
    )
    actors = [*(each.name for each in callers), *serving]
    return ServiceScenario(
        callers=tuple(callers),
        settlers=serving,
        work=_work(chance) if effects is Effects.RECORDED else ONE_STEP,
        settings=settings,
        caches=chance.random() < 0.25,
        killed_in_time=chance.random() < 0.75,
        faults=_OF_QUEUES
        if is_queued and chance.random() < 0.25
        else tuple(kind for kind in _FAULTS if chance.random() < 0.5),
        most_faults=chance.choice([0, 1, 4, 12]),
        passes=tuple(until for until in Until if chance.random() < 0.5),
        most_passes=chance.choice([0, 1, 3, 8]),
        sweeps=chance.random() < 0.5,
        skews=tuple((name, chance.randint(-reach_ms, reach_ms)) for name in actors),
        skew_choices=(-reach_ms, reach_ms) if reach_ms and chance.random() < 0.5 else (),
    )


def _workers(
    chance: random.Random, effects: Effects, plans: list[Plan], fewest: int
) -> list[Worker]:
    return [
        Worker(
            name=f"worker-{number}",
            takes=chance.randint(0, 3),
            effects=effects,
            plan=_plan(chance, plans),
        )
        for number in range(chance.randint(fewest, 4))
    ]


def _senders(chance: random.Random, tenant: str) -> list[Sender]:
    return [
        Sender(name=f"sender-{number}", tenant=tenant, event=f"event-{chance.randint(1, 2)}")
        for number in range(chance.choice([0, 0, 1, 2]))
    ]


def _plan(chance: random.Random, plans: list[Plan]) -> Plan:
    return chance.choice([Plan.SUCCEED, Plan.SUCCEED, chance.choice(plans)])


def _work(chance: random.Random) -> Work:
    names = chance.choice([("charge",), ("ship", "charge")])
    return Work(
        steps=tuple(Step(name, chance.random() < 0.5) for name in names),
        commits=chance.random() < 0.5,
    )


def judge_service(service: Service) -> Violation | None:
    """The verdict on a run that is over: it is healed, so that its progress is seen, too."""
    stuck = recover(service)
    history = service.history()
    broken = (violation for check in SERVICE for violation in check(history))
    return next(broken, None) or stuck


SERVICES = Swarm(drawn_service, Service, judge_service)
