"""The local DynamoDB and S3: their faults, and that what it does is atomic."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import boto3
import pytest
from aiohttp.test_utils import RawTestServer as TestServer
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from oncekey_local.store.engines import Engines
from oncekey_local.store.store import Store
from tests.support.dev_service import send
from tests.support.forked_processes import running_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

TABLE = "things"
ABSENT = "attribute_not_exists(pk)"
CALLERS = 32


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A store of our own, with one table."""
    with running_store() as address:
        client_of(address).create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        )
        yield address


@pytest.fixture
def client(url: str) -> Iterator[DynamoDBClient]:
    """A client that sends each request once; afterwards the store has no fault."""
    yield client_of(url)
    set_faults(url, down=False, lose_answers=0, delay_ms=0)


def client_of(url: str) -> DynamoDBClient:
    """A client of the store at this address."""
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}, max_pool_connections=CALLERS),
    )


def s3_of(url: str) -> S3Client:
    """A client of the store's S3."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",
        config=Config(retries={"total_max_attempts": 1}),
    )


def set_faults(url: str, **faults: Any) -> tuple[int, Any]:
    """The status and body of the answer."""
    answer = send(url, "POST", "/_faults", body=json.dumps(faults).encode())
    return answer.status, answer.json()


def put(client: DynamoDBClient, key: str) -> bool:
    """Whether this conditional put was the first."""
    try:
        client.put_item(TableName=TABLE, Item={"pk": {"S": key}}, ConditionExpression=ABSENT)
    except client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def has(client: DynamoDBClient, key: str) -> bool:
    """Whether the store has the item."""
    answer = client.get_item(TableName=TABLE, Key={"pk": {"S": key}}, ConsistentRead=True)
    return "Item" in answer


def test_faults_are_shown(url: str, client: DynamoDBClient) -> None:
    """A change of some faults leaves the others, and the answer shows them all."""
    assert set_faults(url, lose_answers=2, delay_ms=1)[0] == 200
    shown = {"down": True, "lose_answers": 2, "delay_ms": 1}
    assert set_faults(url, down=True) == (200, shown)
    assert send(url, "GET", "/_faults").json() == shown


@pytest.mark.parametrize(
    ("body", "complaints"),
    [
        ({"down": 1, "lost": 2}, ["down must be true or false", "'lost' is unknown"]),
        ({"lose_answers": -1, "delay_ms": True}, ["lose_answers must be", "delay_ms must be"]),
        ([], ["send a JSON object"]),
        (None, ["send a JSON object"]),
    ],
)
def test_wrong_faults(url: str, client: DynamoDBClient, body: Any, complaints: list[str]) -> None:
    """A wrong change is 400, names all that is wrong with it, and changes nothing."""
    answer = send(url, "POST", "/_faults", body=json.dumps(body).encode())
    assert answer.status == 400
    assert all(complaint in answer.json()["error"] for complaint in complaints)
    assert send(url, "GET", "/_faults").json()["down"] is False


def test_faults_that_are_no_json(url: str) -> None:
    """A change that is not JSON is 400, and says what a change looks like."""
    for body in (b"\xff{", b""):
        answer = send(url, "POST", "/_faults", body=body)
        assert answer.status == 400
        assert answer.json()["error"] == 'the body must be JSON, such as {"down": true}'
    assert send(url, "DELETE", "/_faults").status == 405


def test_down(url: str, client: DynamoDBClient) -> None:
    """While the store is down nothing is answered and nothing is applied."""
    set_faults(url, down=True)
    with pytest.raises(ConnectionClosedError):
        put(client, "while-down")
    with pytest.raises(ConnectionClosedError):
        has(client, "while-down")
    set_faults(url, down=False)
    assert not has(client, "while-down")
    assert put(client, "while-down")


def test_lost_answers(url: str, client: DynamoDBClient) -> None:
    """So many writes are applied and not answered; reads, and the writes after them, are."""
    set_faults(url, lose_answers=2)
    for key in ("lost-1", "lost-2"):
        assert not has(client, key)
        with pytest.raises(ConnectionClosedError):
            put(client, key)
        assert has(client, key)
    assert put(client, "not-lost")
    assert send(url, "GET", "/_faults").json()["lose_answers"] == 0


def test_lost_transaction(url: str, client: DynamoDBClient) -> None:
    """A transaction, an update and a deletion are writes as well."""
    set_faults(url, lose_answers=3)
    key = {"pk": {"S": "transacted"}}
    with pytest.raises(ConnectionClosedError):
        client.transact_write_items(TransactItems=[{"Put": {"TableName": TABLE, "Item": key}}])
    with pytest.raises(ConnectionClosedError):
        client.update_item(
            TableName=TABLE,
            Key=key,
            UpdateExpression="SET a = :a",
            ExpressionAttributeValues={":a": {"S": "1"}},
        )
    assert client.get_item(TableName=TABLE, Key=key)["Item"]["a"] == {"S": "1"}
    with pytest.raises(ConnectionClosedError):
        client.delete_item(TableName=TABLE, Key=key)
    assert not has(client, "transacted")


def test_down_spares_what_is_inside(url: str, client: DynamoDBClient) -> None:
    """A request that is inside when the store goes down is still applied and answered."""
    body = json.dumps({"TableName": TABLE, "Item": {"pk": {"S": "inside"}}}).encode()
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.putrequest("POST", "/")
    for name, value in (
        ("X-Amz-Target", "DynamoDB_20120810.PutItem"),
        (
            "Authorization",
            "AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/dynamodb/aws4_request",
        ),
        ("Content-Length", str(len(body))),
        ("Expect", "100-continue"),
    ):
        connection.putheader(name, value)
    connection.endheaders()
    with connection.sock.makefile("rb") as stream:
        assert stream.readline() == b"HTTP/1.1 100 Continue\r\n"  # it is inside
        assert stream.readline() == b"\r\n"
        set_faults(url, down=True)
        connection.send(body)
        assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
    connection.close()
    set_faults(url, down=False)
    assert has(client, "inside")


def test_faults_concern_s3(url: str, client: DynamoDBClient) -> None:
    """S3 goes down with the rest of the store, and its writes can lose their answers as well."""
    s3 = s3_of(url)
    s3.create_bucket(Bucket="things")
    set_faults(url, down=True)
    with pytest.raises(ConnectionClosedError):
        s3.put_object(Bucket="things", Key="while-down", Body=b"1")
    with pytest.raises(ConnectionClosedError):
        s3.list_objects_v2(Bucket="things")
    set_faults(url, down=False, lose_answers=1)
    assert s3.list_objects_v2(Bucket="things")["KeyCount"] == 0
    with pytest.raises(ConnectionClosedError):
        s3.put_object(Bucket="things", Key="lost", Body=b"1")
    assert s3.get_object(Bucket="things", Key="lost")["Body"].read() == b"1"


def test_object_is_kept_as_it_was_sent(url: str) -> None:
    """An object comes back as its bytes, also when they are said to be compressed."""
    s3, body = s3_of(url), gzip.compress(b"text")
    s3.create_bucket(Bucket="compressed")
    s3.put_object(Bucket="compressed", Key="a", Body=body, ContentEncoding="gzip")
    got = s3.get_object(Bucket="compressed", Key="a")
    assert (got["Body"].read(), got["ContentEncoding"]) == (body, "gzip")


class Meeting:
    """A WSGI application that notices when two requests are in it at the same time."""

    def __init__(self) -> None:
        self.overlapped = False
        self._both = threading.Barrier(2)

    def __call__(self, _environ: Any, start_response: Any) -> list[bytes]:
        """Waits a moment for company, then answers."""
        try:
            self._both.wait(timeout=0.2)
        except threading.BrokenBarrierError:
            self._both.reset()
        else:
            self.overlapped = True
        start_response("200 OK", [])
        return []


def test_one_request_at_a_time() -> None:
    """The store's engine never has two requests inside, however many arrive at once."""
    engine = Meeting()

    async def ask_twice() -> None:
        store = Store(
            Engines(
                dynamodb=engine, streams=engine, sqs=engine, s3=engine, has_messages=lambda _: False
            )
        )
        async with TestServer(store.handle) as server, aiohttp.ClientSession() as session:
            url = server.make_url("/")
            answers = await asyncio.gather(session.post(url), session.post(url))
            assert [answer.status for answer in answers] == [200, 200]

    asyncio.run(ask_twice())
    assert not engine.overlapped


def test_one_winner(client: DynamoDBClient) -> None:
    """Of many callers who put the same absent key at once, exactly one succeeds."""
    barrier = threading.Barrier(CALLERS)

    def race(number: int) -> bool:
        barrier.wait()
        return put(client, f"raced-{number}")

    with ThreadPoolExecutor(CALLERS) as threads:
        for number in range(10):
            assert sum(threads.map(race, [number] * CALLERS)) == 1


def test_failing_transactions_harm_nobody(client: DynamoDBClient) -> None:
    """No acknowledged write vanishes beside transactions that fail."""
    assert put(client, "in-the-way")

    def fail(number: int) -> None:
        items: Any = [
            {"Put": {"TableName": TABLE, "Item": {"pk": {"S": f"never-{number}"}}}},
            {
                "Put": {
                    "TableName": TABLE,
                    "Item": {"pk": {"S": "in-the-way"}},
                    "ConditionExpression": ABSENT,
                }
            },
        ]
        with pytest.raises(ClientError, match="TransactionCanceledException"):
            client.transact_write_items(TransactItems=items)

    with ThreadPoolExecutor(8) as threads:
        failures = [threads.submit(fail, number) for number in range(100)]
        puts = [threads.submit(put, client, f"beside-{number}") for number in range(100)]
        assert all(future.result() for future in puts)
        for failure in failures:
            failure.result()
    assert all(has(client, f"beside-{number}") for number in range(100))
    assert not any(has(client, f"never-{number}") for number in range(100))
