"""The protocol with one protection removed at a time, and a scenario small enough to show it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from oncekey.record.record import Effects
from oncekey.settings import Settings
from oncekey.testing.memory import MemoryStore
from tests.simulation import broken_flows, broken_stores
from tests.simulation.actors import ActorClock
from tests.simulation.broken_stores import BrokenStore
from tests.simulation.scenario import Caller, Kind, Plan, Scenario, Until
from tests.simulation.world import World
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def _nothing(patch: pytest.MonkeyPatch) -> None:
    """The store or the clock alone is at fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One protection removed; `breaks` are words of the rule whose breach shows it."""

    name: str
    scenario: Scenario
    breaks: str
    store: Callable[[], MemoryStore] = MemoryStore
    clock: type[ActorClock] = ActorClock
    patch: Callable[[pytest.MonkeyPatch], None] = _nothing

    def world(self, scenario: Scenario) -> World:
        """A world in which the protection is missing."""
        return World(scenario, self.store(), self.clock)


A, B, OTHER = Caller(name="A"), Caller(name="B"), Caller(name="C", body="b")
PROVEN = Caller(name="A", plan=Plan.NOT_EXECUTED)
REPEATABLE = tuple(Caller(name=name, effects=Effects.REPEATABLE) for name in "ABC")
PAIR = Scenario(callers=(A, B))
CRASH = Scenario(callers=(A, B), faults=(Kind.KILL,), most_faults=1, most_passes=1)
OUTLIVED = Scenario(callers=REPEATABLE[:2], killed_in_time=False, most_passes=1)
AGED = Scenario(callers=(A, OTHER), passes=(Until.RETENTION,), most_passes=1, killed_in_time=False)
STALLED = Scenario(
    callers=(A, B), killed_in_time=False, faults=(Kind.LOSE,), most_faults=1, most_passes=1
)
# A lease that ends before its holder is killed: the time check before the handler says nothing.
SHORT_LEASE = replace(STALLED, settings=Settings(max_lease_ms=2_000))
DOUBTED = Scenario(
    callers=(Caller(name="A", plan=Plan.TIME_OUT),),
    settlers=("reconciler",),
    passes=(Until.DUE,),
    most_passes=1,
)
SETTLED = Scenario(
    callers=(A,),
    settlers=("reconciler", "webhook"),
    killed_in_time=False,
    faults=(),
    passes=(Until.DUE,),
    most_passes=1,
)
SKEWED = Scenario(
    callers=(A, B), passes=(Until.LEASE_EDGE,), most_passes=1, skews=(("A", -2_400), ("B", 2_400))
)

MUTATIONS = (
    Mutation(
        name="owner-ignored",
        scenario=OUTLIVED,
        store=partial(BrokenStore, permitted=broken_stores.owner_ignored),
        breaks="another actor",
    ),
    Mutation(
        name="state-ignored",
        scenario=replace(PAIR, faults=(Kind.DELAY,), most_faults=1),
        store=partial(BrokenStore, permitted=broken_stores.state_ignored),
        breaks="stored answer was changed",
    ),
    Mutation(
        name="take-over-of-the-living",
        scenario=replace(OUTLIVED, killed_in_time=True),
        store=partial(BrokenStore, permitted=broken_stores.any_take_over),
        patch=broken_flows.judge_with(broken_flows.running_means_take_over),
        breaks="displaced",
    ),
    Mutation(
        name="take-over-without-owner-rev-and-lease",
        scenario=Scenario(callers=REPEATABLE, most_passes=1),
        store=partial(BrokenStore, permitted=broken_stores.any_take_over),
        breaks="displaced",
    ),
    Mutation(
        name="expire-lease-without-owner-and-rev",
        scenario=Scenario(
            callers=REPEATABLE[:2], settlers=("reconciler",), passes=(Until.DUE,), most_passes=1
        ),
        store=partial(BrokenStore, permitted=broken_stores.any_expire_lease),
        breaks="displaced",
    ),
    Mutation(
        name="resume-unconditional",
        scenario=Scenario(callers=(PROVEN, B, replace(B, name="C"))),
        store=partial(BrokenStore, permitted=broken_stores.any_resume),
        breaks="more than one effect",
    ),
    Mutation(
        name="resume-without-owner-and-rev",
        # A retention shorter than the lease, so that who stalls over it still holds its own.
        scenario=replace(
            AGED,
            callers=(PROVEN, B, replace(OTHER, plan=Plan.NOT_EXECUTED)),
            faults=(),
            settings=Settings(retention_s=2),
        ),
        store=partial(BrokenStore, permitted=broken_stores.resume_without_version),
        breaks="without the lease",
    ),
    Mutation(
        name="unrecorded-taken-over",
        scenario=CRASH,
        store=partial(BrokenStore, permitted=broken_stores.unrecorded_taken_over),
        patch=broken_flows.judge_with(broken_flows.over_means_take_over),
        breaks="more than one effect",
    ),
    Mutation(
        name="expiry-without-status",
        scenario=replace(AGED, most_faults=1, passes=(Until.AGE,), faults=(Kind.KILL,)),
        store=partial(BrokenStore, permitted=broken_stores.expiry_without_status),
        patch=broken_flows.judge_with(broken_flows.old_means_expired),
        breaks="in doubt was overwritten",
    ),
    Mutation(
        name="expiry-kept",
        scenario=replace(PAIR, callers=(PROVEN, B)),
        store=partial(BrokenStore, applied=broken_stores.expiry_kept),
        breaks="carries an expiry",
    ),
    Mutation(
        name="reserve-unconditional",
        scenario=PAIR,
        store=partial(BrokenStore, permitted=broken_stores.reserve_unconditional),
        breaks="stored answer was changed",
    ),
    Mutation(
        name="owner-kept-by-settlement",
        scenario=SETTLED,
        store=partial(BrokenStore, applied=broken_stores.owner_kept_by_settlement),
        breaks="not stored",
    ),
    Mutation(
        name="refusals-write",
        scenario=PAIR,
        store=broken_stores.ClearingStore,
        breaks="refused write",
    ),
    Mutation(
        name="revision-stays",
        scenario=replace(PAIR, callers=(PROVEN, B)),
        store=partial(BrokenStore, applied=broken_stores.revision_stays),
        breaks="revision",
    ),
    Mutation(
        name="owner-from-request",
        scenario=PAIR,
        clock=broken_stores.OwnerFromRequest,
        breaks="more than one effect",
    ),
    Mutation(
        name="operation-id-from-key",
        scenario=replace(AGED, callers=(A, B)),
        clock=broken_stores.OperationIdFromKey,
        breaks="reserved by another actor",
    ),
    Mutation(
        name="ours-after-the-lease",
        scenario=SHORT_LEASE,
        patch=broken_flows.judge_with(broken_flows.ours_after_the_lease),
        breaks="after its lease",
    ),
    Mutation(
        name="ours-when-unknown",
        scenario=SHORT_LEASE,
        patch=broken_flows.judge_with(broken_flows.ours_when_unknown),
        breaks="without the lease",
    ),
    Mutation(
        name="fingerprint-ignored",
        scenario=replace(PAIR, callers=(A, OTHER)),
        patch=broken_flows.judge_with(broken_flows.fingerprint_ignored),
        breaks="another request's answer",
    ),
    Mutation(
        name="exceptions-release",
        scenario=replace(PAIR, callers=(replace(A, plan=Plan.FAIL_AFTER), B)),
        patch=broken_flows.exceptions_release,
        breaks="more than one effect",
    ),
    Mutation(
        name="answer-of-whoever-is-there",
        scenario=replace(
            AGED,
            callers=(REPEATABLE[0], replace(REPEATABLE[2], body="b")),
            settlers=("reconciler",),
            passes=(Until.DUE, Until.RETENTION),
            most_passes=2,
        ),
        patch=broken_flows.answer_of_whoever_is_there,
        breaks="not what was stored first",
    ),
    Mutation(name="no-margin", scenario=SKEWED, patch=broken_flows.no_margin, breaks="displaced"),
    Mutation(
        name="no-grace", scenario=DOUBTED, patch=broken_flows.no_grace, breaks="denied has happened"
    ),
)
