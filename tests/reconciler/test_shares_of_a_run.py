"""The time and the memory of a run: what those that wait get of it, and what its own end gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, StillUnknown
from tests.support.protected import Context
from tests.support.reconciled import (
    PAID,
    Unrecorded,
    counts,
    knows,
    reconciler,
    wait_until_due,
)
from tests.support.steps import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.record.record import Record
    from oncekey.testing.memory import ManualClock

KEYS = [f"key-of-number-{number:04d}" for number in range(6)]

pytestmark = pytest.mark.usefixtures("no_resolvers")


class SlowReads(FaultyStore):
    """A store that takes so long to read a record, by `clock` once it has one."""

    def __init__(self, takes_ms: int) -> None:
        super().__init__()
        self.clock: ManualClock | None = None
        self._takes_ms = takes_ms

    def read(self, pk: str) -> Record | None:
        """Read, later."""
        if self.clock is not None:
            self.clock.advance(self._takes_ms)
        found: Record | None = super().read(pk)
        return found


def unknown(keys: list[str], store: FaultyStore | None = None) -> Unrecorded:
    """A service with an unknown record for each key."""
    service = Unrecorded(store=store or FaultyStore())
    for key in keys:
        service.fails(key)
    return service


def test_a_short_invocation_keeps_a_quarter_for_its_end() -> None:
    """Of an invocation of three seconds a quarter is left for the last writes: no resolver is
    asked that could take it.
    """
    service = unknown(KEYS)

    def slow() -> Any:
        service.clock.advance(1_300)
        return Completed(PAID)

    knows(slow)
    wait_until_due(service)
    deadline_ms = service.clock.now_ms() + 3_000

    numbers = reconciler(service)({}, Context(service.clock, deadline_ms))

    assert (numbers["settled"], numbers["is_complete"]) == (1, False)
    assert service.clock.now_ms() <= deadline_ms - 750


def test_what_waits_has_its_turn_though_more_is_due_than_a_run_can_read() -> None:
    """After half of its time a run asks about what it has read, and then it goes on reading.

    Red when a run reads until its time is up, and asks nobody.
    """
    service = unknown([f"key-of-number-{number:04d}" for number in range(60)], SlowReads(1_000))
    service.store.clock = service.clock
    knows(Completed(PAID))

    report = service.reconciles()

    assert (report.visited, report.settled, report.is_complete) == (50, 25, False)


def test_a_run_whose_last_visit_takes_the_rest_of_its_time_says_that_more_is_due() -> None:
    """A run that ends with a visit that nothing waited for is not complete while records are due.

    Red when a run that read only some of the records reports that it is complete.
    """
    service = Unrecorded(store=SlowReads(30_000), effects="repeatable")
    for key in KEYS[:3]:
        service.is_killed(key)
    service.store.clock = service.clock

    report = service.reconciles()

    assert (counts(report), report.is_complete) == ({"visited": 2, "expired": 2}, False)


def test_what_has_no_room_in_a_run_is_left_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that a run cannot keep in its memory stay due, and the run says that it was not
    complete.
    """
    monkeypatch.setattr("oncekey.reconciler.lanes._MOST_WAITING", 4)
    service = unknown(KEYS)
    knows(Completed(PAID))

    first, second = service.reconciles(), service.reconciles(waits=False)

    assert (first.settled, first.is_complete) == (4, False)
    assert (second.settled, second.is_complete) == (2, True)


def test_one_slow_answer_keeps_no_other_record_waiting() -> None:
    """Where a resolver takes long over one record, the others of its provider are settled in the
    same run: the cause may be the record.

    Red when the first slow answer ends the questions to a provider.
    """
    service = unknown(KEYS[:4])

    def slow() -> Any:
        service.clock.advance(10_000)
        return StillUnknown()

    knows(slow, Completed(PAID))
    report = service.reconciles()

    assert (report.settled, report.still_unknown, report.is_complete) == (3, 1, True)


def test_a_provider_that_hangs_has_its_share_of_a_long_run() -> None:
    """In a run of ten minutes, ten seconds for each of four records are not too much.

    Red when a provider's share is that of a run of another length.
    """
    service = unknown(KEYS[:4])

    def hangs() -> Any:
        service.clock.advance(10_000)
        return StillUnknown()

    asked = knows(hangs)
    report = service.reconciles(lasts_ms=600_000)

    assert (len(asked), report.is_complete) == (4, True)


def test_a_slow_provider_is_asked_after_a_quick_one() -> None:
    """Once a provider has answered quickly, all its records come before those of one that has not
    been asked yet.

    Red when what was measured of a provider is not heeded.
    """
    service, order = unknown(KEYS[:4]), []
    other = Unrecorded(operation="POST /orders", store=service.store, clock=service.clock)
    for key in KEYS[:4]:
        other.fails(key)

    def answers(name: str, takes_ms: int) -> Callable[[], Any]:
        def answer() -> Any:
            order.append(name)
            service.clock.advance(takes_ms)
            return Completed(PAID)

        return answer

    knows(answers("slow", 8_000))
    knows(answers("quick", 20), operation="POST /orders")
    service.reconciles()

    # By the shards of these keys, a quick one is met first.
    assert order == ["quick"] * 4 + ["slow"] * 4
