"""Settling with one protection removed at a time, and a scenario that shows it."""

from __future__ import annotations

from functools import partial

from oncekey.settings import Settings
from tests.simulation import broken_settlers
from tests.simulation.broken_stores import BrokenStore
from tests.simulation.mutations import Mutation
from tests.simulation.scenario import Caller, Plan, Scenario, Until
from tests.support.replacing import replace

A, B = Caller(name="A"), Caller(name="B")
# A record is due to a reconciler as soon as the lease is over.
SKEWED = Scenario(
    callers=(A,),
    settlers=("reconciler",),
    settings=Settings(reconcile_grace_ms=0),
    passes=(Until.MARGIN,),
    most_passes=1,
    skews=(("A", -2_400), ("reconciler", 2_400)),
)
UNDER_WAY = Scenario(callers=(replace(A, plan=Plan.TIME_OUT),), settlers=("reconciler",))
DENIED_TWICE = Scenario(
    callers=(replace(A, plan=Plan.FAIL_BEFORE), replace(B, plan=Plan.FAIL_AFTER)),
    settlers=("reconciler", "denial"),
    passes=(Until.DUE,),
    most_passes=1,
)
# A webhook's event of the first attempt is delivered after the second.
DENIED_LATE = Scenario(
    callers=(replace(A, plan=Plan.NOT_EXECUTED), replace(B, plan=Plan.FAIL_AFTER)),
    settlers=("denial",),
    passes=(Until.DUE,),
    most_passes=1,
)

MUTATIONS_OF_SETTLEMENT = (
    Mutation(
        name="reconciler-ignores-the-margin",
        scenario=SKEWED,
        patch=broken_settlers.margin_ignored,
        breaks="displaced",
    ),
    Mutation(
        name="resolver-asked-at-any-time",
        scenario=UNDER_WAY,
        patch=broken_settlers.asked_at_any_time,
        breaks="denied has happened",
    ),
    Mutation(
        name="settled-for-anybody",
        scenario=DENIED_TWICE,
        store=partial(BrokenStore, permitted=broken_settlers.settled_for_anybody),
        breaks="denied has happened",
    ),
    Mutation(
        name="old-denial-believed",
        scenario=DENIED_LATE,
        patch=broken_settlers.old_denial_believed,
        breaks="denied has happened",
    ),
)
