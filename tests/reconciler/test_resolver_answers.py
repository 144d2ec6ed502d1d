"""A resolver that cannot say, raises, hangs or talks nonsense costs its record the turn."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

import pytest

from oncekey import Completed, StillUnknown, settle
from oncekey.errors import StoreError
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.record import Status
from tests.support.function_calls import Calls
from tests.support.protected import problem_of
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
from tests.support.replacing import replace
from tests.support.stable_names import stable_repr
from tests.support.steps import POST, Steps, caught, finds, raises, step

KEYS = [f"key-of-number-{number:04d}" for number in range(4)]
# With the manual clock's chance of a half: three quarters of a minute.
FIRST_DELAY_MS = 45_000
DAY_MS = 24 * 3_600_000

pytestmark = pytest.mark.usefixtures("no_resolvers")


def unknown(**options: Any) -> Unrecorded:
    """A service with one unknown record."""
    service = Unrecorded(**options)
    service.fails()
    return service


def next_turn_ms(service: Unrecorded | Steps) -> int:
    """How far away the next turn is."""
    assert service.record.due is not None
    return service.record.due.at_ms - service.clock.now_ms()


@pytest.mark.requirement("D6")
@pytest.mark.parametrize(
    "answer",
    [
        StillUnknown(),
        raises(ConnectionError("the provider is down")),
        raises(SystemExit(1)),
        "paid",
        None,
        Completed("no HTTP answer"),
        Completed({"body": "paid"}),
        Completed({"statusCode": 201, "body": object()}),
    ],
    ids=[
        "still unknown",
        "raises",
        "exits",
        "nonsense",
        "nothing",
        "no answer of a route",
        "no status",
        "not storable",
    ],
)
def test_who_does_not_know_is_asked_again_later(answer: Any) -> None:
    """Whatever a resolver says but a finding that can be stored leaves the record unknown, due with
    the next back-off; a client is told so, and the next turn settles it.

    Red when anything but a finding completes a record or lets it run.
    """
    service = unknown()
    asked = knows(answer, Completed(PAID))

    assert counts(service.reconciles()) == {"visited": 1, "asked": 1, "still_unknown": 1}
    record = service.record
    assert (record.status, record.reconcile_attempts) == (Status.UNKNOWN, 1)
    assert next_turn_ms(service) == FIRST_DELAY_MS
    assert problem_of(service.send(POST)) == (409, "outcome-unknown", True)
    assert counts(service.reconciles(waits=False)) == {}

    assert service.reconciles().settled == 1
    assert len(asked) == 2
    assert service.send(POST)["statusCode"] == 201
    assert len(service.charges) == 1


def test_the_turns_are_further_and_further_apart() -> None:
    """Each turn in vain doubles the time to the next one."""
    service = unknown()
    knows(StillUnknown())
    delays = []
    for _ in range(4):
        service.reconciles()
        delays.append(next_turn_ms(service))

    assert delays == [FIRST_DELAY_MS * factor for factor in (1, 2, 4, 8)]


@pytest.mark.parametrize(
    ("wish", "delay_ms"),
    [
        (timedelta(seconds=1), FIRST_DELAY_MS),
        (timedelta(hours=2), 7_200_000),
        (timedelta(days=400), 30 * DAY_MS),
        (timedelta(days=-1), FIRST_DELAY_MS),
        (timedelta.max, 30 * DAY_MS),
    ],
    ids=str,
)
def test_a_resolver_may_wish_to_be_asked_later(wish: timedelta, delay_ms: int) -> None:
    """`StillUnknown(retry_in)` puts the next turn off, never before the back-off and at most for
    thirty days; it counts as one turn.
    """
    service = unknown()
    knows(StillUnknown(wish))

    assert counts(service.reconciles()) == {"visited": 1, "asked": 1, "still_unknown": 1}
    assert next_turn_ms(service) == delay_ms
    assert service.record.reconcile_attempts == 1


@pytest.mark.parametrize("how", ["raises", "hangs"])
def test_a_bad_resolver_costs_its_record_the_turn_and_not_the_run(how: str) -> None:
    """While one record's resolver raises or hangs, every other one that is due is settled in the
    same run.
    """
    service = Unrecorded()
    for key in KEYS:
        service.fails(key)
    goes_on = threading.Event()

    def bad() -> Any:
        if how == "raises":
            raise ConnectionError
        goes_on.wait()
        return Completed(PAID)

    knows(bad, Completed(PAID))
    turns = ReconcilerSettings(resolver_timeout_ms=20)
    try:
        report = service.reconciles(turns=turns)
    finally:
        goes_on.set()

    assert (report.visited, report.settled, report.still_unknown) == (4, 3, 1)
    states = sorted(each.status for each in service.store.records.values())
    assert states == [Status.COMPLETED] * 3 + [Status.UNKNOWN]
    assert report.is_complete


@pytest.mark.requirement("C21")
def test_a_provider_that_hangs_does_not_take_the_time_of_all_others() -> None:
    """Where an operation's resolver has not answered in time twice, its other records stay due for
    the next run, and this one goes on to what others wait for.

    Red when every record of a provider that hangs is asked about until the time is up.
    """
    service = Unrecorded()
    for key in KEYS:
        service.fails(key)

    def hangs() -> Any:
        service.clock.advance(10_000)
        return StillUnknown()

    asked = knows(hangs)
    report = service.reconciles()

    assert (report.visited, report.asked, report.still_unknown) == (4, 2, 2)
    assert not report.is_complete
    assert len(asked) == 2
    assert sorted(each.reconcile_attempts for each in service.store.records.values()) == [
        0,
        0,
        1,
        1,
    ]


def test_nobody_is_asked_before_the_grace_of_the_reconciler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the reconciler has a longer grace than the handler, records are unknown until it has
    ended, and no resolver is asked. That says nothing of their provider, so each has its turn.

    Red when such a turn counts as a failure of the provider, or as nothing.
    """
    service = unknown_of_each(KEYS)
    asked = knows(Completed(PAID))
    wait_until_due(service)
    write = service.store.write

    def slow(transition: Any) -> Any:
        service.clock.advance(6_000)
        return write(transition)

    service.store.write = slow
    monkeypatch.setenv("ONCEKEY_RECONCILE_GRACE_MS", "3600000")
    report = service.reconciles(waits=False)

    assert (counts(report), asked) == ({"visited": 4, "still_unknown": 4}, [])
    assert report.is_complete


def unknown_of_each(keys: list[str]) -> Unrecorded:
    """A service with an unknown record for each key."""
    service = Unrecorded()
    for key in keys:
        service.fails(key)
    return service


def test_a_resolver_that_takes_a_moment_is_heard() -> None:
    """A resolver has until the end of its own time, or of the run.

    Red when it is heard only if it answers at once.
    """
    service = unknown()
    never = threading.Event()

    def takes_a_moment() -> Any:
        never.wait(0.05)
        return Completed(PAID)

    knows(takes_a_moment)

    assert service.reconciles().settled == 1


def test_a_resolver_that_hangs_has_had_its_turn_before_it_was_asked() -> None:
    """The turn is on record while the resolver is asked: whoever dies with it finds the record due
    at the next back-off, not at the head of every run.
    """
    service = unknown()
    seen: list[tuple[int, int]] = []

    def dies() -> Any:
        seen.append((service.record.reconcile_attempts, next_turn_ms(service)))
        service.store.is_dead = True
        return Completed(PAID)

    knows(dies, Completed(PAID))

    with pytest.raises(StoreError, match="nothing of what is due could be done"):
        service.reconciles()
    service.store.is_dead = False
    assert seen == [(1, FIRST_DELAY_MS)]
    assert service.record.status is Status.UNKNOWN
    assert service.reconciles().settled == 1


def test_what_a_resolver_says_after_its_time_is_heard_by_nobody() -> None:
    """An answer that comes late writes nothing, even if the record is unknown still."""
    service = unknown()
    goes_on, threads = threading.Event(), []

    def late() -> Any:
        threads.append(threading.current_thread())
        goes_on.wait()
        return Completed(PAID)

    knows(late)
    service.reconciles(turns=ReconcilerSettings(resolver_timeout_ms=1))
    before = service.record
    goes_on.set()
    threads[0].join()

    assert service.record == before


def test_a_resolver_is_heard_no_longer_than_the_run_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where little time is left of the invocation, a resolver has that much and no more."""
    # Here it really passes.
    monkeypatch.setattr("oncekey.reconciler.reconciler._LEAST_TIME_MS", 10)
    service = unknown()
    goes_on = threading.Event()

    def hangs() -> Any:
        goes_on.wait(5)
        return Completed(PAID)

    knows(hangs)
    wait_until_due(service)
    try:
        report = reconciler(service).run(service.clock.now_ms() + 10)
    finally:
        goes_on.set()

    assert (report.still_unknown, report.settled) == (1, 0)


@pytest.mark.parametrize(
    "nonsense", [StillUnknown(timedelta(hours=1)), raises(ValueError()), 7], ids=stable_repr
)
def test_of_a_step_the_same_holds(nonsense: Any) -> None:
    """A step's resolver that cannot say leaves its step in doubt, and due."""
    service = Steps()
    service.sends(caught(step("charge", raises=TimeoutError())))
    asked = finds(nonsense, Completed("c-1"))
    wait_until_due(service)

    report = reconciler(service).run(service.clock.now_ms() + RUN_MS)
    assert counts(report) == {"visited": 1, "asked": 1, "still_unknown": 1}
    assert service.record.is_in_doubt
    wait_until_due(service)
    assert reconciler(service).run(service.clock.now_ms() + RUN_MS).settled == 1
    assert [each.step for each in asked] == ["charge", "charge"]


def test_a_step_with_nothing_in_doubt_is_let_go_without_a_question() -> None:
    """Recorded work that became unknown although no step is in doubt needs no resolver."""
    service = Steps()
    service.sends(step("hold", "h-1"), caught(step("charge", raises=TimeoutError())))
    service.store.records[service.record.pk] = _without_doubt(service)
    wait_until_due(service)

    report = reconciler(service).run(service.clock.now_ms() + RUN_MS)

    assert (report.settled, report.escalated) == (1, 0)
    service.sends(step("hold"), step("charge", "c-1"))
    assert service.ran == ["hold", "charge", "charge"]


def _without_doubt(service: Steps) -> Any:
    # Its checkpoint has landed after the mark of doubt was judged; see the design's decisions.
    return replace(service.record, steps=service.record.steps.cleared())


def test_what_a_resolver_says_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An error's text, an answer that cannot be stored, and the names in it may be what nobody
    should read.
    """
    caplog.set_level(logging.DEBUG, "oncekey")
    service, calls = unknown(), Calls()
    secret = "card 4242 of acme"
    knows(raises(ValueError(secret)), secret, Completed({"statusCode": 200, "body": {secret}}))
    knows(Completed({secret: object()}), operation="charge")
    calls.then = _times_out
    with pytest.raises(TimeoutError):
        calls.call({"id": "a"})
    for _ in range(3):
        service.reconciles()
        assert reconciles(calls).still_unknown == 1

    assert "4242" not in caplog.text
    assert "oncekey answer-not-storable: charge" in caplog.text
    assert service.record.reconcile_attempts == 3


def _times_out(_record: Any) -> None:
    raise TimeoutError


def test_two_findings_for_one_record_are_one_settlement() -> None:
    """While a resolver is asked, somebody else settles: the record stays as they left it, and the
    run says that it was overtaken.
    """
    service = unknown()
    other = {"statusCode": 402, "body": "declined"}

    def slow() -> Any:
        knows_more = service.another_sandbox()
        settle(
            service.runs[0].reference,
            Completed(other),
            store=knows_more.store,
            clock=knows_more.clock,
        )
        return Completed(PAID)

    knows(slow)
    report = service.reconciles()

    assert (report.settled, report.overtaken) == (0, 1)
    assert service.send(POST)["body"] == "declined"
