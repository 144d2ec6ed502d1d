"""`mode="async"` for its clients: what is accepted, what repeats get, and how it ends."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from oncekey import (
    ConfigurationError,
    DynamoDBStore,
    idempotent,
    jwt_claim,
    single_tenant,
)
from oncekey.dynamodb_outbox import message_from_item
from oncekey.envelope import sealed
from oncekey.inbox import delivered
from oncekey.jobs import Jobs
from oncekey.powertools import idempotent_route
from oncekey.testing import MemoryStore
from tests.support.accepted import Accepted
from tests.support.dynamodb import TABLE, Recorder, dynamodb_table
from tests.support.events import with_body, with_header, with_key
from tests.support.protected import Protected, headers_of, is_replay, problem_of
from tests.support.steps import POST, FaultyStore


def body_of(answer: dict[str, Any]) -> dict[str, Any]:
    """The JSON body of an answer."""
    body: dict[str, Any] = json.loads(answer["body"])
    return body


@pytest.mark.requirement("A12")
def test_a_long_job_is_accepted_and_its_repeats_name_the_same_operation() -> None:
    """The first request and its repeats are told of one operation, which can be asked after.

    Red when a repeat makes an operation of its own, or the id leads to nothing.
    """
    service = Accepted()

    first, repeat = service.sends(), service.sends()

    operation_id = service.record.operation_id
    assert first["statusCode"] == repeat["statusCode"] == 202
    assert body_of(first) == body_of(repeat)
    assert body_of(first) == {
        "operation_id": operation_id,
        "status": "pending",
        "retry_after_s": 5,
    }
    assert headers_of(first)["location"] == f"/operations/{operation_id}"
    assert service.asks(operation_id)["statusCode"] == 200
    assert (len(service.messages), service.runs) == (1, [])


@pytest.mark.requirement("B2")
@pytest.mark.requirement("B3")
def test_each_state_has_its_answer() -> None:
    """Pending and processing are 202 with Retry-After; complete and failed answers are replayed;
    what has expired is accepted anew.

    Red when the running job is answered 409, or a state gets another one's answer.
    """
    service = Accepted()
    seen = [("pending", service.sends())]
    service.handles(lambda *_: seen.append(("processing", service.send(POST))))
    service.works()
    seen.append(("complete", service.send(POST)))

    for (name, answer), status in zip(seen, (202, 202, 201), strict=True):
        assert answer["statusCode"] == status, name
    assert body_of(seen[1][1])["status"] == "in_progress"
    assert all("retry-after" in headers_of(answer) for name, answer in seen[:2])
    assert is_replay(seen[2][1])
    service.clock.advance(24 * 3_600_000 + 1_000)
    assert service.sends()["statusCode"] == 202
    assert len(service.messages) == 2

    failed = Accepted()
    failed.sends()
    failed.handles(ends={"statusCode": 409, "body": "no"})
    failed.works()
    refused = failed.send(POST)
    assert (refused["statusCode"], refused["body"], is_replay(refused)) == (409, "no", True)


def test_another_body_under_the_key_is_refused_in_every_state() -> None:
    """A key that is in use for another request is 422, and nothing is published."""
    service = Accepted()
    service.sends()
    other = with_body(POST, '{"another": "request"}')

    pending = service.send(other)
    service.works()
    completed = service.send(other)

    assert problem_of(pending)[:2] == problem_of(completed)[:2] == (422, "key-reused")
    assert len(service.messages) == 1


def test_wait_gives_the_workers_answer_or_202() -> None:
    """`in_progress="wait"` waits for the worker's answer, and is 202 if there is none in time."""
    service = Accepted(in_progress="wait")
    assert service.sends()["statusCode"] == 202
    reads: list[int] = []

    class Working(FaultyStore):
        def read(self, pk: str) -> Any:
            reads.append(1)
            if len(reads) == 3:
                waited.works()
            return super().read(pk)

    waited = Accepted(in_progress="wait", store=Working())

    assert waited.sends()["statusCode"] == 201


@pytest.mark.requirement("B3")
def test_a_running_request_that_may_be_asked_after_is_found() -> None:
    """With `in_progress="accepted"` the Location of the 202 is served from that moment on.

    Red when the 202 is answered before the way to the operation is kept.
    """
    store = FaultyStore()
    service = Protected(store=store, in_progress="accepted", operation="POST /payments")
    asking = Accepted(store=store)
    seen: list[Any] = []

    other = with_key(POST, "another-key-of-16-letters")

    def repeat_other(*_: object) -> dict[str, Any]:
        seen.append(service.send(other))
        return {"statusCode": 200}

    def repeat(_event: object, op: Any) -> dict[str, Any]:
        seen.append(asking.asks(op.operation_id)["statusCode"])
        seen.append(service.send(POST))
        seen.append(asking.asks(op.operation_id)["statusCode"])
        store.refuse("keep", 9)
        service.then = repeat_other
        service.send(other)
        return {"statusCode": 201, "body": ""}

    service.then = repeat
    service.send(POST)

    assert (seen[0], seen[1]["statusCode"], seen[2]) == (404, 202, 200)
    # Told to ask where nothing is found, a client would take its request for lost.
    assert problem_of(seen[3])[:2] == (409, "request-in-progress")


def test_credentials_are_not_written_down() -> None:
    """The message has the event without what proves who its caller is, and with who it is."""
    event = with_header(POST, "authorization", "Bearer secret-1")
    event = with_header(event, "cookie", "session=secret-2")
    event = with_header(event, "x-api-key", "secret-3")
    event["cookies"] = ["session=secret-4"]
    event["requestContext"]["identity"] = {"apiKey": "secret-5", "apiKeyId": "key-id"}
    service = Accepted()

    service.send(event)

    payload = service.store.messages[0].payload
    assert "secret" not in payload
    kept = json.loads(payload)["event"]
    assert kept["requestContext"]["identity"] == {"apiKeyId": "key-id"}
    assert kept["body"] == event["body"]
    assert event["headers"]["authorization"] == "Bearer secret-1"


def test_large_events_go_by_the_bucket() -> None:
    """What no message holds is kept apart; without a bucket it is refused, and nothing is kept."""
    large = with_body(POST, json.dumps({"text": "x" * 300_000}))
    service = Accepted()

    assert [service.send(large)["statusCode"] for _ in range(2)] == [202, 202]
    (message,) = service.store.messages
    assert message.claim is not None
    assert service.store.asked.count("keep") == 1

    class NoBucket(FaultyStore):
        has_bucket = False

    without = Accepted(store=NoBucket())
    assert problem_of(without.send(large))[:2] == (400, "request-invalid")
    assert without.store.records == {}


@pytest.mark.parametrize("body", ["\ud800 alone", '{"a": "ü\u2028"}', ""])
def test_a_body_survives_the_way_to_the_worker(body: str) -> None:
    """The handler gets the body that was sent, lone surrogates and all."""
    service = Accepted()
    service.send(with_body(POST, body))
    got: list[Any] = []

    def look(event: Any, _op: object) -> dict[str, Any]:
        got.append(event["body"])
        return {"statusCode": 200}

    service.then = look
    service.works()

    assert got == [body]


def test_wrong_options_are_named() -> None:
    """Each option that makes no sense together is a fault that says what to do."""

    def faults(**options: Any) -> str:
        with pytest.raises(ConfigurationError) as error:
            idempotent(operation="POST /x", tenant=single_tenant(), **options)
        return str(error.value)

    assert "'sync' or 'async'" in faults(mode="later")
    assert "mode='async'" in faults(start_within=timedelta(minutes=5))
    assert "use 'wait'" in faults(mode="async", in_progress="conflict")
    assert "needs a key" in faults(mode="async", required=False)
    with pytest.raises(ConfigurationError, match="a worker cannot run a route"):
        idempotent_route(tenant=jwt_claim("tenant_id"), mode="async")
    with pytest.raises(ConfigurationError, match="not decorated"):
        Jobs(Protected().handler)
    with pytest.raises(ConfigurationError, match="second handler"):
        Jobs(Accepted().handler, Accepted().handler)
    with pytest.raises(ConfigurationError, match="name the handlers"):
        Jobs()


def test_without_an_outbox_nothing_is_accepted() -> None:
    """A store without an outbox is a fault of the configuration that says what to set."""

    class NoOutbox(MemoryStore):
        has_outbox = False

    service = Accepted(store=NoOutbox())

    with pytest.raises(ConfigurationError, match="ONCEKEY_OUTBOX_TABLE"):
        service.send(POST)
    assert service.store.records == {}


def test_accepting_is_one_round_trip() -> None:
    """To accept is one transaction, and so is a repeat; a worker reads, begins and completes."""
    with dynamodb_table() as client:
        client.create_table(
            TableName="outbox",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        recorder = Recorder(client)
        store = DynamoDBStore(TABLE, client=client, outbox="outbox")
        service = Accepted(store=store, effects="unrecorded")
        answers = [service.send(POST)["statusCode"] for _ in range(2)]
        accepting = len(recorder.operations)
        (item,) = client.scan(TableName="outbox")["Items"]
        service.works(delivered(sealed(message_from_item(item))))
        worked = len(recorder.operations)
        shown = body_of(service.asks(item["operation_id"]["S"]))

    assert answers == [202, 202]
    assert recorder.operations[:accepting] == ["TransactWriteItems"] * 2
    assert recorder.operations[accepting + 1 : worked] == ["GetItem", "UpdateItem", "UpdateItem"]
    assert recorder.operations[worked:] == ["GetItem", "GetItem"]
    assert shown["status"] == "completed"
