"""What a reconciler does with every record there can be: the pure decision."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.reconciler.decisions import (
    TOLD_ONCE_IN_MS,
    Ask,
    End,
    Escalate,
    HandBack,
    Leave,
    Visit,
    Visitor,
    Wait,
)
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.record.rules import applied, permitted
from oncekey.record.steps import NO_STEPS
from oncekey.record.transitions import Ending, ExpireLease, TimeOut
from oncekey.settings import Settings
from oncekey.settlement.resolvers import nothing_in_doubt
from tests.support.records import LEASES, NOW_MS, NOW_S, STEPS, every_record, record
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.record.transitions import Reschedule

TURNS = ReconcilerSettings(first_delay_ms=1_000, longest_delay_ms=60_000, max_attempts=4)
DUE = Due(shard="5", at_ms=NOW_MS - 1)
TIMED_OUT = Ending(response="408", completed_at_ms=NOW_MS, expires_at_s=NOW_S + 1)
IN_PROGRESS, PENDING, UNKNOWN = Status.IN_PROGRESS, Status.PENDING, Status.UNKNOWN
FAILED, COMPLETED = Status.FAILED_RETRYABLE, Status.COMPLETED
UNRECORDED, REPEATABLE, RECORDED = Effects.UNRECORDED, Effects.REPEATABLE, Effects.RECORDED


def visit(met: Record, *, has_resolver: bool = True, **settings: Any) -> Visit:
    """What follows from `met` at NOW_MS."""
    visitor = Visitor(
        now_ms=NOW_MS,
        chance=1.0,
        settings=Settings(**settings),
        turns=TURNS,
        has_resolver=lambda asked: has_resolver or nothing_in_doubt(asked),
        timed_out=lambda _record: TIMED_OUT,
    )
    return visitor.visit(met)


def met(status: Status, steps: str = "none", **changes: Any) -> Record:
    """A record that is due, has had no turn yet, and keeps no request; changed."""
    fields = {
        "due": DUE,
        "reconcile_attempts": 0,
        "escalated_at_ms": None,
        "request": None,
        "attempt": 1,
        "lease_until_ms": LEASES["over"],
        **changes,
    }
    return record(status=status, steps=STEPS[steps], **fields)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the design's words: what is met, and what is done about it."""

    words: str
    met: Record
    done: type[Visit]
    without_resolver: type[Visit] | None = None


HALF_DONE = met(FAILED, "finished", effects=RECORDED, attempt=2)
KEPT = replace(HALF_DONE, request="{}")
ROWS = [
    Row("running", met(IN_PROGRESS, lease_until_ms=LEASES["open"]), Leave),
    Row("at the very end of its lease", met(IN_PROGRESS, lease_until_ms=NOW_MS), Leave),
    Row("running under no lease", met(IN_PROGRESS, lease_until_ms=None), Leave),
    Row("dead, unrecorded", met(IN_PROGRESS), End),
    Row("dead, repeatable", met(IN_PROGRESS, effects=REPEATABLE), End),
    Row("dead before a step", met(IN_PROGRESS, effects=RECORDED), End),
    Row("dead after a step", met(IN_PROGRESS, "finished", effects=RECORDED), End),
    Row("dead within a step", met(IN_PROGRESS, "started", effects=RECORDED), End),
    Row("dead, and looked at often", met(IN_PROGRESS, reconcile_attempts=99), End),
    Row("accepted, never begun", met(PENDING), End),
    Row("accepted, begun once", met(PENDING, attempt=2), Wait),
    Row("accepted, begun, request kept", met(PENDING, attempt=2, request="{}"), Wait),
    Row("accepted, begun, turns used up", met(PENDING, attempt=2, reconcile_attempts=4), Escalate),
    Row("accepted, begun, escalated", met(PENDING, attempt=2, escalated_at_ms=1), Escalate),
    Row("unknown", met(UNKNOWN), Ask, Escalate),
    Row("unknown, lease open", met(UNKNOWN, lease_until_ms=LEASES["open"]), Ask, Escalate),
    Row("unknown, one turn left", met(UNKNOWN, reconcile_attempts=3), Ask, Escalate),
    Row("unknown, turns used up", met(UNKNOWN, reconcile_attempts=4), Escalate),
    Row("unknown, escalated", met(UNKNOWN, escalated_at_ms=1), Escalate),
    Row(
        "unknown, turns used up, escalated",
        met(UNKNOWN, reconcile_attempts=4, escalated_at_ms=1),
        Escalate,
    ),
    Row("step unknown", met(UNKNOWN, "started", effects=RECORDED), Ask, Escalate),
    Row("recorded, unknown, no step in doubt", met(UNKNOWN, "finished", effects=RECORDED), Ask),
    Row("half done", HALF_DONE, Wait),
    Row("half done, turns used up", replace(HALF_DONE, reconcile_attempts=4), Escalate),
    Row("half done, request kept", KEPT, HandBack),
    Row("half done, request kept, one run left", replace(KEPT, attempt=3), HandBack),
    Row("half done, request kept, runs used up", replace(KEPT, attempt=4), Escalate),
    Row("half done, request kept, turns used up", replace(KEPT, reconcile_attempts=4), Escalate),
    Row("half done, escalated", replace(KEPT, escalated_at_ms=1), Escalate),
    Row("completed, and the index lags", met(COMPLETED), Leave),
    Row("not due yet", met(UNKNOWN, due=replace(DUE, at_ms=NOW_MS + 1)), Leave),
    Row("at the last moment of its grace", met(UNKNOWN, due=replace(DUE, at_ms=NOW_MS)), Leave),
    Row("looked at by nobody", met(UNKNOWN, due=None), Leave),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.words)
def test_every_state_has_its_turn(row: Row) -> None:
    """Each state that is due gets what the design says of it, with a resolver and without."""
    assert type(visit(row.met)) is row.done
    assert type(visit(row.met, has_resolver=False)) is (row.without_resolver or row.done)


@pytest.mark.requirement("C21")
@pytest.mark.requirement("D4")
def test_a_dead_attempt_ends_as_its_effects_say() -> None:
    """A dead attempt becomes unknown, unless running again is harmless; what it leaves in doubt or
    half done is due at once, in the same shard, so that the same run goes on with it.

    Red when a dead attempt of unrecorded effects, or with a step in doubt, may run again.
    """
    at_once = replace(DUE, at_ms=NOW_MS - 1)
    ends = {
        (effects, steps): after(visit(met(IN_PROGRESS, steps, effects=effects)))
        for effects, steps in [
            (UNRECORDED, "none"),
            (REPEATABLE, "none"),
            *((RECORDED, steps) for steps in STEPS),
        ]
    }
    expiry_s = NOW_S + 86_400

    assert ends == {
        (UNRECORDED, "none"): (UNKNOWN, at_once, None),
        (REPEATABLE, "none"): (FAILED, None, expiry_s),
        (RECORDED, "none"): (FAILED, None, expiry_s),
        (RECORDED, "finished"): (FAILED, at_once, None),
        (RECORDED, "started"): (UNKNOWN, at_once, None),
        (RECORDED, "finished and started"): (UNKNOWN, at_once, None),
    }


def after(done: Visit) -> tuple[Status, Due | None, int | None]:
    """Status, due and expiry that the end of a dead attempt gives it."""
    assert isinstance(done, End)
    assert isinstance(done.transition, ExpireLease)
    ended = applied(done.transition, met(IN_PROGRESS))
    return ended.status, ended.due, ended.expires_at_s


@pytest.mark.requirement("B7")
@pytest.mark.parametrize("lease_ms", [1, 1_000, 900_000])
def test_a_zombie_is_told_by_its_own_lease(lease_ms: int) -> None:
    """Whether an attempt is dead is told by its own lease, which is the real deadline of its
    invocation and a margin: neither its age, nor its turns, nor what is usual.

    Red when a threshold other than the record's `lease_until_ms` is compared.
    """
    for started_before_ms in (0, lease_ms, 10_000_000):
        running = met(
            IN_PROGRESS,
            created_at_ms=NOW_MS - started_before_ms,
            lease_until_ms=NOW_MS - started_before_ms + lease_ms,
        )
        is_over = NOW_MS - started_before_ms + lease_ms < NOW_MS

        assert type(visit(running)) is (End if is_over else Leave)


def can_arise(met: Record) -> bool:
    """Whether transitions lead to such a record: only the attempt of an owner is within a step."""
    if met.effects is not RECORDED and met.steps != NO_STEPS:
        return False
    if met.status is PENDING and not met.was_begun:
        return met.steps == NO_STEPS
    return met.status in {IN_PROGRESS, UNKNOWN} or met.steps.started is None


def every_met() -> Iterator[tuple[Record, bool]]:
    """Every record that can arise, due, with every history of turns; with a resolver or not."""
    variants = itertools.product((0, 3, 4, 99), (None, NOW_MS - 1), (None, "{}"), (1, 2, 4))
    changes: list[dict[str, Any]] = [
        {"reconcile_attempts": turns, "escalated_at_ms": at_ms, "request": request, "attempt": run}
        for turns, at_ms, request, run in variants
    ]
    for met, change, has_resolver in itertools.product(every_record(), changes, (True, False)):
        candidate = replace(met, due=DUE, **change)
        if can_arise(candidate):
            yield candidate, has_resolver


def turn_of(done: Visit) -> Reschedule | None:
    """The turn that is taken."""
    return None if isinstance(done, Leave | End) else done.turn


@pytest.mark.requirement("D3")
@pytest.mark.requirement("D4")
def test_nothing_in_doubt_leads_to_a_run_or_an_end() -> None:
    """Of what may have had an effect, nothing is run, answered or let go: it stays unknown until
    somebody who knows settles it.

    Red when any record that is unknown, or dead with something in doubt, is ended, handed back or
    timed out.
    """
    for met, has_resolver in every_met():
        is_open = met.status in {IN_PROGRESS, UNKNOWN}
        if not (is_open and (met.status is UNKNOWN or not met.may_run_again)):
            continue
        done = visit(met, has_resolver=has_resolver)

        if isinstance(done, End):
            assert applied(done.transition, met).status is UNKNOWN, met
        else:
            assert isinstance(done, Leave | Ask | Escalate), met


def test_every_decision_is_a_write_that_exists() -> None:
    """What is decided from a record is permitted on that very record."""
    for met, has_resolver in every_met():
        done = visit(met, has_resolver=has_resolver)
        write = done.transition if isinstance(done, End) else turn_of(done)

        assert write is None or permitted(write, met), (met, done)


def test_no_record_that_is_open_is_left_for_ever() -> None:
    """Only what is running or completed is left alone; everything else is ended, or due again, also
    what a person is told of.
    """
    for met, has_resolver in every_met():
        done = visit(met, has_resolver=has_resolver)
        turn = turn_of(done)
        if isinstance(done, Leave):
            runs = met.status is IN_PROGRESS and not met.is_lease_over(NOW_MS)
            assert runs or met.status is COMPLETED, met
        elif turn is not None:
            left = applied(turn, met)
            assert left.due is not None, met
            assert (left.due.shard, left.due.at_ms > NOW_MS) == (DUE.shard, True), met


def test_a_turn_is_counted_and_the_next_one_is_later_each_time() -> None:
    """Each turn that asks, waits or hands back counts one, and doubles the time to the next."""
    turns = [turn_of(visit(met(UNKNOWN, reconcile_attempts=number))) for number in range(4)]

    assert [(turn.attempts, turn.due) for turn in turns if turn is not None] == [
        (1, replace(DUE, at_ms=NOW_MS + 1_000)),
        (2, replace(DUE, at_ms=NOW_MS + 2_000)),
        (3, replace(DUE, at_ms=NOW_MS + 4_000)),
        (4, replace(DUE, at_ms=NOW_MS + 8_000)),
    ]


def test_an_escalation_is_marked_before_it_is_told() -> None:
    """The mark says since when a person must settle it, and is due again in a day, so that whoever
    is killed before telling leaves it to a later run, and nobody is told twice a day.
    """
    unknown = met(UNKNOWN, reconcile_attempts=4)
    marked = turn_of(visit(unknown))

    assert marked is not None
    assert (marked.escalated_at_ms, marked.attempts) == (NOW_MS, 4)
    assert marked.due == replace(DUE, at_ms=NOW_MS + TOLD_ONCE_IN_MS)


@pytest.mark.fault("K5.7")
@pytest.mark.parametrize("status", [UNKNOWN, PENDING, FAILED])
def test_an_escalation_is_a_new_one_after_a_week_and_the_same_before(status: Status) -> None:
    """What was escalated and is met again is escalated again: within a week as the same escalation,
    whose message may not have been sent, and after it as a new one.

    Red when what is escalated is left alone, or its mark is written anew each time.
    """
    week_ms = TURNS.escalate_again_ms
    marks = {
        since_ms: turn_of(visit(met(status, "none", attempt=2, escalated_at_ms=NOW_MS - since_ms)))
        for since_ms in (1, week_ms - 1, week_ms)
    }

    assert [each and each.escalated_at_ms for each in marks.values()] == [
        NOW_MS - 1,
        NOW_MS - week_ms + 1,
        NOW_MS,
    ]
    assert {each and each.due for each in marks.values()} == {
        replace(DUE, at_ms=NOW_MS + TOLD_ONCE_IN_MS)
    }


def test_who_was_never_begun_is_told_so() -> None:
    """An accepted request that no worker began gets the answer of its handler."""
    done = visit(met(PENDING))

    assert done == End(TimeOut(pk="v1#record", seen_owner="owner-1", ending=TIMED_OUT))
