"""Forgetting keys and erasing data: what is refused, and what is left."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted
from oncekey.engine.operation_pointer import pointer_place
from oncekey.record.record import Effects, Status
from oncekey.record.stored_answer import Blob, Place, StoredRef
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.testing import dynamodb_tables
from oncekey.testing.memory import ManualClock
from oncekey_local import cli
from oncekey_operator.actions.messages import drop, unsent
from oncekey_operator.actions.removal import Storage, bust, danger_of, erase
from oncekey_operator.exits import CommandError
from oncekey_operator.records.finding import by_operation_id
from oncekey_operator.records.listing import RecordsTable, Wanted, open_records
from tests.support.noted_lines import WHO, WHY, Noted, operator
from tests.support.protected import Protected, fails, problem_of
from tests.support.records import LEASES, NOW_MS, STEPS, record
from tests.support.replacing import replace
from tests.support.steps import POST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Operation
    from oncekey.record.record import Record
    from oncekey.testing import Tables

LARGE = "".join(str(number) for number in range(2_000))


@pytest.fixture
def tables() -> Iterator[Tables]:
    """Tables on moto."""
    with dynamodb_tables() as made:
        yield made


def storage(tables: Tables) -> Storage:
    """The tables, as removals use them."""
    return Storage(dynamodb=tables.client, table=tables.records)


def the(tables: Tables) -> Record:
    """The only record."""
    (found,) = RecordsTable(tables.client, tables.records).scanned(Wanted(), lambda _: None)
    return found


@pytest.mark.parametrize(
    ("changes", "danger"),
    [
        ({"status": Status.COMPLETED}, "completed"),
        ({"status": Status.COMPLETED, "expires_at_s": 1}, ""),
        ({"status": Status.UNKNOWN}, "unknown"),
        ({"lease_until_ms": LEASES["over"]}, "unknown"),
        ({"lease_until_ms": LEASES["over"], "effects": Effects.REPEATABLE}, "half-done"),
        ({"status": Status.FAILED_RETRYABLE}, ""),
        ({"status": Status.FAILED_RETRYABLE, "effects": Effects.REPEATABLE}, "half-done"),
        ({"status": Status.FAILED_RETRYABLE, "effects": Effects.RECORDED}, "half-done"),
        (
            {
                "status": Status.FAILED_RETRYABLE,
                "effects": Effects.RECORDED,
                "steps": STEPS["finished"],
            },
            "half-done",
        ),
        ({"status": Status.PENDING, "attempt": 1}, ""),
        ({"status": Status.PENDING, "attempt": 2}, "half-done"),
    ],
)
def test_a_dangerous_bust_says_what_can_happen(changes: dict[str, Any], danger: str) -> None:
    """What may take effect a second time is forgotten only by its own name."""
    assert danger_of(record(**changes), NOW_MS) == danger


def test_a_running_operation_is_never_forgotten() -> None:
    """No option forgets a key whose attempt holds its lease."""
    with pytest.raises(CommandError, match="still runs"):
        danger_of(record(lease_until_ms=LEASES["open"]), NOW_MS)


@pytest.mark.requirement("C16")
def test_a_busted_key_runs_again_as_a_new_operation(tables: Tables) -> None:
    """It is refused without --even-if and changes nothing; with it, the next request runs, and two
    lines say who did it and why.

    Red when an answer can be forgotten without a trace, or is still given.
    """
    service, noted = Protected(store=tables.store), Noted()
    service.send(POST)
    first, acting = the(tables), operator(tables.store, ManualClock(), noted)

    with pytest.raises(CommandError, match="a second time.*--even-if completed"):
        bust(acting, storage(tables), first)
    assert (the(tables), noted.lines) == (first, [])
    bust(acting, storage(tables), first, even_if="completed")
    service.send(POST)

    assert len(service.runs) == 2
    assert the(tables).operation_id != first.operation_id
    assert noted.outcomes() == ["intended", "busted"]
    assert {(line.action, line.who, line.why) for line in noted.lines} == {
        ("bust, even if completed", WHO, WHY)
    }


def test_a_record_that_was_written_since_is_not_removed(tables: Tables) -> None:
    """The removal names the version that the person saw."""
    service = Protected(store=tables.store)
    service.send(POST)
    acting = operator(tables.store, ManualClock(), Noted())
    old = replace(the(tables), rev=1)

    for remove in (
        lambda: bust(acting, storage(tables), old, even_if="completed"),
        lambda: erase(acting, storage(tables), old),
    ):
        with pytest.raises(CommandError, match="in the meantime"):
            remove()

    assert the(tables).rev == 2


def test_an_erased_key_does_not_run_again(tables: Tables) -> None:
    """A tombstone is left, without key, tenant and answer: a retry gets no answer and no run."""
    service = Protected(store=tables.store)
    service.then = lambda _event, _op: {"statusCode": 201, "body": LARGE}
    service.send(POST)
    before = the(tables)

    left = erase(operator(tables.store, ManualClock(), Noted()), storage(tables), before)
    answer = service.send(POST)

    assert left == "tombstone"
    (item,) = tables.client.scan(TableName=tables.records)["Items"]
    assert before.key
    assert before.key not in json.dumps(item, default=str)
    assert (item["tenant"], "key" in item) == ({"S": "erased"}, False)
    assert (problem_of(answer), len(service.runs)) == (
        (500, "answer-unavailable", False),
        1,
    )


def test_an_open_operation_is_not_erased(tables: Tables) -> None:
    """Its data are needed to end it."""
    service = Protected(store=tables.store)
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)

    with pytest.raises(CommandError, match="settle it first"):
        erase(operator(tables.store, ManualClock(), Noted()), storage(tables), the(tables))


def test_what_only_its_own_id_makes_harmless_is_not_erased(tables: Tables) -> None:
    """A repeatable attempt that failed may have acted: its retry keeps the id, until it expires."""
    service, noted = Protected(store=tables.store, effects="repeatable"), Noted()
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)
    failed, clock = the(tables), ManualClock(service.clock.now_ms())

    with pytest.raises(CommandError, match="they expire at"):
        erase(operator(tables.store, clock, noted), storage(tables), failed)
    service.then = None
    service.send(POST)

    assert noted.lines == []
    assert the(tables).operation_id == failed.operation_id


@pytest.mark.parametrize("remove", [partial(bust, even_if="completed"), erase])
def test_nothing_is_removed_if_the_answer_cannot_be(tables: Tables, remove: Any) -> None:
    """An answer in a bucket that is not named is refused first: no half of it is removed."""
    service, noted = Protected(store=tables.store), Noted()
    service.send(POST)
    at = StoredRef(place=Place.OBJECT, name="answers/1", digest="d")
    large = replace(the(tables), response=at)
    tables.client.put_item(TableName=tables.records, Item=attribute_values(large))

    with pytest.raises(CommandError, match="--bucket NAME"):
        remove(operator(tables.store, ManualClock(), noted), storage(tables), the(tables))

    assert (the(tables), noted.lines) == (large, [])


def test_a_refused_erasure_leaves_the_pointer_of_a_retry(tables: Tables) -> None:
    """A failed operation that runs again meanwhile keeps the pointer that finds it by its id."""
    service = Protected(store=tables.store)
    service.then = fails(NotExecuted())
    service.send(POST)
    failed = the(tables)
    service.then = None
    service.send(POST)
    pointer = Blob(at=pointer_place(failed.operation_id), data=b"{}", expires_at_s=0)
    tables.store.save(pointer)

    with pytest.raises(CommandError, match="in the meantime"):
        erase(operator(tables.store, service.clock, Noted()), storage(tables), failed)

    assert tables.store.fetch(pointer.at) == b"{}"


def test_no_tenant_is_not_every_tenant(tables: Tables, capsys: pytest.CaptureFixture[str]) -> None:
    """A variable of a script that is empty erases nothing."""
    where = ("--table", tables.records, "--audit-table", "audit", "--region", "eu-central-1")

    assert cli.main(["erase", "--tenant", "", "--reason", "asked", "--yes", *where]) == 2
    assert "--tenant for all of a tenant" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("erase", "--tenant", "acme", "--operation", "POST /photos"), "--operation"),
        (("erase", "--tenant", "acme", "--principal", "user_1"), "--principal"),
        (("erase", "an-operation-id", "--tenant", "acme"), "--tenant"),
        (("erase", "an-operation-id", "--expect", "1-abc"), "--expect"),
        (
            ("bust", "an-operation-id", "--tenant", "acme", "--operation", "POST /photos"),
            "--tenant",
        ),
    ],
)
def test_nobody_removes_more_than_the_options_name(
    arguments: tuple[str, ...],
    option: str,
    tables: Tables,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An option that would not narrow what is removed is refused.

    Red when `--operation` beside `--tenant` erases the tenant's other operations, too.
    """
    where = ("--table", tables.records, "--audit-table", "audit", "--region", "eu-central-1")

    assert cli.main([*arguments, "--reason", "asked", "--yes", *where]) == 2
    said = capsys.readouterr().err
    assert option in said
    assert "would have no effect" in said


def test_unsent_messages_are_found_and_dropped(tables: Tables) -> None:
    """A tenant's messages in the outbox are counted, and deleted if a person wants that.

    The audit says so of those alone that were still there.
    """
    service, noted = Protected(store=tables.store, effects="recorded"), Noted()

    def publishes(_event: object, op: Operation) -> dict[str, Any]:
        op.outbox.publish("order.placed", {"id": 1})
        return {"statusCode": 201, "body": ""}

    service.then = publishes
    service.send(POST)
    mine = unsent(storage(tables), tables.outbox, tenant=the(tables).tenant)
    others = unsent(storage(tables), tables.outbox, tenant="other")
    acting = operator(tables.store, ManualClock(), noted)
    dropped = [drop(acting, storage(tables), tables.outbox, mine) for _ in range(2)]

    assert (len(mine), len(others), dropped) == (1, 0, [1, 0])
    assert tables.client.scan(TableName=tables.outbox)["Items"] == []
    assert noted.outcomes() == [
        *("intended", "erased"),
        *("intended", "gone: it was sent in the meantime"),
    ]


def test_an_unknown_operation_is_found_by_its_state_and_its_id(tables: Tables) -> None:
    """The index finds it, with no scan; a filter that does not fit finds nothing."""
    service = Protected(store=tables.store)
    service.then = fails(TimeoutError())
    with pytest.raises(TimeoutError):
        service.send(POST)
    unknown = the(tables)

    def listed(**wanted: Any) -> list[Record]:
        return list(open_records(tables.store, Wanted(**wanted)))

    assert listed(states=frozenset({"unknown"})) == [unknown]
    assert listed(states=frozenset({"escalated", "in-progress"})) == []
    assert listed(tenant="somebody else") == []
    assert by_operation_id(tables.store, unknown.operation_id) == unknown
