"""The local SQS and the local streams: their faults, and what moto alone would do otherwise."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import aiohttp
import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ConnectionClosedError

from oncekey_local.store.client import UNANSWERED, StoreClient
from tests.support.dev_service import send
from tests.support.forked_processes import running_store

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A store of our own."""
    with running_store() as address:
        yield address


def client_of(url: str, aws_service: str) -> Any:
    """A client that sends each request once."""
    return boto3.client(
        aws_service,  # type: ignore[call-overload]
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture
def sqs(url: str) -> Iterator[Any]:
    """A client of the store's SQS; afterwards the store has no fault."""
    yield client_of(url, "sqs")
    set_faults(url, down=False, lose_answers=0, delay_ms=0)


def set_faults(url: str, **faults: Any) -> None:
    """Sets faults of the store."""
    import json

    assert send(url, "POST", "/_faults", body=json.dumps(faults).encode()).status == 200


def new_queue(sqs: Any, name: str, **attributes: str) -> str:
    """The URL of a queue that nobody else uses."""
    return str(sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


def bodies(answer: Any) -> list[str]:
    """What was received."""
    return [message["Body"] for message in answer.get("Messages", [])]


def test_long_poll(url: str, sqs: Any) -> None:
    """A receive that waits holds nobody else up, and is answered by what others send meanwhile."""
    queue = new_queue(sqs, "polled")
    answers: list[Any] = []
    waiting = threading.Thread(
        target=lambda: answers.append(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20))
    )
    waiting.start()
    for number in range(3):
        assert client_of(url, "sqs").get_queue_url(QueueName="polled")["QueueUrl"] == queue
        assert waiting.is_alive(), number
    client_of(url, "sqs").send_message(QueueUrl=queue, MessageBody="sent meanwhile")
    waiting.join(timeout=60)
    assert [bodies(answer) for answer in answers] == [["sent meanwhile"]]


def test_long_poll_finds_what_comes_back(sqs: Any) -> None:
    """A receive that waits gets a message as soon as its visibility timeout is over."""
    queue = new_queue(sqs, "back", VisibilityTimeout="1")
    sqs.send_message(QueueUrl=queue, MessageBody="a")
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)) == ["a"]
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)) == ["a"]


def test_long_poll_is_over(sqs: Any) -> None:
    """A receive whose time is over is answered with nothing, one that need not wait at once."""
    queue = new_queue(sqs, "empty")
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1)) == []
    assert bodies(sqs.receive_message(QueueUrl=queue)) == []


@pytest.mark.parametrize(
    ("body", "group", "code"),
    [
        ("a \uffff", "g", "InvalidMessageContents"),
        ("a \ufffe", "g", "InvalidMessageContents"),
        ("a \0", "g", "InvalidMessageContents"),
        ("a", "two words", "InvalidParameterValue"),
        ("a", "müller", "InvalidParameterValue"),
        ("a", "x" * 129, "InvalidParameterValue"),
    ],
)
def test_what_sqs_refuses_is_refused_here(sqs: Any, body: str, group: str, code: str) -> None:
    """Text and names that SQS does not take are refused here, too, with the whole batch.

    Red when the local queue takes what the deployed one does not.
    """
    url = sqs.create_queue(QueueName="strict.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    good = {"MessageBody": "tab \t, é, \U0001f600", "MessageGroupId": "a:b"}
    bad = {"MessageBody": body, "MessageGroupId": group}
    entries = [
        {"Id": str(number), "MessageDeduplicationId": str(number), **entry}
        for number, entry in enumerate((good, bad))
    ]

    with pytest.raises(sqs.exceptions.ClientError) as refused:
        sqs.send_message_batch(QueueUrl=url, Entries=entries)

    assert refused.value.response["Error"]["Code"].endswith(code)
    assert not sqs.send_message_batch(QueueUrl=url, Entries=entries[:1]).get("Failed")


def test_wrong_wait(sqs: Any) -> None:
    """A wait that SQS does not know is refused as ever."""
    queue = new_queue(sqs, "refused")
    with pytest.raises(sqs.exceptions.ClientError, match="WaitTimeSeconds is invalid"):
        sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=21)


def test_nobody_receives_for_somebody_who_has_left(url: str, sqs: Any) -> None:
    """A message is not handed to a receive whose client has gone while it waited."""
    queue = new_queue(sqs, "left")
    request = {"QueueUrl": queue, "WaitTimeSeconds": 20}

    async def leave() -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await StoreClient(session, url).sqs("ReceiveMessage", request)

    asyncio.run(leave())
    sqs.send_message(QueueUrl=queue, MessageBody="for those who stay")
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)) == ["for those who stay"]


def test_down(url: str, sqs: Any) -> None:
    """While the store is down no queue answers, and a receive that waits inside gives up."""
    queue = new_queue(sqs, "down")

    async def wait() -> None:
        async with aiohttp.ClientSession() as session:
            client = StoreClient(session, url)
            request = {"QueueUrl": queue, "WaitTimeSeconds": 20}
            waiting = asyncio.create_task(client.sqs("ReceiveMessage", request))
            # Answered later, on the store's one thread, than the other has come inside.
            await client.sqs("GetQueueAttributes", {"QueueUrl": queue, "AttributeNames": ["All"]})
            await asyncio.to_thread(set_faults, url, down=True)
            with pytest.raises(UNANSWERED):
                await waiting
            with pytest.raises(UNANSWERED):
                await client.sqs("SendMessage", {"QueueUrl": queue, "MessageBody": "a"})

    asyncio.run(wait())
    set_faults(url, down=False)
    assert bodies(sqs.receive_message(QueueUrl=queue)) == []


def test_lost_answers(url: str, sqs: Any) -> None:
    """Sending, deleting and hiding are writes that lose their answers; receiving is none."""
    queue = new_queue(sqs, "lossy", VisibilityTimeout="60")
    set_faults(url, lose_answers=4)
    with pytest.raises(ConnectionClosedError):
        sqs.send_message(QueueUrl=queue, MessageBody="a")
    with pytest.raises(ConnectionClosedError):
        sqs.send_message_batch(QueueUrl=queue, Entries=[{"Id": "1", "MessageBody": "b"}])
    messages = [
        *sqs.receive_message(QueueUrl=queue)["Messages"],
        *sqs.receive_message(QueueUrl=queue)["Messages"],
    ]
    assert [message["Body"] for message in messages] == ["a", "b"]
    first, second = (
        {"QueueUrl": queue, "ReceiptHandle": message["ReceiptHandle"]} for message in messages
    )
    with pytest.raises(ConnectionClosedError):
        sqs.change_message_visibility(**first, VisibilityTimeout=0)
    with pytest.raises(ConnectionClosedError):
        sqs.delete_message(**second)
    sqs.delete_message(**second)  # deleting it twice is no mistake
    assert bodies(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)) == ["a"]


def test_order_after_a_failure(sqs: Any) -> None:
    """Messages of a FIFO group that come back come back in their order."""
    queue = new_queue(sqs, "ordered.fifo", FifoQueue="true", VisibilityTimeout="1")
    for body in "abc":
        sqs.send_message(
            QueueUrl=queue, MessageBody=body, MessageGroupId="g", MessageDeduplicationId=body
        )
    for _ in range(3):
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=20)
        assert bodies(answer) == ["a", "b", "c"]
        assert bodies(sqs.receive_message(QueueUrl=queue)) == []


def test_stream(url: str) -> None:
    """A stream that is followed shows what was written, and nothing of a failed transaction."""
    dynamodb, streams = client_of(url, "dynamodb"), client_of(url, "dynamodbstreams")
    table = dynamodb.create_table(
        TableName="streamed",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )["TableDescription"]
    arn = table["LatestStreamArn"]
    [shard] = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    iterator = streams.get_shard_iterator(
        StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]

    def put(key: str) -> dict[str, Any]:
        condition = "attribute_not_exists(pk)"
        return {
            "TableName": "streamed",
            "Item": {"pk": {"S": key}},
            "ConditionExpression": condition,
        }

    def follow() -> list[str]:
        nonlocal iterator
        answer = streams.get_records(ShardIterator=iterator)
        iterator = answer["NextShardIterator"]
        return [record["dynamodb"]["Keys"]["pk"]["S"] for record in answer["Records"]]

    assert follow() == []
    dynamodb.put_item(**put("a"))
    assert follow() == ["a"]
    with pytest.raises(dynamodb.exceptions.TransactionCanceledException):
        dynamodb.transact_write_items(TransactItems=[{"Put": put("never")}, {"Put": put("a")}])
    assert follow() == []
    dynamodb.put_item(**put("b"))
    assert (follow(), follow()) == (["b"], [])
