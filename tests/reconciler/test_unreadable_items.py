"""An item that cannot be visited: its turns, who is told of it, and what its run says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, settle
from oncekey.errors import StoreError
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.record import Record, Status
from tests.support.events import with_key
from tests.support.outages import DAY_MS, MINUTE_MS
from tests.support.reconciled import (
    PAID,
    Unrecorded,
    counts,
    knows,
    reconciles,
    wait_until_due,
)
from tests.support.steps import FAILED, POST, Steps, step
from tests.support.unreadable import UNREADABLE, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.testing.memory import ManualClock

WEEK_MS = 7 * DAY_MS

pytestmark = pytest.mark.usefixtures("no_resolvers")


class Slow(Unreadable):
    """The same, and whoever reads one of those waits for half a minute."""

    clock: ManualClock

    def read(self, pk: str) -> Record | None:
        """Read, but for those."""
        if pk in self.bad:
            self.clock.advance(30_000)
        return super().read(pk)


class Meanwhile(Unreadable):
    """The same, and after the third turn of an item `happens`."""

    happens: Callable[[], object]

    def put_off(self, pk: str, **options: Any) -> int | None:
        """Put it off."""
        times = super().put_off(pk, **options)
        if times == 3 and options.get("counts", True):
            self.happens()
        return times


@pytest.mark.fault("K5.6")
def test_a_failed_visit_takes_no_turn_once_the_time_is_up() -> None:
    """Where a run has no time left, a record whose visit failed stays due as it was.

    Red when a run writes turns after its end.
    """
    service = Unrecorded(store=Slow(StoreError("timed out", transient=True)))
    service.store.clock = service.clock
    service.fails("key-of-number-0000")
    service.store.bad = set(service.store.records)
    before = service.record
    service.fails("key-of-number-0001")

    def slow() -> Any:
        service.clock.advance(19_500)
        return Completed(PAID)

    knows(slow)
    wait_until_due(service)
    report = reconciles(service, waits=False, lasts_ms=50_000)

    assert counts(report) == {"visited": 2, "asked": 1, "settled": 1, "failed": 1}
    assert service.store.records[before.pk] == before


@pytest.mark.fault("K5.6")
def test_a_run_in_which_a_record_has_waited_does_not_fail() -> None:
    """A record that waits for its client has taken its turn, so the run has done something.

    Red when only what is settled or sent counts as work.
    """
    service = Steps(store=Unreadable())
    for number in range(2):
        service.event = with_key(POST, f"key-of-number-{number:04d}")
        service.sends(step("hold", "h-1"), ends=FAILED)
    service.store.bad = {next(iter(service.store.records))}

    report = reconciles(service)

    assert counts(report) == {"visited": 2, "waiting": 1, "failed": 1}


@pytest.mark.fault("K5.6")
def test_an_unreadable_item_is_visited_again_after_the_first_delay() -> None:
    """An item that cannot be read is due again in a minute.

    Red when it is visited again by the very next run.
    """
    service = Unrecorded(store=Unreadable())
    service.fails()
    service.store.bad = set(service.store.records)

    with pytest.raises(StoreError, match="nothing of what is due could be done"):
        service.reconciles()

    assert due_in_ms(service) == MINUTE_MS


@pytest.mark.fault("K5.7")
@pytest.mark.parametrize(
    ("befalls", "again_in_ms"),
    [("is_down", DAY_MS), ("rejects", MINUTE_MS), ("loses_answers", DAY_MS)],
)
def test_what_the_queue_did_not_confirm_of_an_unreadable_item_is_sent_again(
    befalls: str, again_in_ms: int
) -> None:
    """A message about an item that cannot be read is sent again: in a minute where the queue
    certainly has not taken it, and otherwise in a day. The next one is for the week after. Each
    says why, and how many turns the item has taken.

    Red when what a queue may have taken is sent again within the day, or an escalation is a turn.
    """
    service = Unrecorded(store=Unreadable())
    service.fails()
    service.store.bad = set(service.store.records)
    for _ in range(2):
        with pytest.raises(StoreError, match="nothing of what is due could be done"):
            service.reconciles(max_attempts=3)
    setattr(service.escalations, befalls, True)
    with pytest.raises(StoreError, match="nothing of what is due could be done"):
        service.reconciles(max_attempts=3)
    assert due_in_ms(service) == again_in_ms
    setattr(service.escalations, befalls, False)

    report = service.reconciles(max_attempts=3)

    assert counts(report) == {"visited": 1, "failed": 1, "escalated": 1}
    assert due_in_ms(service) == WEEK_MS
    told = service.escalations.bodies[-1]
    assert (told["reason"], told["reconcile_attempts"]) == (UNREADABLE.reason, 4)


@pytest.mark.fault("K5.7")
def test_an_item_that_was_settled_meanwhile_is_told_to_nobody() -> None:
    """An item that is no longer due when its turn in the queue comes is settled, or another
    reconciler tells of it.

    Red when a person is told of a record that needs nobody, or by two reconcilers at once.
    """
    store = Meanwhile()
    service = Unrecorded(store=store)
    service.fails()
    store.bad = set(store.records)

    def is_settled() -> None:
        store.bad = set()
        settle(service.runs[0].reference, Completed(PAID), store=store, clock=service.clock)

    store.happens = is_settled
    for _ in range(3):
        with pytest.raises(StoreError, match="nothing of what is due could be done"):
            service.reconciles(max_attempts=3)

    assert service.record.status is Status.COMPLETED
    assert service.escalations.bodies == []


@pytest.mark.fault("K5.7")
def test_a_first_delay_that_is_the_longest_tells_a_person_once_a_day() -> None:
    """An item that cannot be read is escalated at most once a day, whatever the delays are.

    Red when its escalation is not put on record, for its turn was put off for longer.
    """
    service = Unrecorded(store=Unreadable())
    service.fails()
    service.store.bad = set(service.store.records)
    service.escalations.loses_answers = True
    turns = ReconcilerSettings(max_attempts=1, first_delay_ms=60_000, longest_delay_ms=1_000)

    with pytest.raises(StoreError, match="nothing of what is due could be done"):
        service.reconciles(turns=turns)

    assert len(service.escalations.bodies) == 1
    assert due_in_ms(service) == DAY_MS


def due_in_ms(service: Steps) -> int:
    """How long it is until the only record is due."""
    assert service.record.due is not None
    return service.record.due.at_ms - service.clock.now_ms()
