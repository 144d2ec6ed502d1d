"""What a recorded operation costs: the requests that are sent, counted, and the bytes in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from oncekey.record import Status
from tests.support.dynamodb import TABLE, items, write_units
from tests.support.protected import is_replay
from tests.support.recorded import (
    LEDGER,
    OUTBOX,
    World,
    point,
    publish,
    put,
    recorded_world,
    transfer,
)
from tests.support.steps import BESIDE, FAILED, IN_THE_BUCKET, POST, Steps, step

if TYPE_CHECKING:
    from collections.abc import Iterator

# Answers that no record has room for, and no item.
LARGE = {"statusCode": 201, "body": BESIDE.hex()}
TOO_LARGE = {"statusCode": 201, "body": IN_THE_BUCKET.hex()}
RESERVE, COMMIT = "PutItem", "TransactWriteItems"


@pytest.fixture
def world() -> Iterator[World]:
    """Tables of its own for each test."""
    with recorded_world() as made:
        yield made


@pytest.mark.requirement("C2")
def test_a_first_call_is_two_requests_and_a_replay_one(world: World) -> None:
    """A reserve, and one transaction with the writes, the message and the completion; a replay is
    the reserve that is refused.

    Red when anything is written or read apart from these two requests, as by a companion, a message
    or a completion of its own.
    """
    service = world.service()

    service.sends(transfer())
    first = world.sent
    replay = service.send(POST)

    assert first == [RESERVE, COMMIT]
    assert is_replay(replay)
    assert world.sent == [RESERVE]


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
    sent = world.sent
    replay = service.send(POST)

    assert sent == [RESERVE, COMMIT]
    assert len(transaction["TransactItems"]) == (5 if has_write else 2)
    assert world.sent == [RESERVE, "GetItem"]
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

    assert world.sent == [RESERVE, "PutObject", COMMIT]
    assert service.send(POST)["body"] == TOO_LARGE["body"]
    assert world.sent == [RESERVE, "GetObject"]


def test_a_large_answer_that_does_not_fit_beside_the_writes_is_kept_before(world: World) -> None:
    """Where writes take up the 4 MB of a transaction, the companion is a request of its own."""
    service = world.service()
    filler = {"filler": b"x" * 399_000}

    service.sends(*[put(f"row-{number}", **filler) for number in range(10)], ends=LARGE)
    assert world.sent == [RESERVE, COMMIT]
    service = world.service(operation="POST /others")
    rows = [put(f"row-{number}", **filler) for number in range(10)]
    service.sends(*rows, put("row-10", filler=b"x" * 190_000), ends=LARGE)

    assert world.sent == [RESERVE, "PutItem", COMMIT]
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
    assert world.sent == requests
    assert is_replay(service.send(POST))
    assert world.sent == [RESERVE]


def test_an_attempt_that_ends_otherwise_sends_no_transaction(world: World) -> None:
    """What is discarded is never sent: one write says that the key may run again, and the resumed
    attempt costs one request more.
    """
    service = world.service()

    service.sends(transfer(), ends=FAILED)
    assert world.sent == [RESERVE, "UpdateItem"]
    service.sends(transfer())

    assert world.sent == [RESERVE, "UpdateItem", COMMIT]
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

    requests = [name for name in world.sent if name != "Scan"]
    assert requests == [RESERVE, "PutItem", "UpdateItem", COMMIT]
    assert "expires_at" not in seen[0]
    (result,) = [item for item in items(world.client) if "status" not in item]
    assert int(result["expires_at"]["N"]) == world.record.expires_at_s + 24 * 3600  # type: ignore[operator]  # a completed record has one
