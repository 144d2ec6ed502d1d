"""Nothing waits for ever: the design's page of what waits is whole, and what it says is so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import oncekey
from oncekey import StillUnknown
from oncekey.errors import StoreError
from oncekey.record.record import Effects, Record, Status
from oncekey.testing.memory import ManualClock
from tests.support.accepted import START_WITHIN_MS, Accepted
from tests.support.dynamodb import dynamodb_table, items, store_on
from tests.support.large_answers import LARGE
from tests.support.outages import DAY_MS, MINUTE_MS
from tests.support.quotas import Metered
from tests.support.reconciled import Escalations, Unrecorded, knows, reconciles
from tests.support.records import every_record
from tests.support.replacing import replace
from tests.support.steps import (
    BESIDE,
    FAILED,
    LEASE_MS,
    POST,
    FaultyStore,
    Steps,
    TableSteps,
    caught,
    step,
)

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[2] / "layer/docs/design/what-waits.md"
CODE = Path(oncekey.__file__).parent
HOUR_MS = 60 * MINUTE_MS
GRACE_MS = 60_000
NEVER, FIRST, TURNS = "never", "in the first visit", "after ten turns"
BY_THAT = "by what it becomes"

pytestmark = pytest.mark.usefixtures("no_resolvers")


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the page's table under this heading, by their first cells."""
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {first.strip(): rest for first, *rest in cells}


def row_of(record: Record, now_ms: int, *, has_resolver: bool) -> str:
    """The page's row for `record`."""
    match record.status:
        case Status.IN_PROGRESS:
            is_over = record.is_lease_over(now_ms)
            return f"`IN_PROGRESS`, lease {'over' if is_over else 'open'}"
        case Status.PENDING:
            return f"`PENDING`, {'begun before' if record.was_begun else 'never begun'}"
        case Status.UNKNOWN:
            if record.effects is Effects.RECORDED and not record.is_in_doubt:
                return "`UNKNOWN`, recorded, no step in doubt"
            return f"`UNKNOWN`, with{'' if has_resolver else 'out'} a resolver"
        case Status.FAILED_RETRYABLE:
            return "half done" if record.steps.finished else "`FAILED_RETRYABLE`, nothing finished"
        case Status.COMPLETED:
            return "`COMPLETED`"


@dataclass(frozen=True, slots=True)
class Case:
    """What leaves a record behind, what is there after its hours alone, and who was told when."""

    row: str
    leave: Callable[[], Steps]
    becomes: str
    told: str
    page_says: str


class Unreadable(FaultyStore):
    """A store whose records cannot be read by a reconciler."""

    is_reconciling = False

    def read(self, pk: str) -> Record | None:
        """Read, or not."""
        if self.is_reconciling:
            raise StoreError("the stored record cannot be read ('rev')", transient=False)
        found: Record | None = super().read(pk)
        return found


def open_lease() -> Steps:
    """Its owner is at it: of an invocation that lasts for days."""
    service = Unrecorded(timeout_ms=30 * DAY_MS)
    service.is_killed()
    return service


def dead() -> Steps:
    """Its owner has died, before its first step."""
    service = Steps()
    service.dies()
    return service


def never_begun() -> Steps:
    """No worker comes."""
    service = Accepted(effects="unrecorded")
    service.sends()
    return service


def begun_before() -> Steps:
    """A worker has begun it, and none comes for its second attempt."""
    service = Accepted(effects="repeatable")
    service.sends(ends=oncekey.NotExecuted())
    with pytest.raises(oncekey.NotExecuted):
        service.works()
    service.send(POST)
    return service


def unknown() -> Steps:
    """Nobody can be asked."""
    service = Unrecorded()
    service.fails()
    return service


def asked() -> Steps:
    """Who is asked never knows."""
    knows(StillUnknown())
    return unknown()


def none_in_doubt() -> Steps:
    """The checkpoint landed before the doubt was marked."""
    service = Steps()
    service.sends(caught(step("charge", raises=TimeoutError())))
    record = service.record
    service.store.records[record.pk] = replace(record, steps=record.steps.cleared())
    return service


def stopped() -> Steps:
    """Its handler no longer fits the record."""
    service = Steps()
    service.sends(step("hold", "h-1"), step("charge", "c-1"), ends=FAILED)
    service.sends(step("charge", "c-1"), step("hold", "h-1"))
    return service


def half_done() -> Steps:
    """Its client never comes back."""
    service = Steps()
    service.sends(step("hold", "h-1"), ends=FAILED)
    return service


def nothing_finished() -> Steps:
    """It failed before anything was done."""
    service = Steps()
    service.sends(ends=FAILED)
    return service


def completed() -> Steps:
    """It is answered."""
    service = Steps()
    service.sends()
    return service


def unreadable() -> Steps:
    """Another release's, or damaged."""
    service = Unrecorded(store=Unreadable())
    service.fails()
    return service


CASES = {
    "open lease": Case("`IN_PROGRESS`, lease open", open_lease, "IN_PROGRESS", NEVER, "never"),
    "dead": Case(
        "`IN_PROGRESS`, lease over", dead, "FAILED_RETRYABLE", NEVER, "by what it becomes"
    ),
    "never begun": Case("`PENDING`, never begun", never_begun, "COMPLETED", NEVER, "never"),
    "begun before": Case("`PENDING`, begun before", begun_before, "PENDING", TURNS, TURNS),
    "asked": Case("`UNKNOWN`, with a resolver", asked, "UNKNOWN", TURNS, TURNS),
    "unknown": Case("`UNKNOWN`, without a resolver", unknown, "UNKNOWN", FIRST, FIRST),
    "none in doubt": Case(
        "`UNKNOWN`, recorded, no step in doubt", none_in_doubt, "FAILED_RETRYABLE", NEVER, FIRST
    ),
    "stopped": Case("`UNKNOWN`, recorded, no step in doubt", stopped, "UNKNOWN", FIRST, FIRST),
    "half done": Case("half done", half_done, "FAILED_RETRYABLE", TURNS, TURNS),
    "nothing finished": Case(
        "`FAILED_RETRYABLE`, nothing finished", nothing_finished, "FAILED_RETRYABLE", NEVER, "never"
    ),
    "completed": Case("`COMPLETED`", completed, "COMPLETED", NEVER, "never"),
    "unreadable": Case(
        "any that a visit cannot read or handle", unreadable, "UNKNOWN", TURNS, TURNS
    ),
}


def test_every_record_that_there_can_be_has_its_row() -> None:
    """Each status, with every lease, kind of effects and steps, is in one row of the page, and
    each row of the page is of some record, and has a case that is run.

    Red when a status is added that the page does not know.
    """
    now_ms = ManualClock().now_ms()
    met = {
        row_of(record, now_ms, has_resolver=has_resolver)
        for record in every_record()
        for has_resolver in (True, False)
    }
    named = set(rows("Records"))

    assert met == named - {"any that a visit cannot read or handle"}
    assert {case.row for case in CASES.values()} == named
    assert {record.status for record in every_record()} == set(Status)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_the_page_says_of_a_record_is_so(case: Case) -> None:
    """Left to a reconciler that runs each minute, a record becomes what its row says, and a person
    is told when it says, once, and again a week later; or nobody is.

    Red when what waits leaves the index, takes no turns, or is told of at another time.
    """
    service = case.leave()
    people, told_ms = Escalations(), []
    service.clock.advance(1)
    if case.row != "any that a visit cannot read or handle":
        dead_for_ms = LEASE_MS + GRACE_MS + 1 if case.row.endswith("lease over") else 0
        service.clock.advance(dead_for_ms)
        met = row_of(service.record, service.clock.now_ms(), has_resolver=case.told == TURNS)
        assert met == case.row
    assert case.page_says in rows("Records")[case.row][-1]
    due = service.record.due
    wait_ms = 0 if due is None else max(0, due.at_ms + 1 - service.clock.now_ms())
    service.clock.advance(wait_ms if wait_ms <= START_WITHIN_MS else 0)
    began_ms = service.clock.now_ms()
    people.happens = lambda: told_ms.append(service.clock.now_ms() - began_ms)

    def runs(hours: int) -> None:
        for _ in range(hours * 60):
            service.store.is_reconciling = True
            try:
                reconciles(service, waits=False, escalations=people)
            except StoreError:
                assert case.leave is unreadable
            service.store.is_reconciling = False
            service.clock.advance(MINUTE_MS)

    runs(11)
    assert service.record.status == case.becomes
    times = {NEVER: [], FIRST: [range(1)], TURNS: [range(4 * HOUR_MS, 11 * HOUR_MS)]}[case.told]
    assert len(told_ms) == len(times)
    assert all(at_ms in time for at_ms, time in zip(told_ms, times, strict=True))
    service.clock.advance(7 * DAY_MS - 11 * HOUR_MS)
    runs(12)
    assert len(told_ms) == 2 * len(times)
    _ends_or_is_looked_at(service.record, service.clock.now_ms())


def _ends_or_is_looked_at(record: Record, now_ms: int) -> None:
    is_open = record.status in {Status.IN_PROGRESS, Status.PENDING, Status.UNKNOWN}
    if is_open or (record.steps.finished and record.status is not Status.COMPLETED):
        assert record.due is not None
        assert record.due.at_ms > now_ms - MINUTE_MS
        assert record.expires_at_s is None
    else:
        assert record.due is None
        assert record.expires_at_s is not None


# What the layer's own names of items and objects begin with, and the page's row of each.
PREFIXES = {
    "due#": "`due#shards`",
    "op#": "a pointer",
    "quota#": "a counter",
    "pause#": "`pause#all`",
    "v1#": "",  # The records, above; with more behind it, a companion.
    "answers/": "objects in `answers/` and `outbox/`",
    "outbox/": "objects in `answers/` and `outbox/`",
    "results/": "objects in `results/`",
}


def test_every_kind_of_item_and_object_has_its_row() -> None:
    """Whatever the code gives a name to, in a table or a bucket, is in the page's table.

    Red when an item with a new prefix is written, and the page does not say who looks at it.
    """
    found = {
        prefix
        for path in CODE.glob("**/*.py")
        # The items of the contract of a store are in the tables of a user's tests.
        if path.name not in {"store_contract.py", "contract_samples.py"}
        for prefix in re.findall(
            r"f?\"([a-z0-9]+#|(?:answers|results|outbox|reports)/)", path.read_text("utf-8")
        )
    }
    named = rows("Other items")

    assert found == set(PREFIXES)
    assert {row for row in PREFIXES.values() if row} <= set(named)
    for other in ("a dead letter", "a message in the escalation queue", "a message in the outbox"):
        assert other in named
    assert "an entry of the audit table" in named


def test_what_the_page_says_of_other_items_is_so() -> None:
    """Of what real flows leave in a table: pointers, counters and companions of answers expire,
    those of results do not before their record does, and one item remembers the shards.

    Red when an item without an end is written that the page says has one.
    """
    named = rows("Other items")
    with dynamodb_table() as client:
        store = store_on(client)
        store._call_timeout_ms = 0
        Metered(store=store, new_keys=5).ask(1)
        store.most_due_shards(16)
        large = Steps(store=store, effects="unrecorded")
        large.sends(ends={"statusCode": 200, "body": LARGE})
        stepped = TableSteps(client)
        stepped.event = with_other_key()
        stepped.sends(step("hold", BESIDE), ends=FAILED)
        ends: dict[str, set[bool]] = {}
        for item in items(client):
            ends.setdefault(kind_of(item), set()).add("expires_at" in item)

    assert ends.pop("a record") == {True, False}
    assert ends == {
        "a companion of an answer": {True},
        "a companion of a step's result": {False},
        "a counter": {True},
        "`due#shards`": {False},
    }
    assert set(ends) <= set(named)


def with_other_key() -> Any:
    """The request of another operation."""
    return {**POST, "headers": {**POST["headers"], "idempotency-key": "another-key-0123456789"}}


def kind_of(item: dict[str, Any]) -> str:
    """The page's row of an item, by its key."""
    pk = item["pk"]["S"]
    prefix = next(prefix for prefix in PREFIXES if pk.startswith(prefix))
    if prefix != "v1#":
        return PREFIXES[prefix]
    if "status" in item:
        return "a record"
    is_result = pk.count("#") > 2
    return "a companion of a step's result" if is_result else "a companion of an answer"
