"""All interleavings of clients whose requests are accepted and of workers that take messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.engine.job_begin import begin
from oncekey.record import rules as transition_rules
from oncekey.record.outcome import Reason, Refusal
from oncekey.record.record import Effects, Record, Status
from oncekey.record.transitions import Begin, Enqueue, TimeOut, seen
from oncekey.testing.memory import MemoryStore
from tests.simulation import workers
from tests.simulation.broken_stores import BrokenStore
from tests.simulation.explorer import explore
from tests.simulation.scenario import DEFAULTS, Caller, Kind, Plan, Scenario, Step, Until, Work
from tests.simulation.workers import JobsWorld, Worker, judge_jobs
from tests.support.proof import with_largest_in_proof
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.commit import Commit
    from oncekey.record.outcome import Decision
    from oncekey.record.transitions import Transition
    from oncekey.store.store import Refused, Written

A, B = Caller(name="A"), Caller(name="B")
V, W = Worker(name="V"), Worker(name="W")
DECLINING = replace(V, plan=Plan.NOT_EXECUTED)
NEXT = replace(W, takes=1)
LATE = (Until.DUE,)
KILL, DELAY = (Kind.KILL,), (Kind.DELAY,)
AGAIN = Scenario(callers=(A, DECLINING, B, NEXT))
SUPERSEDED = Scenario(callers=(A, DECLINING, B, W))
TOO_LATE = Scenario(callers=(A, B, W), passes=LATE, most_passes=1)
REPEATED = Scenario(
    callers=(A, DECLINING, B, replace(NEXT, plan=Plan.NOT_EXECUTED)), faults=DELAY, most_faults=1
)


def with_effects(effects: Effects, scenario: Scenario) -> Scenario:
    """The scenario with handlers that declare these effects."""
    callers = tuple(replace(caller, effects=effects) for caller in scenario.callers)
    return replace(scenario, callers=callers)


repeatable = partial(with_effects, Effects.REPEATABLE)
recorded = partial(with_effects, Effects.RECORDED)
DEAD = repeatable(
    Scenario(
        callers=(A, V, B),
        faults=KILL,
        most_faults=1,
        most_passes=1,
    )
)
KEYED = Work(steps=(Step(is_idempotent=True),))
RECORDED_DEAD = replace(recorded(DEAD), work=KEYED)
# Its clock says that the time is over when that has hardly begun.
AHEAD = Scenario(callers=(A, B, W), skews=(("B", 2 * DEFAULTS.start_within_ms),))

# Each with the least number of schedules that it must come to: fewer would mean that the
# exploration has lost a kind of move.
SCENARIOS = {
    "two-clients": (Scenario(callers=(A, B, W), most_faults=1), 290),
    "two-workers": (Scenario(callers=(A, V, W), most_faults=1, most_passes=1), 1_600),
    "too-late": (TOO_LATE, 20),
    "too-late-and-a-fault": (replace(TOO_LATE, most_faults=1), 1_200),
    "accepted-again": (AGAIN, 470),
    "accepted-again-and-late": (replace(AGAIN, passes=LATE, most_passes=1), 1_800),
    "superseded": (SUPERSEDED, 470),
    "delayed-acceptance": (
        Scenario(callers=(A, DECLINING, B), faults=DELAY, most_faults=1),
        270,
    ),
    "client-ahead-of-its-time": (AHEAD, 20),
    "dead": (DEAD, 100),
    "recorded-two-workers": (
        recorded(
            Scenario(callers=(A, V, W), work=KEYED, faults=KILL, most_faults=1, most_passes=1)
        ),
        410,
    ),
    "recorded-dead": (RECORDED_DEAD, 140),
}


@pytest.mark.parametrize(
    "name",
    with_largest_in_proof(
        SCENARIOS,
        "two-workers",
        "recorded-two-workers",
        "superseded",
        "too-late-and-a-fault",
        "accepted-again",
        "accepted-again-and-late",
    ),
)
def test_no_interleaving_of_clients_and_workers_breaks_a_rule(name: str) -> None:
    """An unrecorded handler runs once, a 408 is given only where nothing was done, each acceptance
    has its one message that is not lost, and all that is accepted is answered or in doubt at last.
    """
    scenario, least = SCENARIOS[name]

    report = explore(scenario, JobsWorld, judge_jobs)

    assert report.found is None, str(report.found)
    assert report.runs >= least


@pytest.mark.parametrize("scenario", [DEAD, RECORDED_DEAD], ids=["repeatable", "recorded"])
def test_what_a_dead_run_has_done_is_told_however_late_it_is(scenario: Scenario) -> None:
    """What waits again after a run that died is carried out by whoever comes next, never a 408."""
    report = explore(scenario, JobsWorld, partial(judge_jobs, is_late=True))

    assert report.found is None, str(report.found)


def begin_of_any(transition: Transition, record: Record | None) -> bool:
    """Begin whoever has accepted what waits."""
    if isinstance(transition, Begin) and record is not None:
        transition = replace(transition, seen_owner=record.owner)
    return transition_rules.permitted(transition, record)


def begin_in_any_state(transition: Transition, record: Record | None) -> bool:
    """Begin whatever the state, and whoever has accepted it."""
    if isinstance(transition, Begin) and record is not None:
        return record.status is not Status.COMPLETED
    return transition_rules.permitted(transition, record)


def time_out_in_any_state(transition: Transition, record: Record | None) -> bool:
    """TimeOut whatever the state, as long as the owner is right."""
    if isinstance(transition, TimeOut) and record is not None:
        return record.owner == transition.seen_owner
    return transition_rules.permitted(transition, record)


def time_out_of_any(transition: Transition, record: Record | None) -> bool:
    """TimeOut of whatever waits or runs."""
    if isinstance(transition, TimeOut) and record is not None:
        return record.status in {Status.PENDING, Status.IN_PROGRESS}
    return transition_rules.permitted(transition, record)


def enqueue_unseen(transition: Transition, record: Record | None) -> bool:
    """Enqueue whatever has become of the record since it was read."""
    if isinstance(transition, Enqueue) and record is not None:
        transition = replace(transition, seen=seen(record))
    return transition_rules.permitted(transition, record)


class Silent(MemoryStore):
    """A store that loses the message of a second acceptance."""

    def commit(self, commit: Commit) -> Written | Refused:
        """See `oncekey.store.store.Store.commit`."""
        if isinstance(commit.transition, Enqueue):
            commit = replace(commit, messages=())
        return super().commit(commit)  # type: ignore[return-value]  # no condition fails here


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A protection that is missing; `breaks` are words of the rule whose breach shows it."""

    scenario: Scenario
    breaks: str
    store: Callable[[], MemoryStore] = MemoryStore


def broken(permitted: Callable[[Transition, Record | None], bool]) -> Callable[[], MemoryStore]:
    """A store with this condition."""
    return partial(BrokenStore, permitted=permitted)


MISSING = {
    "begin-of-any": Missing(
        scenario=SUPERSEDED, store=broken(begin_of_any), breaks="a superseded message began"
    ),
    "begin-in-any-state": Missing(
        scenario=Scenario(callers=(A, V, W)), store=broken(begin_in_any_state), breaks="ran twice"
    ),
    "time-out-in-any-state": Missing(
        scenario=TOO_LATE, store=broken(time_out_in_any_state), breaks="stored answer was changed"
    ),
    "time-out-of-any": Missing(
        scenario=AHEAD, store=broken(time_out_of_any), breaks="not started in time"
    ),
    "enqueue-unseen": Missing(
        scenario=REPEATED, store=broken(enqueue_unseen), breaks="two messages have one id"
    ),
    "silent": Missing(scenario=AGAIN, store=Silent, breaks="an acceptance and its message"),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_protection_is_found(name: str) -> None:
    """Some schedule of a small scenario breaks a rule once the protection is gone."""
    missing = MISSING[name]

    found = explore(
        missing.scenario, lambda scenario: JobsWorld(scenario, missing.store()), judge_jobs
    ).found

    assert found is not None
    assert missing.breaks in found.violation.rule, str(found)


def test_a_408_that_forgets_what_a_dead_attempt_did_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that waits again after a run that may have had an effect cannot be timed out."""
    monkeypatch.setattr(Record, "was_begun", property(lambda _record: False))

    found = explore(DEAD, JobsWorld, partial(judge_jobs, is_late=True)).found

    assert found is not None
    assert found.violation.rule == "what was not started in time took effect", str(found)


def test_a_message_of_running_work_that_is_acknowledged_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that finds another at work must leave the message: the other may die."""

    async def begins(*arguments: Any) -> Decision:
        decision = await begin(*arguments)
        if isinstance(decision, Refusal) and decision.reason is Reason.RUNNING:
            return Refusal(reason=Reason.SUPERSEDED, record=decision.record)
        return decision

    monkeypatch.setattr(workers, "begin", begins)

    found = explore(Scenario(callers=(A, V, W)), JobsWorld, judge_jobs).found

    assert found is not None
    assert found.violation.rule == "the message of open work was acknowledged", str(found)
