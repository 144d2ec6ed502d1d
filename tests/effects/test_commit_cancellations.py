"""What a cancelled or refused transaction means, and what its caller is told."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import STRIPE, ConditionFailed, Final, TransactionInvalid
from oncekey.engine.store_state import state_of
from oncekey.record.record import Status
from tests.support.dynamodb import deny, items
from tests.support.protected import headers_of, is_replay, problem_of
from tests.support.recorded import (
    LEDGER,
    Refusals,
    World,
    cancelled,
    check,
    error,
    point,
    publish,
    put,
    transfer,
)
from tests.support.steps import CREATED, POST, Action, Steps, caught

if TYPE_CHECKING:
    from oncekey import Operation

COMMIT, RESERVE = "TransactWriteItems", "PutItem"
FAILED_CONDITION = "ConditionalCheckFailed"


# What says that others are at the same items, or that there is more to do than DynamoDB takes.
CONTENTION: dict[str, dict[str, Any]] = {
    "the record is in another transaction": cancelled("TransactionConflict", "None", "None"),
    "a row is in another transaction": cancelled("None", "TransactionConflict", "None"),
    "a row is throttled": cancelled("None", "ThrottlingError", "None"),
    "a table has too little capacity": cancelled("None", "ProvisionedThroughputExceeded", "None"),
    "our first sending is at work": error("TransactionInProgressException"),
    "the request meets a transaction": error("TransactionConflictException"),
    "the request is throttled": error("ThrottlingException"),
    "the table has too little capacity": error("ProvisionedThroughputExceededException"),
}


@pytest.mark.case(42)
@pytest.mark.parametrize("refusal", CONTENTION.values(), ids=CONTENTION)
@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_contention_is_waited_out(world: World, is_final: bool, refusal: dict[str, Any]) -> None:
    """A transaction that is refused because of others, or because its own first sending is still at
    work, is sent again unchanged and applied once.

    Red when one of these reasons is taken for a refusal for good, or for the author's condition.
    """
    service, refusals = world.service(), Refusals(world)
    refusals.then(refusal, times=3)

    answer = service.sends(transfer(), *([] if is_final else [point("made")]))

    assert answer["statusCode"] == 201
    sent = world.transactions()
    assert len(sent) == 4
    assert all(each == sent[0] for each in sent)
    assert (world.balance, len(world.messages)) == (5, 1)


@pytest.mark.parametrize("refusal", CONTENTION.values(), ids=CONTENTION)
@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_contention_without_end_is_answered_as_in_progress(
    world: World, is_final: bool, refusal: dict[str, Any]
) -> None:
    """Where it lasts until the deadline, the caller is told to come back with the same key, and not
    that the store is unavailable; nothing was applied, and the breaker does not open.
    """
    service, refusals = world.service(), Refusals(world)
    actions = [transfer(), *([] if is_final else [point("made")])]

    for _ in range(4):
        refusals.always(refusal)
        answer = service.sends(*actions)
        assert problem_of(answer) == (409, "request-in-progress", True)
        assert int(headers_of(answer)["retry-after"]) >= 1
        assert world.is_empty_of_effects()
    refusals.then()

    assert state_of(service.store).breaker.refuses_for_ms(service.clock.now_ms()) == 0
    assert service.sends(*actions)["statusCode"] == 201
    assert (world.balance, len(world.messages)) == (5, 1)


@pytest.mark.parametrize("code", ["TransactionConflictException", "TransactionInProgressException"])
def test_a_reserve_that_meets_a_transaction_is_in_progress(world: World, code: str) -> None:
    """A transaction holds the record because somebody is completing it: the caller is told to come
    back, the handler does not run, and the breaker does not open.
    """
    service = world.service()
    refusals = Refusals(world, RESERVE)

    for _ in range(4):
        refusals.always(error(code))
        answer = service.sends(transfer())
        assert problem_of(answer) == (409, "request-in-progress", True)
        assert int(headers_of(answer)["retry-after"]) >= 1
    refusals.then()

    assert service.runs == []
    assert service.sends(transfer())["statusCode"] == 201


def test_a_reserve_that_is_throttled_is_not_in_progress(world: World) -> None:
    """Throttled until it is given up, a reserve says nothing of another request: the store is not
    available, and nothing ran.
    """
    service = world.service()
    Refusals(world, RESERVE).always(error("ThrottlingException"))

    assert problem_of(service.sends(transfer())) == (503, "store-unavailable", True)
    assert service.runs == []


def met(world: World, **changes: Any) -> dict[str, Any]:
    """The reason of a record's own condition that failed on the record as it is, but for these."""
    item = next(item for item in items(world.client) if "status" in item)
    return {"Code": FAILED_CONDITION, "Item": {**item, **changes}}


def refuses_with(refusals: Refusals, world: World, *others: Any, **changes: Any) -> Action:
    """From now on, the next transaction is cancelled so."""
    return lambda _service, _op: refusals.then(cancelled(met(world, **changes), *others))


OTHER_REASONS = {
    "nothing else": ["None", "None"],
    "a condition of the author's": ["None", FAILED_CONDITION],
    "a conflict": ["TransactionConflict", "None"],
    "throttling": ["None", "ThrottlingError"],
    "a fault of the author's": ["ValidationError", "None"],
}


@pytest.mark.parametrize("others", OTHER_REASONS.values(), ids=OTHER_REASONS)
def test_the_records_own_reason_counts_first_when_it_is_anothers(
    world: World, others: list[Any]
) -> None:
    """Cancelled because the record is another's, a transaction is not sent again, whatever else was
    wrong with it, and the answer is what that record says.
    """
    service, refusals = world.service(), Refusals(world)
    changes = {"owner": {"S": "another"}, "lease_until": {"N": "99999999999999"}}

    answer = service.sends(
        put("a"), check(otherwise=Final(400)), refuses_with(refusals, world, *others, **changes)
    )

    assert problem_of(answer) == (409, "request-in-progress", True)
    assert len(world.transactions()) == 1
    assert world.is_empty_of_effects()


@pytest.mark.parametrize("others", OTHER_REASONS.values(), ids=OTHER_REASONS)
def test_the_records_own_reason_counts_first_when_it_is_ours_already(
    world: World, others: list[Any]
) -> None:
    """Cancelled because its own first sending has completed the record, a transaction is confirmed,
    even if conditions failed on what that one wrote.
    """
    service, refusals = world.service(), Refusals(world)
    done = {
        "status": {"S": "COMPLETED"},
        "response": {"S": "{}"},
        "completed_at": {"N": "1700000000000"},
        "expires_at": {"N": "1800000000"},
    }

    answer = service.sends(
        put("a"), check(otherwise=Final(400)), refuses_with(refusals, world, *others, **done)
    )

    assert answer["statusCode"] == 201
    assert "idempotency-expires" in headers_of(answer)
    assert len(world.transactions()) == 1


def test_a_condition_that_failed_on_its_own_writes_is_no_failure(world: World) -> None:
    """Its answer lost, a commit is resent and DynamoDB reports only the author's condition, which
    its own writes have made false: the record, read once more, says that it was applied.
    """
    service, refusals = world.service(), Refusals(world)
    world.transport.lose(COMMIT, 1)
    refusals.then(None, cancelled("None", FAILED_CONDITION, "None"))

    answer = service.sends(
        lambda _service, op: op.transaction.put(
            LEDGER, {"id": "once"}, condition="attribute_not_exists(id)", otherwise=Final(409)
        ),
        publish(),
    )

    assert answer["statusCode"] == 201
    assert list(world.rows) == ["once"]
    assert is_replay(service.send(POST))
    requests = [name for name in world.take_sent() if name != "Scan"]
    assert requests == [RESERVE, COMMIT, COMMIT, "GetItem", RESERVE]


def test_a_failed_condition_of_a_commit_is_raised_to_be_mapped(world: World) -> None:
    """`op.commit` raises `ConditionFailed`, which says which writes and what they met; what the
    handler answers then is stored and replayed, and nothing of that commit is applied.
    """
    world.client.put_item(TableName=LEDGER, Item={"id": {"S": "seat"}, "by": {"S": "somebody"}})
    service = world.service()
    seen: list[ConditionFailed] = []

    def book(_service: Steps, op: Operation) -> None:
        transfer()(_service, op)
        op.transaction.put(LEDGER, {"id": "seat"}, condition="attribute_not_exists(id)")
        try:
            op.commit("booked")
        except ConditionFailed as failed:
            seen.append(failed)
            raise Final(409, {"taken": True}) from failed

    answer = service.sends(book)
    replay = service.send(POST)

    assert (answer["statusCode"], answer["body"]) == (409, replay["body"])
    assert is_replay(replay)
    (refused,) = seen[0].writes
    assert str(refused) == f"item 3 (put on {LEDGER})"
    assert refused.item == {"id": "seat", "by": "somebody"}
    assert str(refused) in str(seen[0])
    assert "somebody" not in f"{seen[0]} {seen[0]!r} {refused!r}"
    assert world.rows == {"seat": {"id": "seat", "by": "somebody"}}
    assert world.messages == []


def test_after_a_failed_condition_the_run_may_go_on(world: World) -> None:
    """What was collected for the failed commit is gone; the same recovery point may be committed
    with something else, and the operation completes.
    """
    service = world.service()

    answer = service.sends(
        put("a"), check(), caught(point("made"), ConditionFailed), put("b"), point("made"), put("c")
    )

    assert answer["statusCode"] == 201
    assert sorted(world.rows) == ["b", "c"]
    assert [each.name for each in world.record.steps.finished] == ["made"]


@pytest.mark.parametrize("status", [404, 409, 200, 503])
def test_otherwise_is_the_answer_to_a_condition_that_fails_at_the_end(
    world: World, status: int
) -> None:
    """The `otherwise` of the first write that failed is answered in place of the handler's answer,
    stored and replayed; nothing was applied.
    """
    service = world.service()
    other = Final(status, {"because": "it is closed"})

    answer = service.sends(
        transfer(), check("here"), check("there", otherwise=other), check("x", otherwise=Final(400))
    )
    replay = service.send(POST)

    assert (answer["statusCode"], answer["body"]) == (status, '{"because": "it is closed"}')
    assert is_replay(replay)
    assert (replay["statusCode"], replay["body"]) == (status, answer["body"])
    assert world.is_empty_of_effects()
    assert world.record.status is Status.COMPLETED
    assert len(service.runs) == 1


@pytest.mark.parametrize("options", [{}, {"preset": STRIPE}], ids=["ietf", "stripe"])
def test_a_failed_condition_without_otherwise_is_raised_and_the_key_is_free(
    world: World, options: dict[str, Any]
) -> None:
    """It reaches the caller of the handler; nothing was applied, and the same key runs again, even
    where failures are stored.
    """
    service = world.service(**options)

    with pytest.raises(ConditionFailed, match=r"item 3 \(check on"):
        service.sends(transfer(), check())

    assert world.is_empty_of_effects()
    assert world.record.status is Status.FAILED_RETRYABLE
    world.client.put_item(TableName=LEDGER, Item={"id": {"S": "account"}})
    assert service.sends(transfer(), check(), ends=CREATED)["statusCode"] == 201
    assert world.balance == 5


@pytest.mark.parametrize("is_final", [True, False], ids=["completion", "op.commit"])
def test_what_dynamodb_refuses_as_invalid_is_told_to_the_author(
    world: World, is_final: bool
) -> None:
    """A wrong expression is `TransactionInvalid` with DynamoDB's own words; it is not sent again,
    nothing was applied, and the key is free.
    """
    service = world.service()
    wrong: Action = lambda _service, op: op.transaction.update(LEDGER, {"id": "a"}, "FOO amount")  # noqa: E731

    with pytest.raises(TransactionInvalid, match='token: "FOO"'):
        service.sends(put("b"), wrong, *([] if is_final else [point("made")]))

    assert len(world.transactions()) == 1
    assert world.is_empty_of_effects()
    assert world.record.status is Status.FAILED_RETRYABLE
    assert service.sends(transfer())["statusCode"] == 201


def test_without_permission_nothing_is_committed_and_the_key_is_free(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A transaction that the function may not send is not sent again; the caller is told to come
    back, the log says why, and the breaker, which only time closes, stays closed.
    """
    service = world.service()
    deny(world.client, COMMIT)

    with caplog.at_level(logging.WARNING, "oncekey"):
        answers = [service.sends(transfer()) for _ in range(4)]

    assert {problem_of(answer) for answer in answers} == {(503, "store-unavailable", True)}
    assert len(service.runs) == 4
    assert len(world.transactions()) == 4
    assert "AccessDenied" in caplog.text
    assert world.record.status is Status.FAILED_RETRYABLE
