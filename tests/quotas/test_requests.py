"""What a quota asks of DynamoDB, and what becomes of requests when DynamoDB does not do it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncekey import Quota, single_tenant
from oncekey.effects.outbox import LARGEST_INLINE_PAYLOAD_BYTES
from tests.support.async_world import Accepting
from tests.support.dynamodb import TABLE, deny, items
from tests.support.events import with_body
from tests.support.protected import is_replay, problem_of
from tests.support.quotas import LEFT_OF_THE_MINUTE_S, Metered, request, retry_after_s
from tests.support.recorded import Refusals, World, cancelled, transfer
from tests.support.steps import POST, Steps

LOOK, RESERVE, COUNTED, COMPLETE = "GetItem", "PutItem", "TransactWriteItems", "UpdateItem"
EXCEEDED = (429, "quota-exceeded", True)
DOWN = (503, "store-unavailable", True)


def counters(world: World) -> list[int]:
    """What the counters in the table stand at."""
    found = [item for item in items(world.client) if item["pk"]["S"].startswith("quota#")]
    return sorted(int(item["count"]["N"]) for item in found)


def records(world: World) -> list[dict[str, Any]]:
    """The records in the table."""
    return [item for item in items(world.client) if "status" in item]


@pytest.mark.requirement("C2")
def test_a_new_key_under_a_quota_costs_one_read_and_one_transaction(world: World) -> None:
    """A look, the reserve with its counts, the completion; a repeat is the look alone.

    Red when a repeat enters a transaction, or a count is a request of its own.
    """
    service = Metered(store=world.store(), new_keys=1, active_keys=5)

    service.ask("a")
    first = world.transactions()
    assert world.take_sent() == [LOOK, COUNTED, COMPLETE]
    assert is_replay(service.ask("a"))
    assert world.take_sent() == [LOOK]

    (transaction,) = first
    assert [next(iter(each)) for each in transaction["TransactItems"]] == [
        "Put",
        "Update",
        "Update",
    ]
    assert {next(iter(each.values()))["TableName"] for each in transaction["TransactItems"]} == {
        TABLE
    }


def test_a_full_counter_is_asked_once_by_a_sandbox(world: World) -> None:
    """Of a tenant over its quota, each further new key costs one read."""
    service = Metered(store=world.store(), new_keys=1)
    service.ask("a")
    world.take_sent()

    assert service.statuses("b", "c", "d") == [429] * 3
    assert world.take_sent() == [LOOK, COUNTED, LOOK, LOOK]


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("options", [{}, {"quota": Quota(lookups=100)}], ids=["none", "look-ups"])
def test_without_a_quota_of_keys_the_requests_are_as_ever(
    world: World, options: dict[str, Any]
) -> None:
    """No quota, or one of look-ups alone, sends nothing that was not sent before it.

    Red when a read or a transaction is made for a quota that counts no keys.
    """
    service = world.service(**options)

    service.sends()
    assert world.take_sent() == [RESERVE, COMPLETE]
    assert is_replay(service.send(POST))
    assert world.take_sent() == [RESERVE]


@pytest.mark.requirement("C15")
def test_a_count_whose_answer_is_lost_counts_once(world: World) -> None:
    """The transaction is applied, its answer is lost, and it is sent again: the handler runs, once,
    and one key is counted.

    Red when the second sending counts, or its refusal is taken for another's.
    """
    service = Metered(store=world.store(), new_keys=2, active_keys=2)
    world.transport.lose(COUNTED)

    assert service.statuses("a") == [201]
    assert counters(world) == [1, 1]
    assert len(service.runs) == 1


@pytest.mark.requirement("C15")
@pytest.mark.parametrize("call", [LOOK, COUNTED])
def test_where_nothing_can_be_counted_nothing_runs(world: World, call: str) -> None:
    """A store that does not answer, or does not permit it, is a 503; nothing is reserved.

    Red when a key is admitted that could not be counted.
    """
    service = Metered(store=world.store(), new_keys=2)

    world.transport.refuse(call, 10)
    assert problem_of(service.ask("a")) == DOWN
    world.calm()
    deny(world.client, call)
    assert problem_of(service.ask("b")) == DOWN

    assert service.runs == []
    assert records(world) == []
    assert counters(world) == []


@pytest.mark.requirement("C15")
def test_a_counter_that_is_no_counter_fails_closed(world: World) -> None:
    """What cannot be read admits nobody, and a key that exists is replayed all the same.

    Red when a counter without a count is taken for an empty one.
    """
    service = Metered(store=world.store(), new_keys=1)
    service.ask("a")
    (counter,) = [item for item in items(world.client) if item["pk"]["S"].startswith("quota#")]
    world.client.put_item(TableName=TABLE, Item={"pk": counter["pk"], "count": {"S": "many"}})

    assert problem_of(service.ask("b")) == DOWN
    assert is_replay(service.ask("a"))


CONFLICT = cancelled("None", "TransactionConflict")


@pytest.mark.requirement("C15")
def test_a_burst_of_new_keys_waits_for_its_turn_at_the_counter(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A counter that others are writing is tried again, up to eight times; then the caller is told
    to come back, the log says why, and no other tenant is refused for it.

    Red when a conflict counts as a failure of the store, or opens the breaker.
    """
    service = Metered(store=world.store(), new_keys=100)
    refusals = Refusals(world)

    refusals.then(CONFLICT, times=7)
    assert service.statuses("a") == [201]
    world.take_sent()

    refusals.always(CONFLICT)
    for _ in range(4):
        contended = service.ask("b")
        assert problem_of(contended) == DOWN
        assert retry_after_s(contended) == 1
    assert world.take_sent() == [LOOK, *[COUNTED] * 8] * 4
    assert caplog.text.count("quota-contended") == 4
    refusals.then()
    assert service.statuses("a", tenant="other") == [201]
    assert service.statuses("b") == [201]


def test_a_burst_does_not_outlive_its_invocation(world: World) -> None:
    """Where there is no time left, nothing is tried again."""
    service = Metered(store=world.store(), new_keys=100, timeout_ms=400)
    Refusals(world).always(CONFLICT)

    assert problem_of(service.ask("a")) == DOWN
    assert len(world.take_sent()) < 6


def test_a_key_that_another_request_is_reserving_is_in_progress(world: World) -> None:
    """A conflict at the record itself is a first request at work, not the tenant's burst."""
    service = Metered(store=world.store(), new_keys=100)
    Refusals(world).always(cancelled("TransactionConflict", "TransactionConflict"))

    assert problem_of(service.ask("a"))[1] == "request-in-progress"


@pytest.mark.requirement("C15")
@pytest.mark.parametrize("dies", [False, True])
def test_recorded_effects_work_under_a_quota(world: World, dies: bool) -> None:
    """A recorded handler commits its writes under a key that is counted, and resumes uncounted.

    Red when the reserve and the commit share a client token, or a resumed attempt counts.
    """
    service: Steps = world.service(quota=Quota(new_keys=1), tenant=single_tenant())

    if dies:
        world.dies(service, transfer())
    assert service.sends(transfer())["statusCode"] == 201

    assert world.balance == 5
    assert counters(world) == [1]
    tokens = [each["ClientRequestToken"] for each in world.transactions()]
    assert len(tokens) == 2
    assert len(set(tokens)) == 2


@pytest.mark.requirement("C15")
def test_an_accepted_request_is_counted_with_its_message(world: World) -> None:
    """Record, message, pointer and counts are one transaction; over the quota nothing is accepted,
    the worker counts nothing, and a repeat gets its 202.

    Red when a message is published for a key that is not admitted.
    """
    service = Accepting(store=world.store(), quota=Quota(new_keys=1, lookups=1))

    assert service.send(request("a"))["statusCode"] == 202
    (accepted,) = world.transactions()
    assert len(accepted["TransactItems"]) == 4
    refused = service.send(request("b"))
    assert problem_of(refused) == EXCEEDED
    assert retry_after_s(refused) == LEFT_OF_THE_MINUTE_S
    assert service.send(request("a"))["statusCode"] == 202
    assert problem_of(service.send(request("a"))) == EXCEEDED

    assert (len(world.messages), counters(world)) == (1, [1])


def test_a_large_request_over_the_quota_is_not_kept() -> None:
    """What is not accepted leaves no payload in the bucket, once the sandbox knows of its limit."""
    service = Accepting(quota=Quota(new_keys=1))
    large = "x" * LARGEST_INLINE_PAYLOAD_BYTES

    def ask(key: str) -> int:
        status: int = service.send(with_body(request(key), large))["statusCode"]
        return status

    assert [ask(key) for key in "abcde"] == [202] + [429] * 4
    payloads = [name for name in service.store.blobs if not name.startswith("op#")]
    assert len(payloads) == 2


def test_a_worker_is_under_no_quota() -> None:
    """What was accepted is carried out, however often its message comes."""
    service = Accepting(quota=Quota(new_keys=1, active_keys=1, lookups=1))
    service.send(request("a"))

    assert [service.work() for _ in range(4)] == ["done"] * 4
    assert service.send(request("a"))["statusCode"] == 201
    assert json.loads(service.send(request("a"))["body"])["status"] == 429
