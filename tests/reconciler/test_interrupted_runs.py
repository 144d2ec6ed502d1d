"""A reconciler whose time is short, whose store fails, or whose answers are lost."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, NotExecuted, StillUnknown, settle
from oncekey.errors import ConfigurationError, StoreError
from oncekey.reconciler.reconciler import Reconciler
from oncekey.record.record import Record, Status
from oncekey.record.transitions import Reschedule
from oncekey.settings import DUE_SHARDS
from oncekey.store.due_index import DuePage
from oncekey.testing.memory import ManualClock
from tests.support.protected import Context, is_replay
from tests.support.reconciled import (
    PAID,
    RUN_MS,
    Unrecorded,
    counts,
    knows,
    reconciler,
    reconciles,
    wait_until_due,
)
from tests.support.steps import POST, FaultyStore, Steps, caught, finds, raises, step

if TYPE_CHECKING:
    from collections.abc import Callable

KEYS = [f"key-of-number-{number:04d}" for number in range(6)]
DOWN = StoreError("no route to the store", transient=True)

pytestmark = pytest.mark.usefixtures("no_resolvers")


class BadRecord(FaultyStore):
    """A store that cannot give one record."""

    def __init__(self) -> None:
        super().__init__()
        self.bad_pk: str | None = None

    def read(self, pk: str) -> Record | None:
        """Read, but for that one."""
        if pk == self.bad_pk:
            raise DOWN
        found: Record | None = super().read(pk)
        return found


class NoIndex(FaultyStore):
    """A store whose index does not answer."""

    def due(self, _shard: str, _until_ms: int, *, after: Any = None) -> DuePage:
        """Nothing."""
        del after
        raise DOWN


class Lagging(FaultyStore):
    """A store whose index shows what was due a while ago."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[str] = []

    def due(self, shard: str, _until_ms: int, *, after: Any = None) -> DuePage:
        """What was due, in the first shard."""
        del after
        return DuePage(keys=tuple(self.shown) if shard == "0" else ())


def unknown(store: FaultyStore | None = None, keys: list[str] = KEYS) -> Unrecorded:
    """A service with a few unknown records."""
    service = Unrecorded(store=store or FaultyStore())
    for key in keys:
        service.fails(key)
    return service


def statuses(service: Unrecorded) -> set[str]:
    """The states of its records."""
    return {each.status for each in service.store.records.values()}


def test_a_run_stops_in_time_and_what_is_left_stays_due() -> None:
    """Where the time is short a run stops, says so, and leaves the rest due: the next one goes on,
    and all are settled.
    """
    service = unknown()

    def slow() -> Any:
        service.clock.advance(10_000)
        return Completed(PAID)

    knows(slow)
    first = service.reconciles(lasts_ms=25_000)

    assert (first.settled, first.is_complete) == (3, False)
    left = [each for each in service.store.records.values() if each.due is not None]
    assert len(left) == 3
    assert all(each.reconcile_attempts == 0 for each in left)
    second = service.reconciles(lasts_ms=RUN_MS, waits=False)
    assert (second.settled, second.is_complete) == (3, True)
    assert statuses(service) == {Status.COMPLETED}


def test_the_budget_is_the_invocations() -> None:
    """Called by Lambda, a run ends before the invocation does, with time for its last writes."""
    service = unknown()

    def slow() -> Any:
        service.clock.advance(7_000)
        return Completed(PAID)

    knows(slow)
    wait_until_due(service)
    deadline_ms = service.clock.now_ms() + 24_000

    numbers = reconciler(service)({}, Context(service.clock, deadline_ms))

    assert service.clock.now_ms() <= deadline_ms - 3_000
    assert (numbers["settled"], numbers["is_complete"]) == (3, False)
    assert reconciler(service)({}, None)["settled"] == 3


def test_a_short_invocation_does_what_it_can() -> None:
    """An invocation of three seconds is not all margin: what is due is settled in it."""
    service = unknown()
    knows(Completed(PAID))
    wait_until_due(service)

    numbers = reconciler(service)({}, Context(service.clock, service.clock.now_ms() + 3_000))

    assert (numbers["settled"], numbers["is_complete"]) == (6, True)


def test_an_incomplete_run_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The numbers of each run are one line: a warning where something was left or has failed."""
    caplog.set_level(logging.INFO, "oncekey")
    service = unknown()
    knows(Completed(PAID))
    wait_until_due(service)
    for lasts_ms in (500, RUN_MS, RUN_MS):
        reconciles(service, waits=False, lasts_ms=lasts_ms)

    lines = [each for each in caplog.records if each.__dict__["oncekey_event"] == "reconciled"]
    assert [(line.levelname, line.__dict__["settled"]) for line in lines] == [
        ("WARNING", 0),
        ("INFO", 6),
        ("INFO", 0),
    ]
    assert lines[0].__dict__["is_complete"] is False
    assert "nothing, for want of time" in lines[0].getMessage()
    assert lines[1].getMessage() == "oncekey reconciled: visited 6, asked 6, settled 6"
    assert "nothing was due" in lines[2].getMessage()


def test_one_record_that_cannot_be_read_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    """A record that the store does not give is counted and logged, stays due, and all the others
    are settled.
    """
    store = BadRecord()
    service = unknown(store)
    store.bad_pk = next(iter(store.records))
    knows(Completed(PAID))

    report = service.reconciles()

    assert (report.settled, report.failed, report.visited) == (5, 1, 6)
    failed = [each for each in caplog.records if each.__dict__["oncekey_event"] == "visit-failed"]
    assert [each.__dict__["reason"] for each in failed] == ["no route to the store"]
    bad_pk, store.bad_pk = store.bad_pk, None
    assert store.records[bad_pk].due is not None
    assert service.reconciles(waits=False).settled == 1


def test_an_index_that_does_not_answer_fails_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """Without the index nothing can be done: the run raises, so that its alarm rings, after it has
    said what it did.
    """
    caplog.set_level(logging.INFO, "oncekey")
    service = unknown(NoIndex())

    with pytest.raises(StoreError, match="no route to the store"):
        service.reconciles()
    assert [each.__dict__["oncekey_event"] for each in caplog.records][-1] == "reconciled"


def test_without_a_table_nothing_is_done() -> None:
    """A reconciler that does not know where the records are says what to set."""
    with pytest.raises(ConfigurationError, match="ONCEKEY_TABLE"):
        Reconciler()({}, None)


def test_a_wrong_setting_is_told_at_the_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment says of the turns is checked before anything is read."""
    monkeypatch.setenv("ONCEKEY_RECONCILE_MAX_ATTEMPTS", "many")
    service = unknown()

    with pytest.raises(ConfigurationError, match="ONCEKEY_RECONCILE_MAX_ATTEMPTS"):
        Reconciler(store=service.store, clock=service.clock)({}, None)
    monkeypatch.setenv("ONCEKEY_RECONCILE_MAX_ATTEMPTS", "7")
    Reconciler(store=service.store, clock=service.clock)({}, None)


def test_an_index_that_lags_leads_to_no_second_turn() -> None:
    """What the index still shows, and has been settled, ended or put off since, is read and left
    as it is.
    """
    store = Lagging()
    service = unknown(store)
    asked = knows(Completed(PAID), StillUnknown(), NotExecuted())
    store.shown = [*list(store.records)[:3], "v1#deleted"]
    service.reconciles()
    before = dict(store.records)

    report = service.reconciles(waits=False)

    assert (report.visited, counts(report)) == (4, {"visited": 4})
    assert (store.records, len(asked)) == (before, 3)


WRITES = {
    "ExpireLease": lambda service: service.is_killed(),
    "Reschedule": lambda service: service.fails(),
    "Settle": lambda service: service.fails(),
}


@pytest.mark.parametrize("happens", ["lost", "refused"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_is_sent_again_is_one_write(write: str, happens: str) -> None:
    """Where the answer to a write is lost, or it does not arrive, it is sent again: the turn is
    taken once, the resolver is asked once, and the record is settled once.
    """
    service = Unrecorded()
    service.store.call_timeout_ms = 1_500
    WRITES[write](service)
    asked = knows(Completed(PAID))
    wait_until_due(service)
    (service.store.lose if happens == "lost" else service.store.refuse)(write)

    report = service.reconciles(waits=False)

    assert (report.asked, report.settled, report.overtaken, report.failed) == (1, 1, 0, 0)
    assert len(asked) == 1
    assert is_replay(service.send(POST))


@pytest.mark.parametrize("happens", ["lost", "refused"])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_stays_unconfirmed_leaves_the_record_due_or_settled(
    write: str, happens: str
) -> None:
    """Where the store does not confirm a write for a whole run, the record is settled or still due,
    and a later run or retry finds it so; it never runs again.
    """
    service = Unrecorded()
    WRITES[write](service)
    knows(Completed(PAID))
    wait_until_due(service)
    (service.store.lose if happens == "lost" else service.store.refuse)(write, 99)

    with pytest.raises(StoreError, match="nothing of what is due could be done, 1 times"):
        service.reconciles(waits=False)
    record = service.record
    assert record.status is Status.COMPLETED or record.due is not None
    service.store.recovers()
    service.reconciles()
    assert is_replay(service.send(POST))
    assert len(service.charges) == 1


@pytest.mark.parametrize("happens", ["lost", "refused"])
def test_a_step_is_settled_once_whatever_answer_is_lost(happens: str) -> None:
    """The settlement of a step whose answer is lost is one settlement."""
    service = Steps()
    service.store.call_timeout_ms = 1_500
    service.sends(caught(step("charge", raises=TimeoutError())))
    asked = finds(Completed("c-1"))
    (service.store.lose if happens == "lost" else service.store.refuse)("SettleStep")

    report = reconciles(service)

    assert (report.settled, report.overtaken, len(asked)) == (1, 0, 1)
    service.sends(step("charge", "c-2"))
    assert (service.ran, service.given[-1]) == (["charge"], "c-1")


def test_a_mark_of_escalation_whose_answer_is_lost_is_one_mark() -> None:
    """The person is told by the run that has marked the record, though it did not hear so."""
    service = unknown(keys=KEYS[:1])
    service.store.call_timeout_ms = 1_500
    service.store.lose("Reschedule")

    assert counts(service.reconciles()) == {"visited": 1, "escalated": 1}
    assert len(service.escalations.bodies) == 1


@pytest.mark.fault("K5.5")
def test_a_run_that_may_not_write_fails_and_its_work_is_done_by_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A reconciler that may not write settles nothing, counts each record, asks nobody, and fails,
    so that its alarm rings; once it may, all are settled.

    Red when a run whose turns cannot be put on record returns.
    """
    caplog.set_level(logging.INFO, "oncekey")
    service = unknown()
    asked = knows(Completed(PAID))
    service.store.deny("Reschedule")

    for _ in range(3):
        with pytest.raises(StoreError, match="6 records cannot take a turn: AccessDenied"):
            service.reconciles()

    assert asked == []
    assert caplog.records[-1].__dict__["failed"] == 6
    service.store.recovers()
    assert service.reconciles(waits=False).settled == 6


class SameTurn(FaultyStore):
    """A store in which another reconciler makes each write a moment before."""

    def write(self, transition: Any) -> Any:
        """Write for the other one, then for the caller."""
        super().write(transition)
        return super().write(transition)


def test_of_two_runs_that_take_the_same_turn_one_asks() -> None:
    """A turn that another run took with the same write is not this run's: it asks nobody.

    Red when the record that both wrote is taken for a lost answer of this one.
    """
    store = SameTurn()
    service = Unrecorded()
    service.fails()
    store.records.update(service.store.records)
    service.store = store
    asked = knows(Completed(PAID))

    report = service.reconciles()

    assert (asked, report.overtaken, report.settled) == ([], 1, 0)


class Overtaken(FaultyStore):
    """A store that does not answer a turn, before which `happens`."""

    def __init__(self) -> None:
        super().__init__()
        self.call_timeout_ms = 1_500
        self.happens: Callable[[], object] | None = None

    def write(self, transition: Any) -> Any:
        """Write, or not."""
        if isinstance(transition, Reschedule) and self.happens is not None:
            happens, self.happens = self.happens, None
            happens()
            raise DOWN
        return super().write(transition)


def test_a_turn_without_an_answer_is_not_taken_where_somebody_else_has_settled() -> None:
    """A turn whose answer was lost, and whose record is another one now, was not taken: nobody is
    asked, and that alone is counted.

    Red when each refusal after a lost answer counts as a write of one's own.
    """
    store = Overtaken()
    service = unknown(store, KEYS[:1])
    asked = knows(Completed(PAID))
    store.happens = lambda: settle(
        service.runs[0].reference, Completed(PAID), store=store, clock=service.clock
    )

    report = service.reconciles()

    assert (asked, counts(report)) == ([], {"visited": 1, "overtaken": 1})


class NotingShards(FaultyStore):
    """A store that notes which shards of its index are read."""

    def __init__(self) -> None:
        super().__init__()
        self.shards: list[str] = []

    def due(self, shard: str, until_ms: int, *, after: Any = None) -> DuePage:
        """Note the shard."""
        self.shards.append(shard)
        return super().due(shard, until_ms, after=after)


class Drawing(ManualClock):
    """A clock that draws one fraction."""

    def __init__(self, fraction: float) -> None:
        super().__init__()
        self._fraction = fraction

    def random_fraction(self) -> float:
        """Always this one."""
        return self._fraction


@pytest.mark.parametrize("first", range(DUE_SHARDS))
def test_a_run_begins_at_any_shard(first: int) -> None:
    """The first shard is drawn, so that none is always last when the time is short."""
    store, clock = NotingShards(), Drawing((first + 0.5) / DUE_SHARDS)

    Reconciler(store=store, clock=clock)({}, None)

    assert store.shards[0] == str(first)
    assert sorted(store.shards) == sorted(str(shard) for shard in range(DUE_SHARDS))


def test_every_shard_is_looked_at() -> None:
    """Records of any shard are found, wherever a run begins."""
    service = unknown(keys=[f"key-of-number-{number:04d}" for number in range(60)])
    shards = {each.due.shard for each in service.store.records.values() if each.due is not None}
    assert len(shards) > DUE_SHARDS // 2
    knows(Completed(PAID))

    assert service.reconciles().settled == 60


def test_a_resolver_that_raises_is_asked_no_more_than_its_turns() -> None:
    """Whatever a resolver does, each record has its turns and then a person."""
    service = unknown()
    asked = knows(raises(ConnectionError()))
    for _ in range(4):
        service.reconciles(max_attempts=3)

    assert (len(asked), len(service.escalations.bodies)) == (18, 6)
