"""A visit of the reconciler that fails has its turn, comes later each time, and ends with a person.

And a run in which nothing worked fails.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Completed, StillUnknown
from oncekey.errors import StoreError
from oncekey.reconciler.escalation import TOPIC
from oncekey.reconciler.report import Report
from oncekey.record.record import Status
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.dynamodb import TABLE, dynamodb_table
from tests.support.outages import DAY_MS, MINUTE_MS
from tests.support.reconciled import (
    PAID,
    Escalations,
    Unrecorded,
    counts,
    knows,
    reconciler,
    reconciles,
    wait_until_due,
)
from tests.support.steps import FAILED, Steps, TableSteps, step
from tests.support.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb import DynamoDBClient


WEEK_MS = 7 * DAY_MS

pytestmark = pytest.mark.usefixtures("no_resolvers")


class Minutes:
    """A reconciler each minute: when visits failed, when a person was told, and which runs failed.

    `with_others` is what each run can do beside; then it does not fail.
    """

    def __init__(self, service: Steps, **options: Any) -> None:
        self.service = service
        self.people: Escalations = options.pop("escalations", Escalations())
        self.people.happens = lambda: self.told_ms.append(self.now_ms)
        self.options = options
        self.told_ms: list[int] = []
        self.failed_ms: list[int] = []
        self.raised = 0
        self.last: Report | None = None
        self._began_ms = service.clock.now_ms()

    @property
    def now_ms(self) -> int:
        """Since the beginning."""
        return self.service.clock.now_ms() - self._began_ms

    def pass_for(self, duration_ms: int) -> None:
        """The runs of so long."""
        until_ms = self.now_ms + duration_ms
        while self.now_ms < until_ms:
            failed = sum(self._failures)
            try:
                self.last = reconciles(
                    self.service, waits=False, escalations=self.people, **self.options
                )
            except StoreError:
                self.raised += 1
            self.failed_ms += [self.now_ms] * (sum(self._failures) - failed)
            self.service.clock.advance(MINUTE_MS)

    @property
    def _failures(self) -> list[int]:
        logged = logging.getLogger("oncekey")
        return [getattr(each, "failures", 0) for each in logged.handlers]


class Counting(logging.Handler):
    """Counts the visits that failed."""

    failures = 0

    def emit(self, entry: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self.failures += entry.__dict__.get("oncekey_event") == "visit-failed"


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    """Failures are counted."""
    handler = Counting()
    logging.getLogger("oncekey").addHandler(handler)
    yield
    logging.getLogger("oncekey").removeHandler(handler)


def later_each_time(times_ms: list[int]) -> bool:
    """Whether each gap is at least as long as the one before, but for chance and whole minutes."""
    gaps = [later - sooner for sooner, later in itertools.pairwise(times_ms)]
    return all(later >= sooner - MINUTE_MS for sooner, later in itertools.pairwise(gaps))


def unreadable() -> Minutes:
    """A record that is damaged, or another release's."""
    service = Unrecorded(store=Unreadable())
    service.fails()
    service.store.bad = set(service.store.records)
    service.clock.advance(MINUTE_MS * 5)
    return Minutes(service)


def half_done(**options: Any) -> Steps:
    """Work that is to be handed back."""
    service = Steps(on_abandoned="complete", **options)
    service.sends(step("hold", "h-1"), ends=FAILED)
    service.clock.advance(MINUTE_MS * 5)
    return service


def without_outbox() -> Minutes:
    """A reconciler that is told no outbox."""
    service = half_done()
    service.store.has_outbox = False
    return Minutes(service)


def may_not_publish() -> Minutes:
    """A reconciler that may not write to the outbox."""
    service = half_done()
    service.store.deny("commit Reschedule")
    return Minutes(service)


def may_not_settle() -> Minutes:
    """A reconciler that may take turns, and may not write what the resolver found."""
    service = Unrecorded()
    service.fails()
    service.clock.advance(MINUTE_MS * 5)
    knows(Completed(PAID))
    service.store.deny("Settle")
    return Minutes(service)


def may_not_end() -> Minutes:
    """A reconciler that may not end a dead attempt."""
    service = Unrecorded()
    service.is_killed()
    service.clock.advance(MINUTE_MS * 5)
    service.store.deny("ExpireLease")
    return Minutes(service)


def may_not_time_out() -> Minutes:
    """A reconciler that may not answer what nobody began."""
    service = Accepted(effects="unrecorded")
    service.sends()
    service.clock.advance(START_WITHIN_MS + 1)
    service.store.deny("TimeOut")
    return Minutes(service)


def raises_in_between() -> Minutes:
    """A handler whose words for a client raise."""
    service = Accepted(effects="unrecorded")
    service.sends()
    service.clock.advance(START_WITHIN_MS + 1)
    minutes = Minutes(service)

    def bad(*_: Any) -> Any:
        raise ZeroDivisionError

    minutes.options["bad"] = bad
    return minutes


VISITS = {
    "an unreadable record": unreadable,
    "no outbox": without_outbox,
    "denied: the outbox": may_not_publish,
    "denied: the settlement": may_not_settle,
    "denied: the end of a lease": may_not_end,
    "denied: the end of what waits": may_not_time_out,
    "a mistake of the code": raises_in_between,
}


@pytest.mark.fault("K5.5")
@pytest.mark.fault("K5.6")
@pytest.mark.parametrize("visit", VISITS)
def test_a_visit_that_fails_ends_with_a_person(visit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no visit can do anything with fails about ten times, later each time, and fails the runs
    in which nothing else worked; a person is told within ten hours, and again each week.

    Red when a failing visit takes no turn, or its turns are not counted.
    """
    minutes = VISITS[visit]()
    bad: Callable[..., Any] | None = minutes.options.pop("bad", None)
    if bad is not None:
        monkeypatch.setattr("oncekey.reconciler.timed_out.TimedOut.ending", bad)

    minutes.pass_for(11 * 60 * MINUTE_MS)

    assert 8 <= len(minutes.failed_ms) <= 11
    assert later_each_time(minutes.failed_ms)
    assert minutes.raised >= len(minutes.failed_ms) - 1
    assert len(minutes.told_ms) == 1
    (told,) = minutes.people.bodies
    assert told["topic"] == TOPIC
    minutes.service.clock.advance(WEEK_MS)
    minutes.pass_for(DAY_MS)
    assert len(minutes.people.bodies) == 2
    assert len({each["id"] for each in minutes.people.bodies}) == 2


@pytest.mark.fault("K5.6")
def test_one_that_cannot_be_visited_does_not_fail_the_runs_of_others() -> None:
    """While others are done the run returns, says how many failed, and the one has its turns.

    Red when one that cannot be read fails a run in which something was done.
    """
    service = Unrecorded(store=Unreadable())
    service.fails("key-of-number-0000")
    service.store.bad = set(service.store.records)
    service.fails("key-of-number-0001")
    service.clock.advance(MINUTE_MS * 5)
    knows(Completed(PAID))
    minutes = Minutes(service)

    minutes.pass_for(1)

    assert minutes.raised == 0
    assert minutes.last is not None
    assert counts(minutes.last) == {"visited": 2, "asked": 1, "settled": 1, "failed": 1}


@pytest.mark.fault("K5.6")
def test_what_can_be_read_again_is_done() -> None:
    """A record that an older release cannot read is settled once a newer one visits it, at the
    latest at its next turn.

    Red when a record is given up on for good.
    """
    minutes = unreadable()
    minutes.pass_for(5 * MINUTE_MS)
    minutes.service.store.bad = set()
    knows(Completed(PAID))

    minutes.pass_for(10 * MINUTE_MS)

    assert minutes.service.record.status is Status.COMPLETED
    assert minutes.people.bodies == []


@pytest.mark.fault("K5.6")
@pytest.mark.proof
def test_a_record_that_alone_is_never_given_ends_with_a_person() -> None:
    """A record whose reading times out each time, while the others are read, is its own trouble.

    Red when what may be passing takes no turn for ever.
    """
    service = Unrecorded(store=Unreadable(StoreError("timed out", transient=True)))
    service.fails("key-of-number-0000")
    service.store.bad = set(service.store.records)
    service.clock.advance(MINUTE_MS * 5)
    knows(StillUnknown())
    minutes = Minutes(service)
    for number in range(1, 13 * 60):
        service.fails(f"key-of-number-{number:04d}")
        minutes.pass_for(1)

    told = [body for body in minutes.people.bodies if body.get("pk") in service.store.bad]
    assert len(told) == 1


@pytest.mark.fault("K5.5")
def test_in_an_outage_of_the_store_nobodys_turns_are_used_up() -> None:
    """While the store gives nothing each run fails, and no record has had a turn.

    Red when what fails in an outage is put off.
    """
    service = Unrecorded(store=Unreadable(StoreError("timed out", transient=True)))
    for number in range(5):
        service.fails(f"key-of-number-{number:04d}")
    service.store.bad = set(service.store.records)
    service.clock.advance(MINUTE_MS * 5)
    before = dict(service.store.records)
    minutes = Minutes(service)

    minutes.pass_for(60 * MINUTE_MS)

    assert (minutes.raised, service.store.records) == (60, before)


@pytest.mark.fault("K5.6")
def test_a_record_that_alone_is_never_given_takes_its_turns() -> None:
    """A record whose reading times out while another one is visited takes a turn each time, and a
    person is told after the last one.

    Red when what may be passing takes no turn.
    """
    service = Unrecorded(store=Unreadable(StoreError("timed out", transient=True)))
    service.fails("key-of-number-0000")
    service.store.bad = set(service.store.records)
    knows(StillUnknown())
    minutes = Minutes(service, max_attempts=3)
    for number in range(1, 10):
        service.fails(f"key-of-number-{number:04d}")
        service.clock.advance(MINUTE_MS * 5)
        minutes.pass_for(1)

    told = [body for body in minutes.people.bodies if body.get("pk") in service.store.bad]
    assert [(body["reconcile_attempts"], body["reason"]) for body in told] == [(3, "StoreError")]


DAMAGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no revision": lambda item: item.pop("rev"),
    "a status of a later release": lambda item: item.update(status={"S": "SUSPENDED"}),
    "effects of a later release": lambda item: item.update(effects={"S": "promised"}),
    "a number that is text": lambda item: item.update(attempt={"S": "one"}),
    "steps that are none": lambda item: item.update(steps={"L": [{"S": "charge"}]}),
    "an item of somebody else": lambda item: [
        item.pop(name) for name in list(item) if name not in {"pk", "due_shard", "due_at"}
    ],
    "a key of somebody else": lambda item: item.update(pk={"S": "theirs"}, rev={"S": "x"}),
}


@pytest.fixture(scope="module")
def client() -> Iterator[DynamoDBClient]:
    """A table."""
    with dynamodb_table() as made:
        yield made


@pytest.mark.fault("K5.6")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_item_is_told_to_a_person_by_what_the_index_has(
    damage: str, client: DynamoDBClient
) -> None:
    """An item that is no record of this release has its turns by its key alone: nothing of it is
    changed but when it is due, and a person is told of its key.

    Red when the turn of what cannot be read is a transition of its record.
    """
    for left in client.scan(TableName=TABLE)["Items"]:
        client.delete_item(TableName=TABLE, Key={"pk": left["pk"]})
    service = TableSteps(client)
    service.sends(step("hold", "h-1"), ends=FAILED)
    (item,) = client.scan(TableName=TABLE)["Items"]
    client.delete_item(TableName=TABLE, Key={"pk": item["pk"]})
    DAMAGES[damage](item)
    client.put_item(TableName=TABLE, Item=item)
    people = Escalations()

    for _ in range(4):
        service.clock.advance(DAY_MS)
        with contextlib.suppress(StoreError):
            reconciles(service, waits=False, escalations=people, max_attempts=3)

    (body,) = people.bodies
    assert (body["pk"], body["status"]) == (item["pk"]["S"], "UNREADABLE")
    left = client.get_item(TableName=TABLE, Key={"pk": item["pk"]})["Item"]
    assert {name: left[name] for name in item if name != "due_at"} == {
        name: value for name, value in item.items() if name != "due_at"
    }
    assert set(left) - set(item) == {"put_off"}


@pytest.mark.fault("K6.3")
def test_an_escalation_counts_once_its_message_was_sent() -> None:
    """A run that reaches no person reports no escalation, and the next one that does reports it.

    Red when an escalation is counted before its message was sent.
    """
    service = Unrecorded()
    service.fails()
    service.escalations.is_down = True
    wait_until_due(service)
    run = reconciler(service, escalations=service.escalations)
    reports: list[Report] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("oncekey.reconciler.reconciler.Report", noting(reports))
        with pytest.raises(StoreError):
            run.run(service.clock.now_ms() + 50_000)

    assert [report.escalated for report in reports] == [0]
    assert service.escalations.bodies == []
    service.escalations.is_down = False
    assert counts(service.reconciles())["escalated"] == 1
    assert len(service.escalations.bodies) == 1


def noting(reports: list[Report]) -> Callable[[], Report]:
    """What makes a report, and keeps it for whoever looks after its run has failed."""

    def made() -> Report:
        reports.append(Report())
        return reports[-1]

    return made
