"""Whole services at random: clients, queue, workers, reconcilers and operators under all faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from oncekey.engine.job import TOPIC
from oncekey.engine.request import Request
from oncekey.outbox.relay import OutboxRelay
from oncekey.reconciler.visits import Visits
from oncekey.record import identity
from oncekey.record.record import Effects
from tests.simulation import system
from tests.simulation.history import Began, Looked, Swept
from tests.simulation.scenario import Caller, Kind, Move, Plan, Until, progress_ms
from tests.simulation.swarm_of_services import SERVICES, judge_service
from tests.simulation.system import Service, ServiceScenario, of_the_release_before
from tests.simulation.system_actors import Client, Sender, Worker
from tests.simulation.traces import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.story import Violation

FRESH = 100
FIXED = range(1_500)


def test_no_fresh_seed_breaks_a_rule(seed: int) -> None:
    """Whatever happens to a service: each key keeps its rules, no tenant sees another's, each
    message is consumed, and all comes to an end within the stated time after the last fault.
    """
    found = SERVICES.search(range(seed, seed + FRESH))

    assert found is None, f"python -m tests.simulation.simulate --replay {found[0]}\n{found[1]}"


@pytest.mark.proof
def test_the_fixed_seeds_inject_every_fault_and_reach_every_actor() -> None:
    """Each kind of fault and of actor is met in some run, and no rule is broken."""
    faults: Counter[Kind] = Counter()
    met: Counter[str] = Counter()
    for seed in FIXED:
        service, schedule, violation = SERVICES.run(seed)
        assert violation is None, f"{seed}: {violation}"
        faults.update(move.kind for move in schedule)
        met.update(type(event).__name__ for event in service.events)
        met.update(message.topic for message in service.store.messages)
        met.update("old" for actor in service.actors.values() if getattr(actor, "is_old", False))

    assert set(Kind) - set(faults) == set()
    for name in (Swept.__name__, Began.__name__, Looked.__name__, TOPIC, "provider.event", "old"):
        assert met[name], name


CLIENT = Client(name="A", effects=Effects.RECORDED)


def _abandoned(*others: Client | Sender | Worker) -> Service:
    """A service whose client was killed before the provider could answer it."""
    scenario = ServiceScenario(callers=(CLIENT, *others), most_faults=1, passes=(Until.LEASE,))
    service = Service(scenario)
    for kind in (Kind.STEP, Kind.STEP, Kind.STEP, Kind.STEP, Kind.KILL):
        service.take(next(move for move in service.moves() if move[:2] == (kind, "A")))
    return service


def test_what_was_abandoned_is_answered_within_the_stated_time() -> None:
    """The reconciler finds out what became of the step, and the client's retry gets the answer."""
    service = _abandoned()

    assert judge_service(service) is None
    assert service.time.now_ms() - _began_ms(service) <= progress_ms(service.scenario)


def test_a_service_whose_reconciler_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something still waits after the stated time."""

    async def look(_self: Visits, _pk: str) -> None:
        pass

    monkeypatch.setattr(Visits, "look", look)

    violation = judge_service(_abandoned())

    assert violation is not None
    assert f"after {progress_ms(_abandoned().scenario)} ms" in violation.rule


def test_a_relay_that_sends_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The accepted event is in the outbox for ever, and its message is never consumed."""

    async def relay(*_: object) -> dict[str, list[object]]:
        return {"batchItemFailures": []}

    async def sweep(*_: object, **_named: object) -> None:
        pass

    monkeypatch.setattr(OutboxRelay, "relay_flow", relay)
    monkeypatch.setattr("tests.simulation.system_settlers.OutboxSweep.sweep_flow", sweep)
    service = Service(ServiceScenario(callers=(Sender(name="S"),)))
    finish(service, "S")

    violation = judge_service(service)

    assert violation is not None
    assert violation.rule == "a message was never consumed"


def everything_is_done(patch: pytest.MonkeyPatch) -> None:
    """A worker lets the queue forget whatever it took."""
    patch.setattr(system, "is_done", lambda _outcome: True)


def tenants_share_keys(patch: pytest.MonkeyPatch) -> None:
    """The tenant is no part of a record's key, and nobody looks whose record it is."""
    original = identity.digest
    patch.setattr(identity, "digest", lambda _tenant, *parts: original(*parts))
    patch.setattr(Request, "refuse_foreign", lambda _self, _record: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A protection that is missing, a scenario that needs it, and the rule that it breaks.

    `order`: who comes to its end, one after the other.
    """

    breaks: Callable[[pytest.MonkeyPatch], None]
    callers: tuple[Caller, ...]
    order: tuple[str, ...]
    rule: str


EVENT = Sender(name="S")
ACME, ZETA = Client(name="A", tenant="acme"), Client(name="Z", tenant="zeta")
DECLINES = Worker(name="W", plan=Plan.NOT_EXECUTED)
LOST, SHOWN = "a message was never consumed", "a tenant was shown another's operation"
MISSING = [
    Missing(
        breaks=everything_is_done, callers=(EVENT, DECLINES), order=("S", "relay", "W"), rule=LOST
    ),
    Missing(breaks=tenants_share_keys, callers=(ACME, ZETA), order=("A", "Z"), rule=SHOWN),
]


def _played(missing: Missing) -> Violation | None:
    service = Service(ServiceScenario(callers=missing.callers, settlers=("relay",)))
    finish(service, *missing.order)
    return judge_service(service)


@pytest.mark.parametrize("missing", MISSING, ids=lambda missing: missing.breaks.__name__)
def test_a_service_without_a_protection_is_found(
    missing: Missing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same run breaks a rule once the protection is gone, and none while it is there."""
    assert _played(missing) is None
    missing.breaks(monkeypatch)

    violation = _played(missing)

    assert violation is not None
    assert violation.rule == missing.rule


@pytest.mark.parametrize("is_done", [False, True], ids=["while-in-hand", "once-deleted"])
def test_a_message_is_delivered_again_and_its_work_is_done_once(*, is_done: bool) -> None:
    """A message that a worker has, or that was deleted, comes to another worker: nothing runs."""
    scenario = ServiceScenario(
        callers=(Client(name="A", is_queued=True), Worker(name="W"), Worker(name="V")),
        settlers=("relay",),
        faults=(Kind.REDELIVER,),
        most_faults=1,
    )
    service = Service(scenario)
    assert [move.actor for move in service.steps()] == ["A"]
    finish(service, "A", "relay")
    service.take(Move(Kind.STEP, "W"))
    if is_done:
        finish(service, "W")
    assert [move.actor for move in service.steps()] == (["V"] if is_done else ["W"])

    service.take(next(each for each in service.moves() if each.kind is Kind.REDELIVER))
    finish(service, "V", "W")

    assert judge_service(service) is None
    assert sum(isinstance(event, Began) for event in service.events) == 1


def test_a_frozen_sandbox_is_not_killed_and_goes_on_where_it_stood() -> None:
    """After its lease a frozen attempt is still alive, and it changes nothing any more."""
    scenario = ServiceScenario(
        callers=(CLIENT, Client(name="B", effects=Effects.RECORDED)),
        faults=(Kind.FREEZE,),
        most_faults=1,
        passes=(Until.LEASE,),
        most_passes=1,
    )
    service = Service(scenario)
    for text in ("step A", "step A", "freeze A", "advance lease"):
        kind, name = text.split()
        service.take(next(each for each in service.moves() if name in each and each.kind == kind))
    assert not service.actors["A"].is_over
    finish(service, "B")
    service.take(next(each for each in service.moves() if each.kind is Kind.THAW))
    finish(service, "A")

    assert judge_service(service) is None
    charged = [each.actor for each in service.history().effects if each.step]
    assert charged == ["B"]


def test_the_release_before_writes_no_policy() -> None:
    """What an old sandbox writes lacks what the new release has added, and is read all the same."""
    service = Service(ServiceScenario(callers=(CLIENT, Client(name="B", effects=Effects.RECORDED))))
    service.is_old = True
    finish(service, "A")
    (record,) = service.records
    service.is_old = False
    finish(service, "B")

    assert record.policy is None
    assert of_the_release_before(None) is None
    assert judge_service(service) is None


def _began_ms(service: Service) -> int:
    return min(event.at_ms for event in service.events)
