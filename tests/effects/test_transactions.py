"""What a handler collects is applied with its final answer, all of it, or nothing is."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from boto3.dynamodb.conditions import Attr

from oncekey import (
    STRIPE,
    ConditionFailed,
    Final,
    NotExecuted,
    current_operation,
    idempotent_function,
    single_tenant,
)
from oncekey.record.record import Status
from oncekey.testing.memory import ManualClock
from tests.support.dynamodb import TABLE, items
from tests.support.protected import is_replay, problem_of
from tests.support.recorded import LEDGER, World, put, transfer
from tests.support.steps import POST, Steps, meanwhile

if TYPE_CHECKING:
    from oncekey import Operation

DAY_MS = 24 * 3600 * 1000


def given(world: World, row_id: str, **attributes: Any) -> None:
    """A row that is there from before."""
    item = {"id": {"S": row_id}} | {name: {"N": str(each)} for name, each in attributes.items()}
    world.client.put_item(TableName=LEDGER, Item=item)


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("status", [200, 201, 204, 302, 400, 404, 409, 422])
def test_a_final_answer_applies_everything_at_once(world: World, status: int) -> None:
    """Rows, message and the completed record are there after a final answer, success or not; before
    it nothing is, and a replay adds nothing.

    Red when what was collected is applied before the answer is known, or is not with some answer.
    """
    service = world.service()
    before: list[bool] = []

    answer = service.sends(
        transfer(),
        lambda _service, _op: before.append(world.is_empty_of_effects()),
        ends={"statusCode": status, "body": "{}"},
    )
    replay = service.send(POST)

    assert before == [True]
    assert answer["statusCode"] == replay["statusCode"] == status
    assert is_replay(replay)
    assert world.record.status is Status.COMPLETED
    assert (world.balance, len(world.rows), len(world.messages)) == (5, 2, 1)
    assert world.rows[world.record.operation_id]["amount"] == 5


DISCARDING: dict[str, Any] = {
    **{str(status): {"statusCode": status, "body": ""} for status in (408, 425, 429, 500, 503)},
    "ValueError": ValueError("it failed"),
    "NotExecuted": NotExecuted("refused"),
    "SystemExit": SystemExit(1),
    "an answer that says a server failed and has no form": {"statusCode": 500, "body": object()},
}


@pytest.mark.requirement("C2")
@pytest.mark.requirement("C8")
@pytest.mark.parametrize("ends", DISCARDING.values(), ids=DISCARDING)
def test_an_answer_that_is_not_final_applies_nothing(world: World, ends: Any) -> None:
    """What was collected before such an answer or an exception is gone with the attempt; the next
    one collects and applies its own.

    Red when such an attempt applies anything, or leaves anything to the next.
    """
    service = world.service()
    kinds = (type(ends), TypeError) if isinstance(ends, BaseException) else (TypeError,)

    with contextlib.suppress(*kinds):
        service.sends(transfer(100), ends=ends)
    assert world.is_empty_of_effects()
    assert world.record.status is Status.FAILED_RETRYABLE
    answer = service.sends(transfer(5))

    assert answer["statusCode"] == 201
    assert (world.balance, len(world.messages)) == (5, 1)
    assert len(service.runs) == 2


@pytest.mark.parametrize("status", [200, 402, 500])
@pytest.mark.parametrize("keeps", [True, False])
def test_a_final_raised_anywhere_applies_only_what_it_says(
    world: World, keeps: bool, status: int
) -> None:
    """`Final` is stored whatever its status; what was collected is applied with it if it says
    `commit=True`, and discarded otherwise.
    """
    service = world.service()

    answer = service.sends(transfer(), ends=Final(status, {"said": "so"}, commit=keeps))
    replay = service.send(POST)

    assert answer["statusCode"] == replay["statusCode"] == status
    assert is_replay(replay)
    assert world.record.status is Status.COMPLETED
    assert (world.balance, len(world.messages)) == ((5, 1) if keeps else (0, 0))


@pytest.mark.parametrize(
    "ends", [{"statusCode": 500, "body": "down"}, ValueError("it failed")], ids=["500", "raised"]
)
@pytest.mark.parametrize(
    "options", [{"store_when": "begun"}, {"preset": STRIPE}], ids=["begun", "stripe"]
)
def test_a_stored_failure_applies_nothing(world: World, options: dict[str, Any], ends: Any) -> None:
    """Where any answer is stored once the handler has begun, a 500 is stored and replayed, and
    nothing is written with it.
    """
    service = world.service(**options)

    answer = service.sends(transfer(), ends=ends)
    replay = service.send(POST)

    assert answer["statusCode"] == replay["statusCode"] == 500
    assert is_replay(replay)
    assert world.record.status is Status.COMPLETED
    assert world.is_empty_of_effects()
    assert len(service.runs) == 1


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("place", [0, 1, 2, 3], ids=["put", "update", "delete", "check"])
def test_a_condition_that_fails_lets_nothing_be_applied(world: World, place: int) -> None:
    """Whichever of the writes has the condition that does not hold, the others, the message and the
    completion are not applied either.

    Red when the completion, the message or a write is not part of the one transaction.
    """
    given(world, "old", amount=1)
    conditions = ["attribute_exists(nothing)" if each == place else None for each in range(4)]
    never = "attribute_exists(id)"

    def collect(_service: Steps, op: Operation) -> None:
        to = op.transaction
        to.put(LEDGER, {"id": "new"}, condition=conditions[0])
        one = {":one": 1}
        to.update(LEDGER, {"id": "count"}, "ADD amount :one", values=one, condition=conditions[1])
        to.delete(LEDGER, {"id": "old"}, condition=conditions[2])
        to.check(LEDGER, {"id": "absent"}, never if place == 3 else f"NOT {never}")
        op.outbox.publish("payment.requested", {})

    with pytest.raises(ConditionFailed, match=f"item {place + 1}"):
        world.service().sends(collect)

    assert world.rows == {"old": {"id": "old", "amount": 1}}
    assert world.messages == []
    assert world.record.status is Status.FAILED_RETRYABLE


@pytest.mark.requirement("C2")
def test_a_stale_owner_applies_nothing(world: World) -> None:
    """An attempt whose lease ran out, and whose key another attempt has carried out since, gets
    that attempt's answer; of its own writes and messages nothing is applied.

    Red when the record's condition is no part of the transaction.
    """
    service = world.service()
    other = service.another_sandbox(ahead_ms=60_000)

    answer = service.sends(
        transfer(100),
        meanwhile(other, transfer(5), ends={"statusCode": 202, "body": "the other's"}),
    )

    assert (answer["statusCode"], answer["body"]) == (202, "the other's")
    assert (world.balance, len(world.messages)) == (5, 1)
    assert world.record.attempt == 2


def test_every_kind_of_write_is_carried_out(world: World) -> None:
    """Put, update, delete and check, with conditions as text and as boto3's `Attr`, and with names
    and values of the author's beside them.
    """
    given(world, "open", amount=1)
    given(world, "closed", amount=2)

    def collect(_service: Steps, op: Operation) -> None:
        to = op.transaction
        details = {"tags": {"a", "b"}, "raw": b"\x00\xff", "price": Decimal("1.50"), "none": None}
        to.put(LEDGER, {"id": "new", **details}, condition=Attr("id").not_exists())
        to.update(
            LEDGER,
            {"id": "open"},
            "SET #amount = #amount + :more",
            condition=Attr("amount").between(1, 2) & Attr("id").exists(),
            names={"#amount": "amount"},
            values={":more": 10},
        )
        to.delete(LEDGER, {"id": "closed"}, condition="amount = :two", values={":two": 2})
        to.check(LEDGER, {"id": "absent"}, Attr("id").not_exists())

    assert world.service().sends(collect)["statusCode"] == 201
    assert world.rows == {
        "new": {
            "id": "new",
            "tags": {"a", "b"},
            "raw": world.rows["new"]["raw"],
            "price": Decimal("1.50"),
            "none": None,
        },
        "open": {"id": "open", "amount": 11},
    }
    assert bytes(world.rows["new"]["raw"]) == b"\x00\xff"


def test_what_is_collected_is_what_it_was_then(world: World) -> None:
    """Objects that the handler changes after it has handed them over change nothing."""

    def collect(_service: Steps, op: Operation) -> None:
        item, payload = {"id": "row", "lines": [1]}, {"lines": [1]}
        op.transaction.put(LEDGER, item)
        op.outbox.publish("payment.requested", payload)
        for changed in (item, payload):
            changed["lines"].append(2)  # type: ignore[attr-defined]  # it is a list
            changed["more"] = True  # type: ignore[assignment]  # whatever it is

    world.service().sends(collect)

    assert world.rows["row"] == {"id": "row", "lines": [1]}
    assert world.messages[0]["payload"] == '{"lines":[1]}'


def test_what_is_discarded_is_not_applied(world: World) -> None:
    """`op.discard` forgets what was collected since the last commit, writes and messages, and the
    run goes on.
    """
    service = world.service()

    service.sends(
        put("kept"),
        lambda _service, op: op.commit("one"),
        transfer(),
        lambda _service, op: op.discard(),
        put("after"),
    )

    assert sorted(world.rows) == ["after", "kept"]
    assert world.messages == []


@pytest.mark.requirement("E8")
@pytest.mark.parametrize("is_deleted", [True, False])
def test_rows_that_refer_to_a_record_survive_its_expiry(world: World, is_deleted: bool) -> None:
    """After the retention the same key is a new operation, whether DynamoDB has deleted the record
    or not; the rows and messages of the old one are as they were, and those of the new one stand
    beside them, because both are named by their operation and not by the key.

    Red when a row has the record's expiry, or when the next life has the operation id of the last.
    """
    service = world.service(retention=timedelta(days=1))

    service.sends(transfer())
    old = world.record.operation_id
    row = world.rows[old]
    service.clock.advance(DAY_MS + 1000)
    if is_deleted:
        for item in items(world.client):
            world.client.delete_item(TableName=TABLE, Key={"pk": item["pk"]})
    service.sends(transfer())

    new = world.record.operation_id
    assert new != old
    assert world.rows[old] == row == {"id": old, "amount": 5}
    assert world.rows[new] == {"id": new, "amount": 5}
    assert {message["operation_id"] for message in world.messages} == {old, new}
    assert world.balance == 10


def test_an_answer_that_cannot_be_stored_is_committed_all_the_same(world: World) -> None:
    """The work is done and its writes are applied; the author's mistake is raised, and a repeat is
    told that the answer is not available.
    """
    service = world.service()

    with pytest.raises(TypeError):
        service.sends(transfer(), ends={"statusCode": 201, "body": object()})

    assert (world.balance, len(world.messages)) == (5, 1)
    assert problem_of(service.send(POST))[1] == "answer-unavailable"
    assert len(service.runs) == 1


def test_a_function_applies_what_it_collects_with_its_result(world: World) -> None:
    """A function of recorded effects writes when it returns, once over its repeats, and nothing
    when it raises.
    """
    runs: list[int] = []

    @idempotent_function(
        operation="book",
        key=lambda order: order["id"],
        tenant=single_tenant(),
        effects="recorded",
        store=world.store(),
        clock=ManualClock(),
    )
    def book(order: dict[str, Any]) -> int:
        runs.append(order["amount"])
        op = current_operation()
        op.transaction.put(LEDGER, {"id": op.operation_id, "run": len(runs)})
        op.outbox.publish("booked", order)
        if len(runs) == 1:
            raise ValueError("it failed")
        return runs[-1] * 2

    order = {"id": "order-1", "amount": 21}
    with pytest.raises(ValueError, match="it failed"):
        book(order)
    assert world.is_empty_of_effects()
    assert [book(order), book(order)] == [42, 42]

    (row,) = world.rows.values()
    assert (row["run"], len(world.messages), len(runs)) == (2, 1, 2)
