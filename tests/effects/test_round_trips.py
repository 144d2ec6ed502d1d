"""What a recorded operation sends, request by request, under a key and where it runs bare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey import (
    ConditionFailed,
    Final,
    NotExecuted,
    idempotent,
    single_tenant,
)
from oncekey.record.record import Status
from tests.support.dynamodb import TABLE, items, write_units
from tests.support.events import Event, with_key, with_route
from tests.support.protected import is_replay
from tests.support.recorded import (
    LEDGER,
    OUTBOX,
    World,
    check,
    point,
    publish,
    put,
    transfer,
)
from tests.support.steps import BESIDE, CREATED, FAILED, IN_THE_BUCKET, POST, Steps, caught, step

if TYPE_CHECKING:
    from oncekey import Operation

# Answers that no record has room for, and no item.
LARGE = {"statusCode": 201, "body": BESIDE.hex()}
TOO_LARGE = {"statusCode": 201, "body": IN_THE_BUCKET.hex()}
RESERVE, COMMIT = "PutItem", "TransactWriteItems"


@pytest.mark.requirement("C2")
def test_a_first_call_is_two_requests_and_a_replay_one(world: World) -> None:
    """A reserve, and one transaction with the writes, the message and the completion; a replay is
    the reserve that is refused.

    Red when anything is written or read apart from these two requests, as by a companion, a message
    or a completion of its own.
    """
    service = world.service()

    service.sends(transfer())
    first = world.take_sent()
    replay = service.send(POST)

    assert first == [RESERVE, COMMIT]
    assert is_replay(replay)
    assert world.take_sent() == [RESERVE]


def test_the_record_stands_first_and_its_condition_is_mandatory(world: World) -> None:
    """The first action is the record's own update, fenced by owner and state; then come the
    author's in the order of collection, then the messages; each message is put under an id that
    is new.
    """
    service = world.service()

    service.sends(put("b"), put("a"), publish("one"), publish("two"), put("c"))

    (parameters,) = world.transactions()
    fence, *rest = parameters["TransactItems"]
    update = fence["Update"]
    assert update["TableName"] == TABLE
    assert update["Key"] == {"pk": {"S": world.record.pk}}
    assert "#owner = :owner" in update["ConditionExpression"]
    assert "#status IN (:in_progress, :unknown)" in update["ConditionExpression"]
    assert "#steps.#started" in update["ConditionExpression"]
    assert update["ExpressionAttributeValues"][":owner"] == {"S": world.record.owner}
    puts = [each["Put"] for each in rest]
    assert [each["TableName"] for each in puts] == [LEDGER] * 3 + [OUTBOX] * 2
    assert [each["Item"]["id"]["S"] for each in puts[:3]] == ["b", "a", "c"]
    assert [each["Item"]["topic"]["S"] for each in puts[3:]] == ["one", "two"]
    assert {each["ConditionExpression"] for each in puts[3:]} == {"attribute_not_exists(#id)"}


@pytest.mark.parametrize("has_write", [True, False])
def test_a_large_answer_is_kept_by_the_transaction_itself(world: World, has_write: bool) -> None:
    """Its companion costs no request more, whether there is a business write or not; a replay
    fetches it with one more, and a refused duplicate is still billed one unit.
    """
    service = world.service()
    actions = [transfer()] if has_write else []

    first = service.sends(*actions, ends=LARGE)
    (transaction,) = world.transactions()
    sent = world.take_sent()
    replay = service.send(POST)

    assert sent == [RESERVE, COMMIT]
    assert len(transaction["TransactItems"]) == (5 if has_write else 2)
    assert world.take_sent() == [RESERVE, "GetItem"]
    assert replay["body"] == first["body"] == LARGE["body"]
    (record,) = [item for item in items(world.client) if "status" in item]
    assert write_units(record) == 1
    companion = world.client.get_item(
        TableName=TABLE, Key={"pk": {"S": f"{record['pk']['S']}#{record['owner']['S']}"}}
    )["Item"]
    assert int(companion["expires_at"]["N"]) > int(record["expires_at"]["N"])


def test_an_answer_beyond_an_item_is_kept_in_the_bucket_first(world: World) -> None:
    """The object is there before the transaction which says where."""
    service = world.service()

    service.sends(transfer(), ends=TOO_LARGE)

    assert world.take_sent() == [RESERVE, "PutObject", COMMIT]
    assert service.send(POST)["body"] == TOO_LARGE["body"]
    assert world.take_sent() == [RESERVE, "GetObject"]


def test_a_large_answer_that_does_not_fit_beside_the_writes_is_kept_before(world: World) -> None:
    """Where writes take up the 4 MB of a transaction, the companion is a request of its own."""
    service = world.service()
    filler = {"filler": b"x" * 399_000}

    service.sends(*[put(f"row-{number}", **filler) for number in range(10)], ends=LARGE)
    assert world.take_sent() == [RESERVE, COMMIT]
    service = world.service(operation="POST /others", clock=service.clock)
    rows = [put(f"row-{number}", **filler) for number in range(10)]
    service.sends(*rows, put("row-10", filler=b"x" * 190_000), ends=LARGE)

    assert world.take_sent() == [RESERVE, "PutItem", COMMIT]
    assert service.send(POST)["body"] == LARGE["body"]


COSTS: dict[str, tuple[list[Any], list[str]]] = {
    "nothing collected": ([], [RESERVE, "UpdateItem"]),
    "a write": ([put("a")], [RESERVE, COMMIT]),
    "a message": ([publish()], [RESERVE, COMMIT]),
    "a commit, then a write": ([put("a"), point("one"), put("b")], [RESERVE, COMMIT, COMMIT]),
    "a commit, then nothing": ([transfer(), point("one")], [RESERVE, COMMIT, "UpdateItem"]),
    "two commits": (
        [put("a"), point("one"), put("b"), point("two"), put("c")],
        [RESERVE, COMMIT, COMMIT, COMMIT],
    ),
    "a commit of nothing": ([point("one"), put("b")], [RESERVE, "UpdateItem", COMMIT]),
    "an idempotent step": (
        [step("hold", is_idempotent=True), transfer()],
        [RESERVE, "UpdateItem", COMMIT],
    ),
    "another step": ([step("charge"), transfer()], [RESERVE, "UpdateItem", "UpdateItem", COMMIT]),
}


@pytest.mark.parametrize(("actions", "requests"), COSTS.values(), ids=COSTS)
def test_what_each_effect_adds(world: World, actions: list[Any], requests: list[str]) -> None:
    """A commit adds one request, which is a plain write where nothing was collected: half the
    price of a transaction of one; so does the completion.
    """
    service = world.service()

    answer = service.sends(*actions)

    assert answer["statusCode"] == 201
    assert world.take_sent() == requests
    assert is_replay(service.send(POST))
    assert world.take_sent() == [RESERVE]


def test_an_attempt_that_ends_otherwise_sends_no_transaction(world: World) -> None:
    """What is discarded is never sent: one write says that the key may run again, and the resumed
    attempt costs one request more.
    """
    service = world.service()

    service.sends(transfer(), ends=FAILED)
    assert world.take_sent() == [RESERVE, "UpdateItem"]
    service.sends(transfer())

    assert world.take_sent() == [RESERVE, "UpdateItem", COMMIT]
    assert world.record.status is Status.COMPLETED


def test_results_of_steps_beside_the_record_expire_with_it(world: World) -> None:
    """What is kept of a large result has no expiry until the operation completes; the transaction
    that completes it, and applies the writes, says when it may go, at no request more.
    """
    service = world.service()
    seen: list[Any] = []

    def look(_service: Steps, _op: object) -> None:
        seen.extend(item for item in items(world.client) if "status" not in item)

    service.sends(step("fetch", BESIDE, is_idempotent=True), look, transfer())

    requests = [name for name in world.take_sent() if name != "Scan"]
    assert requests == [RESERVE, "PutItem", "UpdateItem", COMMIT]
    assert "expires_at" not in seen[0]
    (result,) = [item for item in items(world.client) if "status" not in item]
    assert int(result["expires_at"]["N"]) == world.record.expires_at_s + 24 * 3600  # type: ignore[operator]  # a completed record has one


NO_KEY = with_key(POST)
BARE: dict[str, tuple[dict[str, Any], Event]] = {
    "without a key": ({"required": False}, NO_KEY),
    "another method": ({}, with_route(NO_KEY, "GET", "/payments")),
}


@pytest.fixture(params=list(BARE.values()), ids=list(BARE))
def bare(request: pytest.FixtureRequest, world: World) -> tuple[Steps, Event]:
    """A service, and an event that it carries out without a record."""
    options, event = request.param
    return world.service(**options), event


def test_a_bare_run_applies_what_it_collects_in_one_request(
    world: World, bare: tuple[Steps, Event]
) -> None:
    """Without a record its writes and messages are still applied all at once when it answers, and
    what a commit applies is applied then; the answer is the handler's as it is.
    """
    service, event = bare

    service.handles(transfer(), step("charge", "c-1"), point("made"), put("later"), publish())
    answer = service.send(event)

    assert answer == CREATED
    assert world.take_sent() == [COMMIT, COMMIT]
    assert (world.balance, len(world.rows), len(world.messages)) == (5, 3, 2)
    assert len({message["id"] for message in world.messages}) == 2
    assert service.given[1] == "c-1"
    assert not service.runs[0].protected
    assert [item for item in items(world.client) if "status" in item] == []


BARE_ENDS: dict[str, tuple[Any, int | None, bool]] = {
    "404": ({"statusCode": 404, "body": ""}, 404, True),
    "500": ({"statusCode": 500, "body": ""}, 500, False),
    "429": ({"statusCode": 429, "body": ""}, 429, False),
    "ValueError": (ValueError("it failed"), None, False),
    "NotExecuted": (NotExecuted("refused"), 503, False),
    "Final": (Final(201), 201, False),
    "Final that commits": (Final(409, commit=True), 409, True),
}


@pytest.mark.parametrize(("ends", "status", "commits"), BARE_ENDS.values(), ids=BARE_ENDS)
def test_a_bare_run_applies_nothing_where_a_protected_one_would_not(
    world: World, bare: tuple[Steps, Event], ends: Any, status: int | None, commits: bool
) -> None:
    """What is collected is applied with a final answer, discarded with another one or an exception,
    and with `Final` as that says; nothing is sent where nothing is applied.
    """
    service, event = bare
    service.handles(transfer(), ends=ends)

    if status is None:
        with pytest.raises(ValueError, match="it failed"):
            service.send(event)
    else:
        assert service.send(event)["statusCode"] == status

    assert world.take_sent() == ([COMMIT] if commits else [])
    assert (world.balance, len(world.messages)) == ((5, 1) if commits else (0, 0))


def test_a_bare_run_is_told_of_its_conditions(world: World, bare: tuple[Steps, Event]) -> None:
    """A condition that does not hold lets nothing be applied: it is answered by its `otherwise`, or
    raised to the handler's caller; `op.commit` raises it to the handler.
    """
    service, event = bare
    service.handles(transfer(), check(otherwise=Final(409, "closed")))
    assert (service.send(event)["statusCode"], world.is_empty_of_effects()) == (409, True)

    service.handles(transfer(), check())
    with pytest.raises(ConditionFailed, match="item 3"):
        service.send(event)
    assert world.is_empty_of_effects()

    service.handles(transfer(), check(), caught(point("made")), put("after"))
    assert service.send(event) == CREATED
    assert isinstance(service.given[-2], ConditionFailed)
    assert list(world.rows) == ["after"]


def test_a_bare_run_that_applies_nothing_needs_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a unit test of a handler there is neither a store nor a Region."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    @idempotent(operation="POST /payments", tenant=single_tenant(), effects="recorded")
    def handler(_event: Any, _context: object, op: Operation) -> dict[str, Any]:
        op.transaction.put(LEDGER, {"id": op.operation_id})
        raise Final(402, op.downstream_key("charge"))

    assert handler(POST, None)["statusCode"] == 402
