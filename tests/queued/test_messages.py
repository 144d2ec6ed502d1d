"""What an accepted request leaves in the tables, on its way to its worker, and what that costs."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from oncekey import jwt_claim
from oncekey.errors import EnvelopeUnreadable
from oncekey.queued.jobs import Jobs
from oncekey.record.record import Status
from tests.support.async_world import POST, TableAccepting, accepted
from tests.support.dynamodb import BUCKET
from tests.support.events import load, with_body, with_header, with_key, with_tenant
from tests.support.protected import answers, is_replay, problem_of, while_running
from tests.support.recorded import OUTBOX, Refusals, World, cancelled
from tests.support.steps import noise

ACCEPT, WRITE, READ = "TransactWriteItems", "UpdateItem", "GetItem"
PUT, KEEP, FETCH = "PutItem", "PutObject", "GetObject"
LARGE = with_body(POST, "x" * 300_000)


def test_record_message_and_pointer_are_one_transaction(world: World) -> None:
    """It has the reserve on its condition, the message, whose id is new, and the pointer."""
    service = TableAccepting(world, tenant=jwt_claim("tenant_id"))
    _, _, operation_id = accepted(service.send(with_tenant(POST, "acme")))

    (transaction,) = world.transactions()
    tables = [action["Put"]["TableName"] for action in transaction["TransactItems"]]
    keys = [action["Put"]["Item"] for action in transaction["TransactItems"]]
    assert sorted(tables) == ["idempotency-under-test", "idempotency-under-test", OUTBOX]
    assert (
        "attribute_not_exists(#pk)" in transaction["TransactItems"][0]["Put"]["ConditionExpression"]
    )
    assert {"S": f"op#{operation_id}"} in [item.get("pk") for item in keys]
    (message,) = world.messages
    assert set(message) == {
        *("id", "topic", "payload", "operation_id", "operation", "tenant", "created_at")
    }
    assert (message["topic"], message["tenant"]) == ("oncekey.job", "acme")
    assert message["operation_id"] == operation_id
    assert str(uuid.UUID(message["id"])) == message["id"]


@pytest.mark.parametrize("reason", ["ConditionalCheckFailed", "ValidationError"])
@pytest.mark.parametrize("action", [1, 2])
def test_what_cannot_be_written_whole_is_not_accepted(
    world: World, action: int, reason: str
) -> None:
    """Where the message or the pointer is refused the client gets 503 and nothing is there."""
    reasons = ["None", "None", "None"]
    reasons[action] = reason
    Refusals(world).always(cancelled(*reasons))
    service = TableAccepting(world)

    answer = service.send(POST)

    assert problem_of(answer)[:2] == (503, "store-unavailable")
    assert world.messages == []
    assert world.client.scan(TableName="idempotency-under-test")["Items"] == []


def test_nothing_that_proves_who_asked_is_in_any_table(world: World) -> None:
    """Not in the message, the record or the pointer; the claims are in the message, and by them the
    worker finds the record, under its tenant and principal.
    """
    service = TableAccepting(world, tenant=jwt_claim("tenant_id"), principal=jwt_claim("sub"))
    event = with_tenant(with_header(POST, "authorization", "Bearer secret-token"), "acme")
    event = with_header(with_header(event, "x-api-key", "secret-token"), "Cookie", "secret-token")
    event = {**event, "cookies": ["session=secret-token"]}
    service.send(event)

    for table in ("idempotency-under-test", OUTBOX):
        assert "secret-token" not in repr(world.client.scan(TableName=table)["Items"])
    claims = service.message.payload["event"]["requestContext"]["authorizer"]["jwt"]["claims"]
    assert claims["tenant_id"] == "acme"
    assert service.work() == "done"
    assert (service.runs[0].tenant, service.runs[0].principal) == ("acme", claims["sub"])


def test_a_credential_that_was_renewed_does_not_matter(world: World) -> None:
    """A retry with another token is the same request."""
    service = TableAccepting(world)
    first = accepted(service.send(with_header(POST, "authorization", "Bearer first")))

    assert accepted(service.send(with_header(POST, "authorization", "Bearer second"))) == first
    service.perform()
    assert is_replay(service.send(POST))


def test_a_large_event_goes_by_the_bucket(world: World) -> None:
    """The object is kept before the message says where; the worker gets it whole."""
    service = TableAccepting(world)
    seen: list[Any] = []

    def handler(event: Any, _op: object) -> dict[str, Any]:
        seen.append(event["body"])
        return {"statusCode": 201, "body": "made"}

    service.then = handler
    assert accepted(service.send(LARGE))[0] == "pending"

    assert world.take_sent() == [READ, KEEP, ACCEPT]
    (message,) = world.messages
    assert "payload" not in message
    assert service.work() == "done"
    assert seen == [LARGE["body"]]
    assert is_replay(service.send(LARGE))


def test_a_repeat_of_a_large_event_keeps_nothing_again(world: World) -> None:
    """It reads first, and finds the record: no object is written, nor a transaction sent."""
    service = TableAccepting(world)
    first = accepted(service.send(LARGE))
    world.take_sent()

    assert accepted(service.send(LARGE)) == first
    assert world.take_sent() == [READ]
    objects = world.bucket.list_objects_v2(Bucket=BUCKET)
    assert objects["KeyCount"] == 1


def test_a_large_event_that_is_accepted_again_is_kept_again(world: World) -> None:
    """Each acceptance has an object of its own: a lifecycle rule or a late worker of the first one
    cannot take the second one's.
    """
    service = TableAccepting(world, effects="repeatable")
    service.send(LARGE)
    service.then = answers(503)
    service.work()
    service.then = None
    service.clock.advance(1)
    accepted(service.send(LARGE))

    assert world.bucket.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 2
    assert service.messages[1].payload["event"]["body"] == LARGE["body"]
    assert [service.work(message) for message in service.messages] == ["done", "done"]
    assert len(service.runs) == 2


def test_without_a_bucket_a_large_event_is_refused(world: World) -> None:
    """It is a 400 `request-invalid`, and nothing is asked of the store; a smaller one is taken."""
    service = TableAccepting(world, has_bucket=False)

    assert problem_of(service.send(LARGE)) == (400, "request-invalid", False)
    assert world.take_sent() == []
    assert accepted(service.send(POST))[0] == "pending"


def test_a_large_event_is_not_accepted_while_the_bucket_is_down(world: World) -> None:
    """It is a 503, and no message points at nothing."""
    service = TableAccepting(world)
    world.transport.refuse(KEEP, 1000)

    assert problem_of(service.send(LARGE)) == (503, "store-unavailable", True)
    assert world.messages == []
    assert world.client.scan(TableName="idempotency-under-test")["Items"] == []


def test_a_payload_that_is_gone_is_not_carried_out(world: World) -> None:
    """The worker cannot read the message, and the record waits for its end."""
    service = TableAccepting(world)
    service.send(LARGE)
    (message,) = world.messages
    world.bucket.delete_object(Bucket=BUCKET, Key=message["payload_ref"]["name"])

    with pytest.raises(EnvelopeUnreadable, match="gone or damaged"):
        service.perform()
    assert (service.record.status, service.runs) == (Status.PENDING, [])


@pytest.mark.parametrize("size_bytes", [0, 190_000, 250_000])
@pytest.mark.parametrize("text", ["\ud800", "\udfff\ud800", "Zoë \U0001f600 \x00"])
def test_any_text_of_a_body_reaches_the_handler(world: World, text: str, size_bytes: int) -> None:
    """Lone surrogates, which no UTF-8 holds, survive table, bucket and queue, and a repeat is the
    same request.
    """
    service = TableAccepting(world)
    event = with_body(POST, text + "x" * size_bytes)
    seen: list[str] = []

    def handler(event: Any, _op: object) -> dict[str, Any]:
        seen.append(event["body"])
        return {"statusCode": 201, "body": "made"}

    service.then = handler
    service.send(event)
    for body in service.bodies:
        body.encode("utf-8")

    assert service.work() == "done"
    assert seen == [event["body"]]
    assert is_replay(service.send(event))


def test_a_binary_body_reaches_the_handler(world: World) -> None:
    """It stays base64, as it came."""
    service = TableAccepting(world)
    event = load("apigw_http_v2_base64_post")
    service.send(event)

    kept = service.message.payload["event"]

    assert (kept["isBase64Encoded"], kept["body"]) == (True, event["body"])
    assert service.work() == "done"


def test_what_each_part_costs(world: World) -> None:
    """Accepting is one transaction and a duplicate one; a worker reads, begins and completes; what
    is done with is one read; a status is two reads, and a third for an answer kept apart.
    """
    service = TableAccepting(world)
    service.send(POST)
    assert world.take_sent() == [ACCEPT]
    service.send(POST)
    assert world.take_sent() == [ACCEPT]
    message = service.message
    world.take_sent()
    service.perform(message)
    assert world.take_sent() == [READ, WRITE, WRITE]
    service.perform(message)
    assert world.take_sent() == [READ]
    assert is_replay(service.send(POST))
    assert world.take_sent() == [ACCEPT]
    service.ask(message.operation_id)
    assert world.take_sent() == [READ, READ]


def test_what_an_answer_kept_apart_costs(world: World) -> None:
    """An answer kept apart costs one call more where it is written and where its status is read."""
    service = TableAccepting(world)
    service.send(POST)
    service.then = lambda _event, _op: {"statusCode": 201, "body": noise(5_000).hex()}
    message = service.message
    world.take_sent()
    service.perform(message)
    assert world.take_sent() == [READ, WRITE, PUT, WRITE]
    service.ask(message.operation_id)
    assert world.take_sent() == [READ, READ, READ]


def test_what_accepting_again_and_ending_cost(world: World) -> None:
    """A retry of what failed is a refused reserve and one transaction more; what no worker ever
    began is ended by one write of its worker's, after the read.
    """
    service = TableAccepting(world, effects="repeatable")
    service.send(POST)
    service.then = answers(503)
    service.work()
    service.clock.advance(1)
    world.take_sent()
    service.send(POST)
    assert world.take_sent() == [ACCEPT, ACCEPT]
    known = {message.id for message in service.messages}
    service.send(with_key(POST, "another-key-of-16-letters"))
    (message,) = (each for each in service.messages if each.id not in known)
    service.clock.advance(3_600_000)
    world.take_sent()
    assert service.work(message) == "done"
    assert world.take_sent() == [READ, WRITE]


def test_a_sync_operation_pays_for_its_pointer_only_with_a_202(world: World) -> None:
    """With `in_progress="accepted"` each 202 is one write more, and nothing else is."""
    service = TableAccepting(world, mode="sync", in_progress="accepted")

    while_running(service, POST, lambda: service.send(POST))

    assert world.take_sent() == [PUT, PUT, PUT, WRITE]
    service.send(POST)
    assert world.take_sent() == [PUT]


def test_a_message_may_come_from_another_release_of_the_handler(world: World) -> None:
    """What is accepted by one sandbox is worked off by another, by the tables alone."""
    first = TableAccepting(world)
    first.send(POST)
    other = TableAccepting(world, effects="repeatable")
    for _ in range(1000):
        # Each clock counts the owners that it draws, and no two may draw the same.
        other.clock.new_owner()

    Jobs(other.handler).perform(other.message, other.context())

    assert (len(first.runs), len(other.runs)) == (0, 1)
    assert json.loads(first.send(POST)["body"]) == {"run": 1}
