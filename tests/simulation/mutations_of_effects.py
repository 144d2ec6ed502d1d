"""Recorded effects with one protection removed at a time, and a scenario that shows it."""

from __future__ import annotations

from functools import partial

from oncekey.record.record import Effects
from tests.simulation import broken_effects, broken_flows
from tests.simulation.broken_stores import BrokenStore
from tests.simulation.mutations import Mutation
from tests.simulation.scenario import Caller, Kind, Plan, Scenario, Step, Until, Work
from tests.support.replacing import replace

A, B = (Caller(name=name, effects=Effects.RECORDED) for name in "AB")
KEYED = Work(steps=(Step(is_idempotent=True),))
IN_PHASES = Work(commits=True)
ALONE = Scenario(callers=(A,))
DELAYED = replace(ALONE, faults=(Kind.DELAY,), most_faults=1)
BROKEN = replace(ALONE, faults=(Kind.BREAK,), most_faults=1)
CRASH = Scenario(callers=(A, B), faults=(Kind.KILL,), most_faults=1, most_passes=1)
RECONCILED = replace(CRASH, callers=(A,), settlers=("reconciler",), passes=(Until.DUE,))
OUTLIVED = Scenario(callers=(A, B), work=KEYED, killed_in_time=False, most_passes=1)
SKEWED = Scenario(
    callers=(A, B),
    killed_in_time=False,
    passes=(Until.LEASE_EDGE,),
    most_passes=1,
    skews=(("A", -20_000), ("B", 20_000)),
)
DOUBTED = Scenario(
    callers=(replace(A, plan=Plan.TIME_OUT),),
    settlers=("reconciler",),
    passes=(Until.DUE,),
    most_passes=1,
)
SETTLED_TWICE = replace(
    DOUBTED,
    callers=(replace(A, plan=Plan.FAIL_BEFORE), replace(B, plan=Plan.FAIL_AFTER)),
    settlers=("reconciler", "denial"),
)

MUTATIONS_OF_EFFECTS = (
    Mutation(
        name="take-over-without-rev",
        scenario=replace(CRASH, work=KEYED),
        store=partial(BrokenStore, permitted=broken_effects.take_over_without_rev),
        breaks="called again",
    ),
    Mutation(
        name="take-over-in-doubt",
        scenario=CRASH,
        store=partial(BrokenStore, permitted=broken_effects.take_over_in_doubt),
        patch=broken_effects.take_over_whatever_is_read,
        breaks="in doubt was taken over",
    ),
    Mutation(
        name="reconciler-goes-by-what-it-read",
        scenario=RECONCILED,
        store=partial(BrokenStore, permitted=broken_effects.released_by_what_was_read),
        breaks="may run again with a step in doubt",
    ),
    Mutation(
        name="release-in-doubt",
        scenario=replace(ALONE, faults=(Kind.DELAY, Kind.BREAK), most_faults=2),
        store=partial(BrokenStore, permitted=broken_effects.release_in_doubt),
        breaks="may run again with a step in doubt",
    ),
    Mutation(
        name="complete-in-doubt",
        scenario=replace(ALONE, callers=(replace(A, plan=Plan.CAUGHT),)),
        store=partial(BrokenStore, permitted=broken_effects.complete_in_doubt),
        patch=broken_effects.doubt_forgotten,
        breaks="completed with a step in doubt",
    ),
    Mutation(
        name="finished-step-started",
        scenario=DELAYED,
        store=partial(BrokenStore, permitted=broken_effects.finished_step_started),
        breaks="marked again",
    ),
    Mutation(
        name="any-mark-cleared",
        scenario=replace(DELAYED, callers=(replace(A, plan=Plan.AGAIN),)),
        store=partial(BrokenStore, permitted=broken_effects.any_mark_cleared),
        breaks="more than one effect",
    ),
    Mutation(
        name="step-settled-for-anybody",
        scenario=SETTLED_TWICE,
        store=partial(BrokenStore, permitted=broken_effects.step_settled_for_anybody),
        breaks="denied has happened",
    ),
    Mutation(
        name="owner-kept-by-step-settlement",
        scenario=DOUBTED,
        store=partial(BrokenStore, applied=broken_effects.owner_kept_by_step_settlement),
        breaks="left the owner",
    ),
    Mutation(
        name="recorded-settled-as-a-whole",
        scenario=DOUBTED,
        store=partial(BrokenStore, permitted=broken_effects.recorded_settled),
        patch=broken_effects.settled_as_a_whole,
        breaks="without its run",
    ),
    Mutation(
        name="commits-without-a-fence",
        scenario=replace(ALONE, faults=(Kind.LOSE,), most_faults=1),
        store=broken_effects.UnfencedStore,
        breaks="applied again",
    ),
    Mutation(
        name="refusals-ignored",
        scenario=SKEWED,
        patch=broken_effects.refusals_ignored,
        breaks="more than one effect",
    ),
    Mutation(
        name="lease-not-looked-at",
        scenario=OUTLIVED,
        patch=broken_effects.lease_not_looked_at,
        breaks="without the lease",
    ),
    Mutation(
        name="nothing-is-marked",
        scenario=ALONE,
        patch=broken_effects.nothing_is_marked,
        breaks="without its mark",
    ),
    Mutation(
        name="record-not-looked-at",
        scenario=replace(ALONE, callers=(replace(A, plan=Plan.FAIL_AT_LAST), B), work=KEYED),
        patch=broken_effects.record_not_looked_at,
        breaks="called again",
    ),
    Mutation(
        name="unconfirmed-is-answered",
        scenario=BROKEN,
        patch=broken_effects.unconfirmed_is_answered,
        breaks="not on record",
    ),
    Mutation(
        name="stop-is-ignored",
        scenario=replace(BROKEN, callers=(replace(A, plan=Plan.STUBBORN),), work=IN_PHASES),
        patch=broken_effects.stop_is_ignored,
        breaks="lacks business writes",
    ),
    Mutation(
        name="record-completed-alone",
        scenario=ALONE,
        patch=broken_effects.record_completed_alone,
        breaks="lacks business writes",
    ),
    Mutation(
        name="half-done-work-expires",
        scenario=replace(ALONE, callers=(replace(A, plan=Plan.FAIL_AT_LAST),)),
        patch=broken_effects.half_done_work_expires,
        breaks="carries an expiry",
    ),
    Mutation(
        name="key-of-the-attempt",
        scenario=replace(ALONE, callers=(replace(A, plan=Plan.FAIL_AFTER), B), work=KEYED),
        patch=broken_effects.key_of_the_attempt,
        breaks="more than one effect",
    ),
    Mutation(
        name="no-grace-for-steps",
        scenario=DOUBTED,
        patch=broken_flows.no_grace,
        breaks="denied has happened",
    ),
)
