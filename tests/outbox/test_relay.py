"""From the outbox table's stream to the queue, on moto: at least once, and deleted only then."""

from __future__ import annotations

import hashlib
import json
import logging
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from oncekey import ConfigurationError, ResponseBucket
from oncekey.errors import EnvelopeUnreadable
from oncekey.outbox.inbox import delivered
from oncekey.outbox.relay import OutboxRelay
from oncekey.record.message import Message
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.store.dynamodb.outbox import OutboxTable, message_item
from oncekey.store.sqs import SqsQueue
from oncekey.testing.memory import ManualClock
from tests.support.dynamodb import BUCKET, dynamodb_table, make_response_bucket, make_table
from tests.support.events import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

OUTBOX = "outbox-under-test"


class Line:
    """An outbox table, a queue and the relay between them."""

    def __init__(self, dynamodb: DynamoDBClient) -> None:
        self.dynamodb = dynamodb
        self.sqs: SQSClient = boto3.client("sqs", region_name="eu-central-1")
        self.url = self.sqs.create_queue(QueueName="work")["QueueUrl"]
        make_table(dynamodb, OUTBOX)
        self.relay = OutboxRelay(
            table=OutboxTable(OUTBOX, client=dynamodb), queue=SqsQueue(self.url, client=self.sqs)
        )

    def write(self, *messages: Message) -> dict[str, Any]:
        """Write messages to the table; the event of its stream."""
        items = [message_item(message) for message in messages]
        for item in items:
            self.dynamodb.put_item(TableName=OUTBOX, Item=item)
        return stream_event(*items)

    def in_table(self) -> set[str]:
        """The ids that are still there."""
        return {item["id"]["S"] for item in self.dynamodb.scan(TableName=OUTBOX)["Items"]}

    def in_queue(self) -> list[str]:
        """The bodies in the queue, which is emptied."""
        bodies: list[str] = []
        while received := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for each in received:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=each["ReceiptHandle"])
            bodies += [each["Body"] for each in received]
        return bodies

    def ids_in_queue(self) -> list[str]:
        """The ids of the messages in the queue, which is emptied."""
        return sorted(delivered(body).id for body in self.in_queue())


@pytest.fixture
def line() -> Iterator[Line]:
    """A line of its own for each test."""
    with dynamodb_table() as client:
        yield Line(client)


def message(number: int, payload: str = '{"n":1}', payload_ref: StoredRef | None = None) -> Message:
    """A message with an id of its own."""
    return Message(
        id=f"message-{number:03d}",
        topic="payment.requested",
        payload=payload,
        operation_id="0f8fad5b-d9cb-469f-a165-70867728950e",
        operation="POST /payments",
        tenant="acme",
        created_at_ms=1_700_000_000_000,
        payload_ref=payload_ref,
    )


def stream_event(*items: dict[str, Any], name: str = "INSERT") -> dict[str, Any]:
    """The event of a stream on which `items` were written, in their order."""
    records = [
        {
            "eventName": name,
            "dynamodb": {"NewImage": item, "SequenceNumber": str(900 + number)},
        }
        for number, item in enumerate(items)
    ]
    return {"Records": records}


def failures(answer: dict[str, Any]) -> list[str]:
    """The sequence numbers that Lambda sends again."""
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def on(client: Any, moment: str, operation: str, call: Any) -> None:
    """Call back at a moment of each call of an operation."""
    service = client.meta.service_model.service_id.hyphenize()
    client.meta.events.register(f"{moment}.{service}.{operation}", call)


def test_a_message_is_sent_and_then_deleted(line: Line) -> None:
    """What was published arrives whole, and its item is gone."""
    answer = line.relay(line.write(message(1, '{"amount":1200,"note":"für 2"}')), None)

    (body,) = line.in_queue()
    arrived = delivered(body)
    assert failures(answer) == []
    assert line.in_table() == set()
    assert arrived.payload == {"amount": 1200, "note": "für 2"}
    assert (arrived.id, arrived.topic, arrived.tenant) == (
        "message-001",
        "payment.requested",
        "acme",
    )
    assert arrived.operation_id == "0f8fad5b-d9cb-469f-a165-70867728950e"
    assert "1200" not in repr(arrived)


def test_more_messages_than_a_batch_takes_are_sent_in_several(line: Line) -> None:
    """Ten entries and 256 KiB are the most that one request carries."""
    sizes: list[int] = []
    on(
        line.sqs,
        "provide-client-params",
        "SendMessageBatch",
        lambda params, **_: sizes.append(len(params["Entries"])),
    )
    small = [message(number) for number in range(23)]
    large = [message(100 + number, json.dumps("x" * 100_000)) for number in range(5)]

    answer = line.relay(line.write(*small, *large), None)

    assert failures(answer) == []
    assert sizes == [10, 10, 5, 2, 1]
    assert line.ids_in_queue() == sorted(each.id for each in (*small, *large))
    assert line.in_table() == set()


def test_nothing_is_deleted_that_the_queue_has_not_acknowledged(line: Line) -> None:
    """While the queue does not answer, every message stays and is reported."""

    def refuse(**_: object) -> None:
        raise ConnectionError("no route to the queue")

    on(line.sqs, "before-call", "SendMessageBatch", refuse)

    answer = line.relay(line.write(message(1), message(2)), None)

    assert failures(answer) == ["900", "901"]
    assert line.in_table() == {"message-001", "message-002"}


def test_an_answer_that_is_lost_costs_a_repeat_and_no_message(line: Line) -> None:
    """Sent and not known to be: it is sent again under the same id, and deleted then."""
    lost = [True]

    def lose(**_: object) -> None:
        if lost.pop() if lost else False:
            raise ConnectionError("the answer was lost")

    on(line.sqs, "after-call", "SendMessageBatch", lose)
    event = line.write(message(1))

    first = line.relay(event, None)
    second = line.relay(event, None)

    assert failures(first) == ["900"]
    assert failures(second) == []
    assert set(line.ids_in_queue()) == {"message-001"}
    assert line.in_table() == set()


def test_only_what_failed_is_sent_again(line: Line) -> None:
    """An entry that the queue had no room for is reported, and the others are done."""
    error = {"Id": "1", "SenderFault": False, "Code": "ServiceUnavailable", "Message": ""}

    def partly(parsed: dict[str, Any], **_: object) -> None:
        parsed["Failed"] = [error]
        parsed["Successful"] = [each for each in parsed["Successful"] if each["Id"] != "1"]

    on(line.sqs, "after-call", "SendMessageBatch", partly)

    answer = line.relay(line.write(message(1), message(2), message(3)), None)

    assert failures(answer) == ["901"]
    assert line.in_table() == {"message-002"}


def test_what_the_queue_will_never_take_is_set_aside(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that is refused for good, is too large, or is none, holds nothing up.

    It stays in the table, and its id is logged without its payload.
    """
    error = {"Id": "0", "SenderFault": True, "Code": "InvalidMessageContents", "Message": ""}

    def refuse_first(parsed: dict[str, Any], **_: object) -> None:
        parsed["Failed"] = [error]

    on(line.sqs, "after-call", "SendMessageBatch", refuse_first)
    event = line.write(
        message(1, '"4242secret"'), message(2), message(3, json.dumps("x" * 300_000))
    )
    line.dynamodb.put_item(
        TableName=OUTBOX, Item={"id": {"S": "odd"}, "payload": {"S": "4242secret"}}
    )
    event["Records"] += stream_event({"id": {"S": "odd"}, "payload": {"S": "4242secret"}})[
        "Records"
    ]

    with caplog.at_level(logging.DEBUG, "oncekey"):
        answer = line.relay(event, None)

    assert failures(answer) == []
    assert line.in_table() == {"message-001", "message-003", "odd"}
    assert "message-001" in caplog.text
    assert "4242secret" not in caplog.text


def test_what_could_not_be_deleted_is_reported(line: Line) -> None:
    """A message that is in the queue and still in the table is relayed again."""

    def unprocessed(parsed: dict[str, Any], **_: object) -> None:
        request = {"DeleteRequest": {"Key": {"id": {"S": "message-002"}}}}
        parsed["UnprocessedItems"] = {OUTBOX: [request]}

    on(line.dynamodb, "after-call", "BatchWriteItem", unprocessed)

    answer = line.relay(line.write(message(1), message(2)), None)

    assert failures(answer) == ["901"]


def test_a_relay_that_comes_second_loses_nothing(line: Line) -> None:
    """Two relays with the same event: the message may be sent twice, under one id."""
    event = line.write(message(1))

    answers = [line.relay(event, None) for _ in range(2)]

    assert [failures(answer) for answer in answers] == [[], []]
    assert line.ids_in_queue() == ["message-001"] * 2


def test_what_is_no_new_message_is_passed_over(line: Line) -> None:
    """Deletions and changes in the stream send nothing, whatever the event source filters."""
    answer = line.relay(stream_event(message_item(message(1)), name="REMOVE"), None)

    assert failures(answer) == []
    assert line.in_queue() == []


def test_messages_of_one_group_keep_their_order(line: Line) -> None:
    """A FIFO queue gets a group of the author's choice, and deduplicates by the message's id."""
    url = line.sqs.create_queue(QueueName="work.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    relay = OutboxRelay(
        table=OutboxTable(OUTBOX, client=line.dynamodb),
        queue=SqsQueue(url, client=line.sqs),
        group=lambda message: message.tenant,
    )
    event = line.write(*(message(number) for number in range(3)))

    relay(event, None)
    relay(event, None)

    line.url = url
    arrived = [delivered(body).id for body in line.in_queue()]
    assert arrived == ["message-000", "message-001", "message-002"]


def test_a_large_payload_is_fetched_from_the_bucket(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that points into the bucket is whole where it arrives; a damaged one is refused.
    The bucket is the given one, or that of the environment.
    """
    s3 = make_response_bucket()
    bucket = ResponseBucket(BUCKET, client=s3)
    bucket.put("outbox/1", b'{"large":true}')
    digest = hashlib.sha256(b'{"large":true}').hexdigest()
    payload_ref = StoredRef(place=Place.OBJECT, name="outbox/1", digest=digest)

    line.relay(line.write(message(1, "", payload_ref)), None)

    (body,) = line.in_queue()
    assert delivered(body, bucket=bucket).payload == {"large": True}
    with pytest.raises(ConfigurationError, match="ONCEKEY_RESPONSE_BUCKET is not set"):
        delivered(body)
    monkeypatch.setenv("ONCEKEY_RESPONSE_BUCKET", BUCKET)
    assert delivered(body).payload == {"large": True}
    bucket.put("outbox/1", b'{"large":false}')
    with pytest.raises(EnvelopeUnreadable, match="gone or damaged"):
        delivered(body, bucket=bucket)


@pytest.mark.fault("K5.2")
def test_a_large_payload_that_cannot_be_read_is_refused(line: Line) -> None:
    """What an earlier release has put into the bucket, too deep for this reader, is an unreadable
    message like any other.

    Red when the reader's own exception comes out of it.
    """
    s3 = make_response_bucket()
    bucket = ResponseBucket(BUCKET, client=s3)
    data = b"[" * 100_000
    bucket.put("outbox/1", data)
    digest = hashlib.sha256(data).hexdigest()
    payload_ref = StoredRef(place=Place.OBJECT, name="outbox/1", digest=digest)

    line.relay(line.write(message(1, "", payload_ref)), None)

    (body,) = line.in_queue()
    with pytest.raises(EnvelopeUnreadable, match="is no JSON"):
        delivered(body, bucket=bucket)


@pytest.mark.parametrize(
    "body", ["", "{}", "[]", "4242secret", '{"id": 1}', '{"id":"a","topic":"t"}', "[" * 100_000]
)
def test_what_is_no_message_is_refused_without_repeating_it(body: str) -> None:
    """Whatever stands in the queue, a worker gets one kind of error for what is no message."""
    with pytest.raises(EnvelopeUnreadable) as refused:
        delivered(body)

    assert "4242" not in str(refused.value)


def test_a_relay_without_table_or_queue_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both variables that are missing are named at the first event, and nothing is sent."""
    for name in ("ONCEKEY_OUTBOX_TABLE", "ONCEKEY_QUEUE_URL"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigurationError, match=r"ONCEKEY_OUTBOX_TABLE.*ONCEKEY_QUEUE_URL"):
        OutboxRelay()({"Records": []}, None)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (load("sqs_payment_requested"), "a batch of SQS messages"),
        ({"Records": [{"eventSource": "aws:kinesis", "kinesis": {}}]}, "a batch of Kinesis"),
        (load("apigw_http_v2_post"), "an HTTP request"),
        ([{"dynamodb": {}, "eventName": "INSERT"}], "a list"),
        ({}, "no batch of records"),
    ],
    ids=["queue", "kinesis", "http", "pipe", "nothing"],
)
def test_a_relay_that_gets_other_events_than_those_of_its_stream_fails(
    line: Line, event: Any, kind: str
) -> None:
    """A relay on the queue itself must not acknowledge the messages that it does not understand.

    Red when it skips them, and the queue deletes them unread.
    """
    with pytest.raises(ConfigurationError, match=f"its event is {kind}"):
        line.relay(event, None)


@pytest.mark.parametrize("group", ["tenant", OutboxRelay])
def test_groups_that_are_no_function_are_refused_when_the_relay_is_made(group: Any) -> None:
    """The name of a member, for example.

    Red when each message is refused for it, and set aside in the end.
    """
    with pytest.raises(ConfigurationError, match="group= is no function of a message"):
        OutboxRelay(group=group)


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"table": "outbox"}, "table= is a str: pass OutboxTable(name)"),
        ({"queue": "https://queue"}, "queue= is a str: pass SqsQueue(url)"),
        ({"queue": SqsQueue}, "queue= is the class SqsQueue: pass SqsQueue(url)"),
        ({"clock": ManualClock}, "clock is the class ManualClock"),
    ],
)
def test_a_relay_with_a_wrong_part_is_refused_when_it_is_made(
    wrong: dict[str, Any], fault: str
) -> None:
    """The name of the table or the queue, for example, in place of the object."""
    with pytest.raises(ConfigurationError) as refused:
        OutboxRelay(**wrong)
    assert fault in str(refused.value)


async def _async_group(_message: Any) -> str:
    return "everybody"


def _generator_group(_message: Any) -> Any:
    yield "everybody"


@pytest.mark.parametrize("group", [_async_group, _generator_group])
def test_a_group_that_nobody_would_await_is_refused(group: Any) -> None:
    """What it makes is no group, so that every message would be set aside."""
    with pytest.raises(ConfigurationError, match="async function or a generator"):
        OutboxRelay(group=group)
